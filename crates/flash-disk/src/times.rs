//! Which modification times tell versions of a file from each other.
//!
//! Package managers and reproducible archives give all files one time: 0 or 1, 1 January 1980, or that of a commit. A file that
//! changes keeps it. So a time before [`MEANT_FROM_NS`] says nothing. Neither does a whole second that other files of the folder
//! have too. A folder with one file leaves that to the folder above.
//!
//! Only threads that may wait look at folders. What they found is remembered.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use flash_core::file::Stamp;
use flash_os::file_stat;
use flash_os::folder_entries::Entries;
use rustix::fs::FileType;

use crate::blocking::Blocking;
use crate::call_timer::{Stage, timed};
use crate::lookup_error::LookupError;
use crate::recent::Recent;
use crate::root::{Root, parent};
use crate::stat::{self, unix_ns};

/// 2 January 1980, 14:00 UTC: from then on it is 2 January in each time zone.
const MEANT_FROM_NS: i64 = 315_669_600 * SECOND_NS;
const SECOND_NS: i64 = 1_000_000_000;
/// How many files of a folder are looked at.
const SAMPLES_MAX: usize = 8;
/// One read of a folder, which has at least a dozen names.
const NAMES_BYTES: usize = 4096;
/// How many folders above each other are looked at.
const LEVELS_MAX: usize = 8;
/// A change of a file's time does not change its folder. So a folder is looked at again after this time.
const FOLDER_FRESH_NS: i64 = 10 * SECOND_NS;
const FOLDERS_MAX: usize = 4096;
const FILES_MAX: usize = 16_384;

/// What is known of times.
#[derive(Debug)]
pub(crate) struct Times {
    /// By device, inode and time of change.
    folders: Recent<(u64, u64, i64), Seen>,
    /// Whether a file's time counts, for those whose folders were looked at.
    files: Recent<Stamp, bool>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    sample: Sample,
    at_ns: i64,
}

/// The times of a folder's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sample {
    /// There are no files.
    Empty,
    One {
        inode: u64,
        modified_ns: i64,
    },
    /// All files that were looked at have this time.
    Same {
        modified_ns: i64,
    },
    Different,
}

impl Default for Times {
    fn default() -> Self {
        Self { folders: Recent::new(FOLDERS_MAX), files: Recent::new(FILES_MAX) }
    }
}

impl Times {
    /// Whether the time of the file of this name tells its versions apart.
    ///
    /// # Errors
    /// [`LookupError::WouldBlock`] if folders have to be looked at, and this thread must not wait.
    pub(crate) fn count(
        &self,
        root: &Root,
        name: &[u8],
        stamp: &Stamp,
        blocking: Blocking,
    ) -> Result<bool, LookupError> {
        if let Some(counts) = counts_by_itself(stamp.modified_ns) {
            return Ok(counts);
        }
        if !blocking.waits() {
            return self.files.get_now(stamp).ok_or(LookupError::WouldBlock);
        }
        if let Some(counts) = self.files.get(stamp) {
            return Ok(counts);
        }
        let counts = !self.is_shared(root, name, stamp, blocking);
        self.files.put(*stamp, counts);
        Ok(counts)
    }

    /// Whether the files nearest to the file have its time.
    fn is_shared<'n>(&self, root: &Root, name: &'n [u8], stamp: &Stamp, blocking: Blocking) -> bool {
        let above = |name: &&'n [u8]| (!name.is_empty()).then(|| parent(name));
        let folders = std::iter::successors(Some(parent(name)), above).take(LEVELS_MAX);
        let mut samples = folders.map(|folder| self.sample(root, folder, blocking));
        samples.find_map(|sample| sample.is_shared_with(stamp)).unwrap_or(false)
    }

    /// A folder that cannot be read says nothing.
    fn sample(&self, root: &Root, name: &[u8], blocking: Blocking) -> Sample {
        let Ok(folder) = root.open_folder(name, blocking) else { return Sample::Empty };
        let Ok(examined) = stat::examine_walked(&folder) else { return Sample::Empty };
        let Stamp { device, inode, changed_ns, .. } = examined.stamp;
        let (key, now_ns) = ((device, inode, changed_ns), unix_ns());
        let is_fresh = |seen: &Seen| (0..FOLDER_FRESH_NS).contains(&(now_ns - seen.at_ns));
        if let Some(seen) = self.folders.get(&key).filter(is_fresh) {
            return seen.sample;
        }
        let sample = Sample::of(&folder);
        self.folders.put(key, Seen { sample, at_ns: now_ns });
        sample
    }
}

/// Whether a time counts, if it tells by itself.
fn counts_by_itself(modified_ns: i64) -> Option<bool> {
    match modified_ns {
        ..MEANT_FROM_NS => Some(false),
        _ if modified_ns % SECOND_NS != 0 => Some(true),
        _ => None,
    }
}

impl Sample {
    /// Of the first files that the folder lists.
    fn of(folder: impl AsFd) -> Self {
        let mut buffer = [MaybeUninit::uninit(); NAMES_BYTES];
        let mut entries = Entries::new(&folder, &mut buffer);
        let (mut sample, mut files) = (Self::Empty, 0);
        while let Some(Ok(entry)) = timed(Stage::Walk, "getdents64", || entries.next()) {
            if matches!(entry.file_type(), FileType::RegularFile | FileType::Unknown)
                && let Some((inode, modified_ns)) = time_of(&folder, entry.file_name())
            {
                sample = sample.with(inode, modified_ns);
                files += 1;
            }
            if files == SAMPLES_MAX || sample == Self::Different || entries.is_buffer_empty() {
                break;
            }
        }
        sample
    }

