//! Reads all names of a folder for a table. May wait for the disk.
//!
//! A table is valid while the folder has the stamp that it had before and after it was read. That is sound only if
//! each later change of the folder changes its stamp, and if only listed names lead to files. So a folder that has
//! just changed is not read yet. A folder that finds names by other spellings is never read.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use flash_os::file_stat;
use flash_os::folder_entries::Entries;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::table::{FolderState, Table, Term, marked};
use crate::call_timer::{Stage, timed};
use crate::mounts::NameRule;
use crate::open_at::open_listed;
use crate::stat::{self, FileStat};

/// The result of reading a folder.
#[derive(Debug)]
pub(crate) enum Reading {
    Whole(Table),
    /// The folder has more names than were to be read.
    MoreThan(u32),
    /// The folder finds other names than it lists.
    Never,
    /// The folder is changing, or cannot be read.
    NotNow,
}

/// The kernel's coarse clock ticks at least every 10 ms, so a later change has another time.
const RESTED_NS: i64 = 20_000_000;
/// Some filesystems round times down, to 2 s at most.
const RESTED_ROUNDED_NS: i64 = 3_000_000_000;
/// A time that is a multiple of this counts as rounded.
const ROUNDED_TO_NS: i64 = 1_000_000;
/// The most bytes that a folder uses for a name.
const ENTRY_BYTES_MAX: u64 = 280;
const BUFFER_BYTES: usize = 32 << 10;
/// U+00AD. A folder that ignores case also ignores this character.
const SOFT_HYPHEN: &[u8] = "\u{ad}".as_bytes();

/// A folder to read, open with `O_PATH`, and its state.
pub(crate) struct OpenFolder {
    pub(crate) open: OwnedFd,
    pub(crate) examined: FileStat,
    /// The number of its mount root.
    pub(crate) mount_root: u64,
    pub(crate) rule: NameRule,
}

impl OpenFolder {
    pub(crate) fn state(&self) -> FolderState {
        FolderState { mount_root: self.mount_root, stamp: self.examined.stamp }
    }

    /// Reads the folder. `hash` gets each name, and whether it is a regular file's.
    pub(crate) fn read(
        &self,
        names_max: u32,
        briefly: Duration,
        mut hash: impl FnMut(&[u8], bool) -> u32,
    ) -> Reading {
        let before = &self.examined;
        let term = match self.rule {
            NameRule::Ask => return Reading::Never,
            NameRule::Briefly => Some(Term::new(Duration::ZERO, briefly)),
            NameRule::WhileUnchanged => None,
        };
        if before.may_be_encrypted {
            // Its names depend on the encryption keys that the kernel has.
            return Reading::Never;
        }
        if before.stamp.size / ENTRY_BYTES_MAX > names_max.into() {
            return Reading::MoreThan(names_max);
        }
        // The time is read before the folder is opened, because some filesystems list only what was there by then.
        if !is_rested(before.stamp.changed_ns, stat::unix_ns()) {
            return Reading::NotNow;
        }
        let Ok(folder) = open_listed(&self.open) else { return Reading::NotNow };
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
        let mut entries = Entries::new(&folder, &mut buffer);
        let mut hashes = Vec::new();
        let mut sample = Sample::default();
        while let Some(entry) = timed(Stage::Read, "getdents64", || entries.next()) {
            let Ok(entry) = entry else { return Reading::NotNow };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if hashes.len() == names_max as usize {
                return Reading::MoreThan(names_max);
            }
            let is_file = entry.file_type() == FileType::RegularFile;
            hashes.push(marked(hash(name, is_file), is_file));
            sample.take(name);
        }
        match sample.has_other_spellings(|name| inode(&folder, name)) {
            Ok(false) => {}
            Ok(true) => return Reading::Never,
            Err(_) => return Reading::NotNow,
        }
        match stat::examine(&folder) {
            Ok(after) if after.stamp == before.stamp => {
                Reading::Whole(Table::new(hashes, Some(self.state()), term))
            }
            _ => Reading::NotNow,
        }
    }
}

/// Whether a change after `now_ns` gets another time than this.
fn is_rested(changed_ns: i64, now_ns: i64) -> bool {
    let least = if changed_ns % ROUNDED_TO_NS == 0 { RESTED_ROUNDED_NS } else { RESTED_NS };
    // A time in the future says nothing.
    now_ns.saturating_sub(changed_ns) >= least
}

/// A name of the folder, to test whether the folder finds it by another spelling too.
#[derive(Default)]
struct Sample {
    name: Vec<u8>,
    /// It has an ASCII letter, which has two cases.
    has_letter: bool,
    /// Some name is not ASCII.
    is_foreign: bool,
}

impl Sample {
    fn take(&mut self, name: &[u8]) {
        self.is_foreign |= !name.is_ascii();
        if self.has_letter {
            return;
        }
        // A name that is not UTF-8 has no other spelling.
        self.has_letter = name.iter().any(u8::is_ascii_alphabetic) && str::from_utf8(name).is_ok();
        if self.has_letter || self.name.is_empty() {
            self.name = name.to_vec();
        }
    }

