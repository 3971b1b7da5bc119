//! An array that a process shares with the processes that it forks afterwards.

use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU64};

/// So many elements, zero at first. All processes that were forked since see the same.
#[derive(Debug)]
pub struct SharedArray<T: Element>(NonNull<[T]>);

/// Bytes, for the states of processes.
pub type SharedBytes = SharedArray<AtomicU8>;
/// Words, for tables.
pub type SharedWords = SharedArray<AtomicU64>;

/// What can be shared: atomics for which zero is a value.
pub trait Element: Send + Sync + sealed::Sealed {}

impl Element for AtomicU8 {}
impl Element for AtomicU64 {}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::AtomicU8 {}
    impl Sealed for super::AtomicU64 {}
}

// SAFETY: the mapping belongs to the value, is freed with it, and holds nothing but atomics.
unsafe impl<T: Element> Send for SharedArray<T> {}
// SAFETY: all access to the elements is atomic.
unsafe impl<T: Element> Sync for SharedArray<T> {}

impl<T: Element> SharedArray<T> {
    /// # Errors
    /// When the kernel has no memory, or `count` is 0.
    pub fn zeroed(count: usize) -> io::Result<Self> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        match NonNull::new(start.cast::<T>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Self(NonNull::slice_from_raw_parts(start, count)))
            }
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl<T: Element> Deref for SharedArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping is that long, aligned to a page, and stays until the drop. Zero is a value of each element, and all
        // access is atomic.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Element> AsRef<[T]> for SharedArray<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Element> Drop for SharedArray<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own in this process, and nothing borrows it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of_val::<[T]>(self)) };
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
        let words = SharedWords::zeroed(5000).unwrap();
        words[4999].store(u64::MAX, Ordering::Relaxed);
        assert!(words.len() == 5000 && words[4999].load(Ordering::Relaxed) == u64::MAX);
        assert!(SharedBytes::zeroed(0).is_err() && SharedWords::zeroed(usize::MAX).is_err());
    }
}