    fn with(self, inode: u64, modified_ns: i64) -> Self {
        match self {
            Self::Empty => Self::One { inode, modified_ns },
            Self::One { modified_ns: other, .. } | Self::Same { modified_ns: other }
                if other == modified_ns =>
            {
                Self::Same { modified_ns }
            }
            _ => Self::Different,
        }
    }

    /// Whether all files have the time of this one. `None` if there is no other file.
    fn is_shared_with(self, file: &Stamp) -> Option<bool> {
        match self {
            Self::Empty => None,
            Self::One { inode, .. } if inode == file.inode => None,
            Self::One { modified_ns, .. } | Self::Same { modified_ns } => {
                Some(modified_ns == file.modified_ns)
            }
            Self::Different => Some(false),
        }
    }
}

/// The inode and the modification time of a regular file.
fn time_of(folder: impl AsFd, name: &std::ffi::CStr) -> Option<(u64, i64)> {
    let stat = timed(Stage::Walk, file_stat::call(), || file_stat::at(&folder, name, false)).ok()?;
    (stat.kind() == FileType::RegularFile).then_some((stat.inode, stat.modified_ns))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::tests::Folder;

    /// Six o'clock on some day of 2024.
    const WHOLE: u64 = 1_718_431_200 * SECOND_NS as u64;

    fn put(folder: &Path, name: &str, modified_ns: u64) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = File::create(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(modified_ns)).unwrap();
    }

    fn counts(files: &[(&str, u64)]) -> bool {
        let folder = Folder::new();
        files.iter().for_each(|(name, modified_ns)| put(&folder.root(), name, *modified_ns));
        let root = folder.disk().root();
        let name = files[0].0.as_bytes();
        let stamp = root.root.examine(name, Blocking::Anywhere).unwrap().stamp;
        let times = Times::default();
        let first = times.count(&root.root, name, &stamp, Blocking::Anywhere).unwrap();
        let again = times.count(&root.root, name, &stamp, Blocking::Never);
        assert_eq!(again.unwrap(), first, "it is remembered");
        first
    }

    #[test]
    fn times_before_2_january_1980_say_nothing() {
        for seconds in [-1, 0, 1, 315_532_800, 315_532_800 - 50_400, 315_532_800 + 43_200] {
            assert_eq!(counts_by_itself(seconds * SECOND_NS), Some(false), "{seconds}");
        }
        assert_eq!(counts_by_itself(MEANT_FROM_NS - 1), Some(false));
        assert_eq!(counts_by_itself(MEANT_FROM_NS + 1), Some(true));
        assert_eq!(counts_by_itself(MEANT_FROM_NS), None);
        assert_eq!(counts_by_itself(i64::try_from(WHOLE).unwrap()), None);
    }

    #[test]
    fn a_whole_second_says_nothing_if_all_files_near_have_it() {
        assert!(counts(&[("a", WHOLE)]), "it is the only file");
        assert!(!counts(&[("a", WHOLE), ("b", WHOLE)]));
        assert!(counts(&[("a", WHOLE), ("b", WHOLE + 1_000_000_000)]));
        assert!(counts(&[("a", WHOLE), ("b", WHOLE), ("c", WHOLE + 1)]));
        assert!(counts(&[("a", WHOLE + 1), ("b", WHOLE + 1)]), "no archive has parts of seconds");
    }

    #[test]
    fn a_folder_with_one_file_leaves_it_to_the_folder_above() {
        assert!(!counts(&[("d/a", WHOLE), ("index", WHOLE)]));
        assert!(!counts(&[("d/e/f/a", WHOLE), ("d/x", WHOLE)]));
        assert!(counts(&[("d/a", WHOLE), ("index", WHOLE + 1)]));
        assert!(counts(&[("d/a", WHOLE), ("d/b", WHOLE + 1), ("index", WHOLE)]), "the nearest files count");
        assert!(!counts(&[("d/a", WHOLE), ("d/b", WHOLE), ("index", WHOLE + 1)]));
        assert!(counts(&[("d/a", WHOLE), ("e/b", WHOLE)]), "there are no files above");
    }

    #[test]
    fn what_is_no_file_has_no_say() {
        let folder = tempfile::TempDir::new().unwrap();
        put(folder.path(), "a", WHOLE);
        std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        assert!(matches!(Sample::of(File::open(folder.path()).unwrap()), Sample::One { .. }));
    }

    #[test]
    fn a_loop_leaves_folders_to_helpers() {
        let folder = Folder::new();
        put(&folder.root(), "a", WHOLE);
        let root = folder.disk().root();
        let stamp = root.root.examine(b"a", Blocking::Anywhere).unwrap().stamp;
        let count = |times: &Times, stamp: &Stamp| times.count(&root.root, b"a", stamp, Blocking::Never);
        let times = Times::default();
        assert!(matches!(count(&times, &stamp), Err(LookupError::WouldBlock)));
        assert!(matches!(count(&times, &Stamp { modified_ns: 1, ..stamp }), Ok(false)));
        assert!(matches!(count(&times, &Stamp { modified_ns: WHOLE as i64 + 1, ..stamp }), Ok(true)));
    }
}
