//! The journal: what has been changed on the machine and how it is undone, written down before it is changed.
//!
//! It is one file on which its process holds a lock. Whoever finds it unlocked and not empty knows that its writer was
//! killed, and undoes what is left in it, the last change first. Nothing in it outlives the machine's next start, for
//! none of the changes does; so it lies in `/run`, and is not synced.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::undo::Undo;

/// The journal of a process that lives, and holds the machine for itself.
pub(crate) struct Journal {
    state: Mutex<JournalState>,
}

struct JournalState {
    file: File,
    next: u64,
    open: BTreeMap<u64, Undo>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Begin { number: u64, undo: Undo },
    End { number: u64 },
}

impl Journal {
    /// Takes the journal in this folder, undoes what a killed process left in it, and says what that was.
    pub(crate) fn take(folder: &Path) -> Result<(Arc<Journal>, Vec<String>)> {
        make_private(folder)?;
        let path = folder.join("journal");
        let mut file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another run has the machine: it holds {}", path.display());
        }
        let left = read(&mut file)?;
        if file.metadata()?.len() > 0 {
            // Whatever was cut short ends here, and swallows no line of ours.
            file.write_all(b"\n").context("writing the journal")?;
        }
        let journal = Journal {
            state: Mutex::new(JournalState {
                file,
                next: left.keys().last().map_or(0, |last| last + 1),
                open: left.clone(),
            }),
        };
        let mut restored = Vec::new();
        for (number, undo) in left.into_iter().rev() {
            // What cannot be undone stays in the journal, and is said again by the next run.
            match undo.perform() {
                Ok(()) => {
                    journal.end(number)?;
                    restored.push(undo.to_string());
                }
                Err(error) => restored.push(format!("could not restore: {undo}: {error:#}")),
            }
        }
        Ok((Arc::new(journal), restored))
    }

    /// Writes down how something will be undone. To be called before it is done.
    pub(crate) fn begin(self: &Arc<Self>, undo: Undo) -> Result<Change> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.write(&Line::Begin { number, undo: undo.clone() })?;
        state.open.insert(number, undo);
        Ok(Change { journal: Arc::clone(self), number })
    }

    fn end(&self, number: u64) -> Result<()> {
        let mut state = self.state();
        state.open.remove(&number);
        if state.open.is_empty() {
            return state.file.set_len(0).context("emptying the journal");
        }
        state.write(&Line::End { number })
    }

    fn state(&self) -> MutexGuard<'_, JournalState> {
        // Whatever panicked, the rest still has to be put back.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JournalState {
    fn write(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).context("writing the journal")
    }
}

/// A change that is in force. Dropping it undoes it.
pub(crate) struct Change {
    journal: Arc<Journal>,
    number: u64,
}

impl Drop for Change {
    fn drop(&mut self) {
        let undo = self.journal.state().open.get(&self.number).cloned();
        // What could not be undone stays in the journal, for the next run to try again.
        let done = undo.map_or(Ok(()), |undo| {
            undo.perform().with_context(|| format!("could not restore: {undo}"))?;
            self.journal.end(self.number)
        });
        if let Err(error) = done {
            let _ = writeln!(io::stderr(), "rig: {error:#}");
        }
    }
}

/// The changes that are still to be undone.
fn read(file: &mut File) -> Result<BTreeMap<u64, Undo>> {
    file.rewind()?;
    let mut open = BTreeMap::new();
    for line in BufReader::new(file).split(b'\n') {
        // A line that was cut short was never followed by its change.
        match serde_json::from_slice(&line?) {
            Ok(Line::Begin { number, undo }) => _ = open.insert(number, undo),
            Ok(Line::End { number }) => _ = open.remove(&number),
            Err(_) => {}
        }
    }
    Ok(open)
}

/// Where the journal lies: one place for all runs of one user.
pub(crate) fn folder() -> PathBuf {
    if geteuid().is_root() {
        return "/run/flash-rig".into();
    }
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) => PathBuf::from(folder).join("flash-rig"),
        None => env::temp_dir().join(format!("flash-rig-{}", geteuid().as_raw())),
    }
}

/// Makes the folder, and trusts it only if nobody else may write there: what the journal says is done.
fn make_private(folder: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        done => done.with_context(|| format!("making {}", folder.display()))?,
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        bail!("{} is not a folder that only this user may write", folder.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A folder with a setting, which is a file here.
    fn place(value: &str) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let setting = folder.path().join("setting");
        fs::write(&setting, value).expect("a file");
        (folder, setting)
    }

    fn journal(folder: &TempDir) -> (Arc<Journal>, Vec<String>) {
        Journal::take(&folder.path().join("journal")).expect("nobody has it")
    }

    fn write(file: &Path, value: &str) -> Undo {
        Undo::Write { file: file.into(), value: value.into() }
    }

    fn text(file: &Path) -> String {
        fs::read_to_string(file).expect("a file")
    }

    #[test]
    fn changes_are_undone_once_and_forgotten() {
        let (folder, setting) = place("new");
        let (journal, restored) = journal(&folder);
        assert!(restored.is_empty());
        let change = journal.begin(write(&setting, "old")).expect("room");
        assert!(text(&folder.path().join("journal/journal")).contains("old"), "before anything is changed");
        drop(change);
        assert_eq!(text(&setting), "old");
        assert_eq!(text(&folder.path().join("journal/journal")), "");
        assert!(Journal::take(&folder.path().join("journal")).is_err(), "it is held");
    }

    #[test]
    fn what_a_killed_run_left_is_undone_last_first() {
        let (folder, setting) = place("third");
        let (first, _) = journal(&folder);
        let keep = |undo| std::mem::forget(first.begin(undo).expect("room"));
        keep(write(&setting, "first"));
        drop(first.begin(write(&folder.path().join("other"), "done")).expect("room"));
        keep(write(&setting, "second"));
        // The lock goes with the file, as it does with a process. The last line was being written.
        let mut state = first.state();
        state.file.write_all(b"{\"begin\":{\"number\":9,\"undo\":{\"wri").expect("room");
        flock(&state.file, FlockOperation::Unlock).expect("ours");
        drop(state);
        fs::write(folder.path().join("other"), "untouched").expect("a file");

        let (second, restored) = journal(&folder);
        assert_eq!(text(&setting), "first", "{restored:?}");
        assert_eq!(restored.len(), 2, "{restored:?}");
        assert_eq!(text(&folder.path().join("other")), "untouched");
        drop(second);
        assert!(journal(&folder).1.is_empty());
    }

    #[test]
    fn what_cannot_be_undone_is_said_and_kept() {
        let (folder, _) = place("");
        let (first, _) = journal(&folder);
        // A folder is no setting.
        let undo = write(folder.path(), "1");
        std::mem::forget(first.begin(undo).expect("room"));
        let mut state = first.state();
        state.file.write_all(b"{\"begin\":").expect("room");
        flock(&state.file, FlockOperation::Unlock).expect("ours");
        drop(state);
        for round in 0..3 {
            let (next, restored) = journal(&folder);
            assert_eq!(restored.len(), 1 + round, "{restored:?}");
            assert!(restored.iter().all(|line| line.contains("could not restore")), "{restored:?}");
            std::mem::forget(next.begin(write(folder.path(), "2")).expect("room"));
            flock(&next.state().file, FlockOperation::Unlock).expect("ours");
        }
    }

    #[test]
    fn a_folder_that_others_may_write_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("our folder");
        assert!(Journal::take(folder.path()).is_err());
    }
}
