//! Bytes that a process shares with the processes that it forks afterwards.

use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU8;

/// So many bytes, zero at first. All processes that were forked since see the same.
#[derive(Debug)]
pub struct SharedBytes(NonNull<[AtomicU8]>);

impl SharedBytes {
    /// # Errors
    /// When the kernel has no memory, or `count` is 0.
    pub fn zeroed(count: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), count, protection, flags, -1, 0) };
        match NonNull::new(start.cast::<AtomicU8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Self(NonNull::slice_from_raw_parts(start, count)))
            }
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Deref for SharedBytes {
    type Target = [AtomicU8];

    fn deref(&self) -> &[AtomicU8] {
        // SAFETY: the mapping is that long and stays until the drop. Zero is a value of each byte, and all access is atomic.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own in this process, and nothing borrows it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), self.0.len()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn they_are_zero_at_first_and_as_many_as_were_asked_for() {
        let bytes = SharedBytes::zeroed(5000).unwrap();
        assert!(bytes.len() == 5000 && bytes.iter().all(|byte| byte.load(Ordering::Relaxed) == 0));
        bytes[4999].store(7, Ordering::Relaxed);
        assert_eq!(bytes[4999].load(Ordering::Relaxed), 7);
        assert!(SharedBytes::zeroed(0).is_err());
    }
}