    /// `inode` looks a name up. The other spelling comes first, because a missing name has no inode to read. On a cold disk
    /// ext4 reads up to 32 blocks for an inode.
    fn has_other_spellings(
        self,
        mut inode: impl FnMut(&[u8]) -> Result<Option<u64>, Errno>,
    ) -> Result<bool, Errno> {
        if self.name.is_empty() {
            // The folder is empty.
            return Ok(false);
        }
        let mut other = self.name.clone();
        match other.iter_mut().find(|byte| byte.is_ascii_alphabetic()) {
            Some(letter) if self.has_letter => *letter ^= 0x20,
            _ if self.is_foreign => return Ok(true),
            _ => other.extend_from_slice(SOFT_HYPHEN),
        }
        let Some(other) = inode(&other)? else { return Ok(false) };
        // Two links to one file count as two spellings. The only cost is that there is no table.
        Ok(inode(&self.name)? == Some(other))
    }
}

/// The number of a name's inode, `None` if the name is missing.
fn inode(folder: impl AsFd, name: &[u8]) -> Result<Option<u64>, Errno> {
    match timed(Stage::Walk, file_stat::call(), || file_stat::at(&folder, name, false)) {
        Err(Errno::NOENT) => Ok(None),
        found => Ok(Some(found?.inode)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_change_has_to_lie_back_for_longer_than_the_clock_ticks() {
        let now = 1_700_000_000_123_456_789;
        for (age_ns, rested) in [(0, false), (19_999_999, false), (20_000_001, true), (-1_000_000_001, false)]
        {
            assert_eq!(is_rested(now - age_ns, now), rested, "{age_ns}");
        }
        // A folder on a filesystem that keeps seconds, or pairs of them.
        let rounded = 1_700_000_000_000_000_000;
        assert!(!is_rested(rounded, rounded + 2_999_999_999) && is_rested(rounded, rounded + 3_000_000_000));
    }

    /// As far as it can be seen on a folder that does not ignore case: its two spellings are two links to one file.
    #[test]
    fn a_folder_that_ignores_case_is_seen_by_any_of_its_names() {
        let spellings = |names: &[&[u8]], links: &[(&str, &str)]| {
            let place = tempfile::TempDir::new().unwrap();
            let mut sample = Sample::default();
            for name in names {
                use std::os::unix::ffi::OsStrExt;
                fs::write(place.path().join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
                sample.take(name);
            }
            for (name, link) in links {
                fs::hard_link(place.path().join(name), place.path().join(link)).unwrap();
            }
            let folder = fs::File::open(place.path()).unwrap();
            sample.has_other_spellings(|name| inode(&folder, name)).unwrap()
        };
        assert!(!spellings(&[], &[]));
        assert!(!spellings(&[b"a.txt"], &[]));
        assert!(!spellings(&[b"a", b"A"], &[]));
        assert!(spellings(&[b"a.txt"], &[("a.txt", "A.txt")]));
        assert!(
            spellings(&[b"1", b"\xff\xfex", b"2.x"], &[("2.x", "2.X")]),
            "the name that tells most is tried"
        );
        assert!(!spellings(&[b"1", b"2"], &[]));
        assert!(spellings(&[b"1", b"2"], &[("1", "1\u{ad}")]));
        assert!(spellings(&[b"1", "\u{fc}".as_bytes()], &[]), "nobody can tell");
    }

    #[test]
    fn no_inode_is_read_where_the_other_spelling_is_missing() {
        let mut sample = Sample::default();
        sample.take(b"a.txt");
        let mut looked_up = Vec::new();
        let found = sample.has_other_spellings(|name| {
            looked_up.push(name.to_vec());
            Ok((name == b"a.txt").then_some(1))
        });
        assert_eq!((found, looked_up), (Ok(false), vec![b"A.txt".to_vec()]));
    }

    #[test]
    fn a_folder_that_changes_while_it_is_read_is_read_in_vain() {
        let folder = tempfile::TempDir::new().unwrap();
        let write = |name: &str| fs::write(folder.path().join(name), "").unwrap();
        let read = |comes: Option<&str>| {
            std::thread::sleep(Duration::from_millis(30));
            let (open, rule) = (open(folder.path()), NameRule::WhileUnchanged);
            let place = OpenFolder { examined: stat::examine(&open).unwrap(), open, mount_root: 0, rule };
            place.read(100, Duration::ZERO, |_, _| {
                comes.into_iter().for_each(write);
                0
            })
        };
        write("a");
        if !matches!(read(None), Reading::Whole(_)) {
            return eprintln!("skipped: this filesystem's times are not exact");
        }
        assert!(matches!(read(Some("b")), Reading::NotNow));
        assert!(matches!(read(None), Reading::Whole(_)));
    }

    fn open(path: &std::path::Path) -> OwnedFd {
        use rustix::fs::{Mode, OFlags};
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }
}
