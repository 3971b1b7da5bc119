//! A workload's files on a disk. [`make_site`] writes them below a folder, with several threads, and skips files that exist. A
//! file `site.flash-site.json` beside the folder `site` records what was made; no server of the folder serves it. If a folder
//! has files but no such record, [`make_site`] writes nothing, because the files are not its own. If programs answer some of
//! the requests, it puts them there too.

mod note;
mod site_error;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::content::Content;
use crate::name;
use crate::programs;
use crate::workload::Catalogue;

pub use self::note::{Note, note_path};
pub use self::site_error::SiteError;

/// Four threads keep a disk busy; processors have other things to do.
const THREADS_MAX: usize = 4;

const BUFFER_BYTES: usize = 256 << 10;

/// The progress so far, for display.
#[derive(Debug, Default)]
pub struct Progress {
    /// Files written.
    pub written: AtomicU64,
    /// Files that were there already.
    pub kept: AtomicU64,
    /// Bytes of both.
    pub bytes: AtomicU64,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Files written.
    pub written: u64,
    /// Files that were there already with the right size, from the same seed.
    pub kept: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// Writes the files of a catalogue below `folder`, which is made if need be. What they hold is [`Content`]'s affair, from
/// the same seed. `workload` says for people's eyes what the files are for.
pub fn make_site(
    folder: &Path,
    catalogue: &Catalogue,
    seed: u64,
    workload: &str,
    progress: &Progress,
) -> Result<Made, SiteError> {
    let files = placed(catalogue)?;
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        |source| SiteError::Write { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let folder = &folder.canonicalize().map_err(failed(folder))?;
    let bytes = files.values().map(|planned| planned.bytes).sum();
    let mut note =
        Note { seed, workload: workload.into(), files: files.len() as u64, bytes, complete: false };
    let may_keep = match Note::read(folder)? {
        Some(before) => before.seed == seed,
        None if is_empty(folder).map_err(failed(folder))? => false,
        None => return Err(SiteError::NotOurs { folder: folder.clone(), note: note_path(folder) }),
    };
    note.write(folder)?;
    for above in files.keys().filter_map(|path| path.parent()).collect::<BTreeSet<_>>() {
        let above = folder.join(above);
        fs::create_dir_all(&above).map_err(failed(&above))?;
    }
    write_all(folder, &files, seed, may_keep, progress)?;
    if catalogue.files.iter().any(|file| file.program) {
        programs::install(folder, seed)?;
    }
    note.complete = true;
    note.write(folder)?;
    let done = |count: &AtomicU64| count.load(Ordering::Relaxed);
    Ok(Made { written: done(&progress.written), kept: done(&progress.kept), bytes })
}

struct Planned<'a> {
    target: &'a str,
    bytes: u64,
}

/// Every file by its place, in an order that keeps folders together.
fn placed(catalogue: &Catalogue) -> Result<BTreeMap<PathBuf, Planned<'_>>, SiteError> {
    let mut files = BTreeMap::new();
    for file in catalogue.files.iter().filter(|file| !file.program) {
        let target = &file.target;
        let path = name::path_of(target).map_err(|why| SiteError::Name { target: target.clone(), why })?;
        let bytes = file.bytes.ok_or_else(|| SiteError::UnknownSize { target: target.clone() })?;
        let before = files.insert(path, Planned { target, bytes });
        if before.is_some_and(|before| before.bytes != bytes) {
            return Err(SiteError::Twice { target: target.clone() });
        }
    }
    Ok(files)
}

/// A filesystem's own folder is no file.
fn is_empty(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        if entry?.file_name() != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes until all is written or one thread has failed.
fn write_all(
    folder: &Path,
    files: &BTreeMap<PathBuf, Planned>,
    seed: u64,
    may_keep: bool,
    progress: &Progress,
) -> Result<(), SiteError> {
    let files: Vec<_> = files.iter().collect();
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let work = || {
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Some((path, planned)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let path = folder.join(path);
            let done = if may_keep && is_there(&path, planned.bytes) {
                progress.kept.fetch_add(1, Ordering::Relaxed);
                progress.bytes.fetch_add(planned.bytes, Ordering::Relaxed);
                Ok(())
            } else {
                write(&path, planned, seed, &mut buffer, progress)
            };
            if let Err(source) = done {
                next.store(files.len(), Ordering::Relaxed);
                let mut first = failure.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(SiteError::Write { path, source });
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn is_there(path: &Path, bytes: u64) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == bytes)
}

fn write(
    path: &Path,
    planned: &Planned,
    seed: u64,
    buffer: &mut [u8],
    progress: &Progress,
) -> io::Result<()> {
    let content = Content::new(seed, planned.target);
    let mut file = File::create(path)?;
    let mut offset = 0;
    while offset < planned.bytes {
        let left = usize::try_from(planned.bytes - offset).unwrap_or(usize::MAX);
        let window = buffer.len().min(left);
        let window = &mut buffer[..window];
        content.fill(offset, window);
        file.write_all(window)?;
        offset += window.len() as u64;
        progress.bytes.fetch_add(window.len() as u64, Ordering::Relaxed);
    }
    progress.written.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
