//! Reads of a file at an offset, which wait or do not.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::system_calls::{Call, has};
use crate::{file_hints, residency, system};

/// Reads the bytes at this offset. Returns how many came and are set: 0 at the file's end.
///
/// # Errors
/// Those of pread(2).
pub fn read(file: impl AsFd, bytes: &mut [MaybeUninit<u8>], offset: u64) -> Result<usize, Errno> {
    if has(Call::Preadv2) {
        return system::read_at::read(file, bytes, offset);
    }
    let (read, _) = rustix::io::pread(&file, bytes, offset)?;
    residency::note(file, &(offset..offset + read.len() as u64));
    Ok(read.len())
}

/// The same into bytes that are set.
///
/// # Errors
/// Those of pread(2).
pub fn read_set(file: impl AsFd, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    match has(Call::Preadv2) {
        true => system::read_at::read_set(file, bytes, offset),
        false => rustix::io::pread(file, bytes, offset),
    }
}

/// The same for bytes that are not wanted again soon. What has to be read from the disk for them does not stay in the page cache, and
/// what is there stays.
///
/// # Errors
/// Those of pread(2).
pub fn read_once(file: impl AsFd, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    if has(Call::ReadDontcache) {
        match system::read_at::read_once(&file, bytes, offset) {
            // Not every filesystem knows the flag.
            Err(Errno::OPNOTSUPP) => {}
            read => return read,
        }
    }
    // The last byte tells, because the kernel may have read ahead to the others.
    let last = offset + (bytes.len() as u64).saturating_sub(1);
    let was_there = read_now(&file, &mut [MaybeUninit::uninit()], last).is_ok_and(|count| count > 0);
    let count = read_set(&file, bytes, offset)?;
    if !was_there {
        file_hints::forget_range(file, offset..offset + count as u64);
    }
    Ok(count)
}

/// Like [`read`], without waiting. Where no call does that, bytes are read that are known to be in memory.
///
/// # Errors
/// Whatever it is, a read that waits may succeed.
pub fn read_now(file: impl AsFd, bytes: &mut [MaybeUninit<u8>], offset: u64) -> Result<usize, Errno> {
    if has(Call::ReadNow) {
        return system::read_at::read_now(file, bytes, offset);
    }
    match residency::holds(&file, offset..offset.saturating_add(bytes.len() as u64)) {
        true => residency::relying(|| read(file, bytes, offset)),
        false => Err(Errno::AGAIN),
    }
}

/// The call that is made, for records of calls that were slow.
pub fn call() -> &'static str {
    if has(Call::Preadv2) { "preadv2" } else { "pread" }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::cachestat;
    use crate::system_calls::{self, Calls};

    /// One test, because calls are those of the whole process.
    #[test]
    fn what_is_read_once_leaves_the_page_cache_unless_it_was_there() {
        // Not on a filesystem that lives in memory.
        let path = std::env::current_dir().unwrap().join(format!("read-once-{}", std::process::id()));
        fs::write(&path, [7; 64 << 10]).unwrap();
        let file = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        rustix::fs::fsync(&file).unwrap();
        file_hints::read_randomly(&file);
        if cachestat::holds(&file, 0..1).is_err() {
            return eprintln!("NOT TESTED, this kernel does not tell what is cached");
        }
        for missing in [None, Some(Call::ReadDontcache)] {
            system_calls::set(|call| Some(call) != missing && Calls::ALL.contains(call));
            let mut bytes = [0; 16 << 10];
            let held = || [0, 32 << 10].map(|at| cachestat::holds(&file, at..at + (16 << 10)).unwrap());
            crate::residency::evict(&file).unwrap();
            read_set(&file, &mut bytes, 0).unwrap();
            for offset in [0, 32 << 10] {
                bytes.fill(0);
                assert_eq!(read_once(&file, &mut bytes, offset), Ok(bytes.len()));
                assert!(bytes.iter().all(|byte| *byte == 7));
            }
            assert_eq!(held(), [true, false], "without {missing:?}");
            assert_eq!(read_once(&file, &mut bytes, 64 << 10), Ok(0));
        }
    }
}
