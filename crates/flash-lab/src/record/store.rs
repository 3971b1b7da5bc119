//! `DIR/PLAN/`, read and written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::run::{Measurement, Run};

/// Why records cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Run { path: PathBuf, source: serde_json::Error },
    #[error("{}, line {line}: {source}", path.display())]
    Line { path: PathBuf, line: usize, source: serde_json::Error },
}

/// The folder of a plan's records.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Open for adding once something was added.
    raw: Option<File>,
}

impl Store {
    /// Where the records of this plan lie, or will lie.
    pub fn new(out: &Path, plan: &str) -> Store {
        Store { folder: out.join(plan), raw: None }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The circumstances and all measurements so far. None where there is no run.
    ///
    /// The last line of a run that was killed while it wrote is half a line; it counts as never written.
    pub fn read(&self) -> Result<Option<(Run, Vec<Measurement>)>, RecordError> {
        let path = self.folder.join("run.json");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(RecordError::Io { path, source }),
        };
        let run = serde_json::from_str(&text).map_err(|source| RecordError::Run { path, source })?;
        let path = self.raw_path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(RecordError::Io { path, source }),
        };
        let mut measurements = Vec::new();
        for (number, line) in whole_lines(&bytes).split_inclusive(|byte| *byte == b'\n').enumerate() {
            let measurement = serde_json::from_slice(line).map_err(|source| RecordError::Line {
                path: path.clone(),
                line: number + 1,
                source,
            })?;
            measurements.push(measurement);
        }
        Ok(Some((run, measurements)))
    }

    /// Begins a run: whatever was here is gone.
    pub fn begin(&mut self, run: &Run) -> Result<(), RecordError> {
        fs::create_dir_all(&self.folder).map_err(|source| self.failed(&self.folder, source))?;
        let raw = self.raw_path();
        self.raw = Some(File::create(&raw).map_err(|source| self.failed(&raw, source))?);
        self.write_run(run)
    }

    /// Goes on with a run: half a line at the end is cut off.
    pub fn resume(&mut self) -> Result<(), RecordError> {
        let path = self.raw_path();
        let failed = |source| RecordError::Io { path: path.clone(), source };
        let mut file = OpenOptions::new().append(true).read(true).create(true).open(&path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        file.set_len(whole_lines(&bytes).len() as u64).map_err(failed)?;
        self.raw = Some(file);
        Ok(())
    }

    /// Replaces `run.json` as a whole.
    pub fn write_run(&self, run: &Run) -> Result<(), RecordError> {
        let (path, new) = (self.folder.join("run.json"), self.folder.join("run.json.new"));
        let text = serde_json::to_string_pretty(run).expect("plain data has a written form") + "\n";
        write_synced(&new, text.as_bytes())
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|source| self.failed(&path, source))
    }

    /// Adds a measurement, on the disk when this returns.
    pub fn add(&mut self, measurement: &Measurement) -> Result<(), RecordError> {
        let mut line = serde_json::to_string(measurement).expect("plain data has a written form");
        line.push('\n');
        let path = self.raw_path();
        let file = self.raw.as_mut().expect("a run has been begun or resumed");
        file.write_all(line.as_bytes())
            .and_then(|()| file.sync_data())
            .map_err(|source| RecordError::Io { path, source })
    }

    fn raw_path(&self) -> PathBuf {
        self.folder.join("raw.jsonl")
    }

    fn failed(&self, path: &Path, source: io::Error) -> RecordError {
        RecordError::Io { path: path.to_path_buf(), source }
    }
}

fn whole_lines(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)]
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
