//! Probes what a local filesystem can do at once. May wait for its disk.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use flash_os::read_at;
use flash_os::residency::{self, Residency};
use flash_os::system_calls::{Call, has};
use flash_os::walk::{self, Resolve};
use rustix::fs::{Dir, FileType, OFlags};
use rustix::io::Errno;

use super::device_class::Capabilities;
use crate::stat;

/// The names that are searched for a file to try. Without a file the filesystem counts as capable, because it refuses
/// what it cannot do, and never waits instead.
const NAMES_MAX: usize = 256;

pub(crate) fn probe(folder: impl AsFd) -> Capabilities {
    let looks_now = has(Call::Openat2) && has(Call::ResolveCached);
    let capabilities = Capabilities { looks_now, ..Capabilities::ALL };
    some_file(&folder).map_or(capabilities, |file| Capabilities {
        reads_now: reads_now(&file),
        tells_residency: tells_residency(&file),
        ..capabilities
    })
}

/// A readable file in this folder that is not empty.
fn some_file(folder: impl AsFd) -> Option<OwnedFd> {
    let listed = open(&folder, b".", OFlags::RDONLY | OFlags::DIRECTORY, Resolve::ANY).ok()?;
    let names = Dir::new(listed).ok()?.take(NAMES_MAX).filter_map(Result::ok);
    names.filter(|name| matches!(name.file_type(), FileType::RegularFile | FileType::Unknown)).find_map(
        |name| {
            let file = open(
                &folder,
                name.file_name().to_bytes(),
                OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
                Resolve::ANY,
            )
            .ok()?;
            let examined = stat::examine(&file).ok()?;
            (examined.kind == FileType::RegularFile && examined.stamp.size > 0).then_some(file)
        },
    )
}

fn reads_now(file: &OwnedFd) -> bool {
    !matches!(read_at::read_now(file, &mut [MaybeUninit::uninit()], 0), Err(Errno::OPNOTSUPP))
}

/// Whether residency is guessed, or the kernel reports a page that was just read as resident. Files that it does not report
/// on to this process do not count.
fn tells_residency(file: &OwnedFd) -> bool {
    let known = stat::examine(file).is_ok_and(|examined| residency::can_tell(examined.owner));
    let read = || read_at::read(file, &mut [MaybeUninit::uninit()], 0).is_ok();
    residency::is_guessed()
        || has(Call::Mincore)
            && (!known || read() && Residency::new(file, 1).is_ok_and(|look| look.resident_bytes(0..1) == 1))
}

fn open(folder: impl AsFd, name: &[u8], flags: OFlags, resolve: Resolve) -> Result<OwnedFd, Errno> {
    walk::open(folder.as_fd(), name, flags, resolve | Resolve::NO_XDEV | Resolve::NO_SYMLINKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, open};

    fn folder(path: impl rustix::path::Arg) -> OwnedFd {
        open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn a_folder_of_files_says_it_all() {
        let place = tempfile::TempDir::new().unwrap();
        assert_eq!(probe(folder(place.path())), Capabilities::ALL, "nothing to try");
        std::fs::create_dir(place.path().join("a")).unwrap();
        std::fs::write(place.path().join("b"), "").unwrap();
        std::fs::write(place.path().join("c"), "c").unwrap();
        assert!(some_file(folder(place.path())).is_some());
        assert_eq!(probe(folder(place.path())), Capabilities::ALL);
    }

    /// The kernel's own files are made as they are read: it promises nothing of them, and they have no pages.
    #[test]
    fn some_cannot() {
        let capabilities = probe(folder("/sys/kernel"));
        assert!(
            capabilities.looks_now && !capabilities.reads_now && !capabilities.tells_residency,
            "{capabilities:?}"
        );
    }
}
