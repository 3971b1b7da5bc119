//! The memory that an event's records are in. The kernel writes at its head, and we read at its tail.
//!
//! A page of counts lies before the records. Records are of whole words, and may go over the end to the beginning.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) struct Ring {
    /// The page of counts; the records follow it.
    start: NonNull<u8>,
    page_bytes: usize,
    /// A power of two.
    records_bytes: usize,
    /// The record that is read.
    words: Vec<u64>,
}

/// Where the page of counts has them.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

// SAFETY: the mapping belongs to this value alone, whichever thread holds it.
unsafe impl Send for Ring {}

impl Ring {
    pub(super) fn map(event: &OwnedFd, pages: usize) -> io::Result<Ring> {
        assert!(pages.is_power_of_two(), "the kernel takes a power of two");
        let page_bytes = rustix::param::page_size();
        let bytes = page_bytes * (pages + 1);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: fresh memory at an address of the kernel's choice touches no existing memory.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, event.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Ring { start, page_bytes, records_bytes: page_bytes * pages, words: Vec::new() })
    }

    /// The words of the next record, if the kernel has written one.
    pub(super) fn next(&mut self) -> Option<&[u64]> {
        // Acquire: who sees the head sees the records before it.
        let head = self.count(HEAD).load(Ordering::Acquire);
        let tail = self.count(TAIL).load(Ordering::Relaxed);
        if head == tail {
            return None;
        }
        // The size is the highest 16 bits of the record's first word.
        let bytes = (self.word(tail) >> 48).max(8);
        self.words.clear();
        for at in (0..bytes).step_by(8) {
            let word = self.word(tail + at);
            self.words.push(word);
        }
        // Release: the kernel writes over the record only after it was read.
        self.count(TAIL).store(tail + bytes, Ordering::Release);
        Some(&self.words)
    }

    fn count(&self, place: usize) -> &AtomicU64 {
        // SAFETY: the place is within the first page, aligned for its type, and lives as long as `self`. The kernel reads
        // and writes these counts as whole words, and so does this side, by atomic operations only.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(place).cast()) }
    }

    /// A word between tail and head.
    fn word(&self, at: u64) -> u64 {
        let offset = self.page_bytes + (at as usize & (self.records_bytes - 1) & !7);
        // SAFETY: the masked offset lies within the records, aligned for a word. The kernel does not write between tail and
        // head.
        unsafe { self.start.as_ptr().add(offset).cast::<u64>().read() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.page_bytes + self.records_bytes) };
    }
}
