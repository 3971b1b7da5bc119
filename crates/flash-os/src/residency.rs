//! Which pages of a file are in memory, without touching them.
//!
//! A mapping that is never read gives `mincore` something to look at. It costs address space only: no page is ever
//! mapped in, so there is nothing to fault and nothing to unmap page by page. `cachestat` is no substitute, because
//! it counts pages that are still being read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};

use crate::clock::{self, FileKey};
use crate::system_calls::{Call, has};
use crate::{cachestat, file_stat, page, system};

/// The largest range that one look covers, in bytes.
pub const LOOK_BYTES_MAX: u64 = 1 << 20;

const PAGES_MAX: usize = (LOOK_BYTES_MAX / page::LEAST_BYTES) as usize + 1;

#[derive(Debug)]
pub struct Residency {
    start: NonNull<libc::c_void>,
    bytes: usize,
    /// If nobody tells.
    guessed: Option<FileKey>,
}

// SAFETY: the mapping is never written or read through, only named to mincore, send and munmap, which any thread may call.
unsafe impl Send for Residency {}
// SAFETY: as above; `resident_bytes` takes no state along from call to call.
unsafe impl Sync for Residency {}

impl Residency {
    /// Prepares to look at the first `bytes` of an open file.
    pub fn new(file: impl AsFd, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if bytes == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: a fresh shared read-only mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_fd().as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let guessed = if is_guessed() { Some(FileKey::of(&file_stat::of(&file)?)) } else { None };
        Ok(Self { start, bytes, guessed })
    }

    /// How many bytes from the start of `range` are in memory and complete. None when in doubt, and for ranges that
    /// are too large or not within the file.
    ///
    /// The kernel tells the truth only to a process that owns the file or could write it; see [`can_tell`].
    pub fn resident_bytes(&self, range: Range<u64>) -> u64 {
        let page_bytes = page::bytes();
        let first = range.start / page_bytes * page_bytes;
        if range.is_empty() || range.end > self.bytes as u64 || range.end - first > LOOK_BYTES_MAX {
            return 0;
        }
        if !has(Call::Mincore) {
            return self.guessed.map_or(0, |file| clock::get().leading_bytes(file, &range));
        }
        let mut pages = [0u8; PAGES_MAX];
        let length = (range.end - first) as usize;
        let count = length.div_ceil(page_bytes as usize);
        // SAFETY: `first..range.end` lies within the mapping, which lives as long as `self`; `pages` has room for a
        // byte for each of its pages.
        let result = unsafe {
            libc::mincore(self.start.as_ptr().byte_add(first as usize), length, pages.as_mut_ptr().cast())
        };
        if result != 0 {
            return 0;
        }
        leading(&pages[..count], first, &range, page_bytes)
    }
}

/// How many bytes from the start of `range` are in leading pages that are resident. The first page begins at `first`.
fn leading(pages: &[u8], first: u64, range: &Range<u64>, page_bytes: u64) -> u64 {
    let resident = pages.iter().take_while(|&page| page & 1 == 1).count() as u64;
    (first + resident * page_bytes).clamp(range.start, range.end) - range.start
}

impl Residency {
    /// Sends a range of the file through the map. Pages that are not in memory are waited for, and past the file's
    /// present end there is only an error.
    pub fn send(&self, socket: impl AsFd, range: Range<u64>) -> io::Result<usize> {
        if range.end > self.bytes as u64 || range.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the range lies within the mapping, which lives as long as `self`. Only the kernel reads it, and where
        // the file has been cut short the call fails instead of faulting.
        let sent = unsafe {
            libc::send(
                socket.as_fd().as_raw_fd(),
                self.start.as_ptr().byte_add(range.start as usize),
                (range.end - range.start) as usize,
                libc::MSG_NOSIGNAL,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Residency {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`, and nobody else holds a pointer into it.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}

/// Whether the kernel tells this process which of the file's pages are resident. It tells the owner, root, and users who may
/// write the file. To all others every page seems resident.
pub fn can_tell(owner: u32) -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    user == 0 || user == owner
}

/// Whether nobody tells what is in memory, and [`clock`] guesses it.
pub fn is_guessed() -> bool {
    !has(Call::Mincore) && !has(Call::Cachestat) && !has(Call::ReadNow)
}

/// How many calls have relied on guesses in this process, and how many of these made the disk read. None where nobody guesses.
pub fn guesses() -> Option<(u64, u64)> {
    is_guessed().then(|| clock::get().guesses())
}

/// The range was read: a guess counts with it from now on.
pub fn note(file: impl AsFd, range: &Range<u64>) {
    if is_guessed()
        && let Ok(stat) = file_stat::of(file)
    {
        clock::get().note(FileKey::of(&stat), range);
    }
}

/// Makes a call that must not wait, and relies on what is in memory. If that was guessed, the guess is judged by it.
pub fn relying<T>(call: impl FnOnce() -> T) -> T {
    if is_guessed() { clock::get().watch(call) } else { call() }
}

/// Whether all of the range is in memory and complete, as far as is known.
pub fn holds(file: impl AsFd, range: Range<u64>) -> bool {
    if is_guessed() {
        let Ok(stat) = file_stat::of(file) else { return false };
        let bytes = range.end.saturating_sub(range.start);
        return clock::get().leading_bytes(FileKey::of(&stat), &range) == bytes;
    }
    if !has(Call::Mincore) {
        // It counts pages that are on their way: a read may wait for these.
        return has(Call::Cachestat) && cachestat::holds(file, range).unwrap_or(false);
    }
    let is_told = || file_stat::of(&file).is_ok_and(|stat| can_tell(stat.owner));
    let Some(look) = is_told().then(|| Residency::new(&file, range.end).ok()).flatten() else { return false };
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at.next_multiple_of(LOOK_BYTES_MAX).max(at + 1));
        if look.resident_bytes(at..end) < end - at {
            return false;
        }
        at = end;
    }
    true
}

/// Empties a file's pages from the cache, for tests and measurements.
pub fn evict(file: &File) -> io::Result<()> {
    file.sync_all()?;
    Ok(system::file_hints::forget(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn bytes_are_counted_in_pages_of_any_size() {
        for page in [4096, 16_384, 65_536] {
            let range = page + 5..4 * page - 7;
            let told = |pages: &[u8]| leading(pages, page, &range, page);
            assert_eq!(told(&[0, 1, 1]), 0, "{page}");
            assert_eq!(told(&[1, 0, 1]), page - 5);
            assert_eq!(told(&[1, 1, 0]), 2 * page - 5);
            assert_eq!(told(&[1, 1, 0xff]), 3 * page - 12);
        }
    }

    #[test]
    fn sees_pages_come_and_go() {
        let path = std::env::temp_dir().join(format!("flash-residency-{}", std::process::id()));
        let mut file =
            File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        let look = Residency::new(&file, 100_000).unwrap();
        assert!(holds(&file, 5_000..90_000) && holds(&file, 7..7));
        assert_eq!(look.resident_bytes(0..100_000), 100_000, "written pages stay in the cache");
        assert_eq!(look.resident_bytes(0..100_001), 0, "past the end");
        evict(&file).unwrap();
        assert_eq!(look.resident_bytes(0..100_000), 0, "evicted");
        assert!(!holds(&file, 99_999..100_000));
        let mut all = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut all).unwrap();
        assert_eq!(look.resident_bytes(5_000..90_000), 85_000, "read again");
        std::fs::remove_file(&path).unwrap();
    }
}
