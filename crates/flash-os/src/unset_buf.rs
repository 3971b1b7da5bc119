//! A buffer of the shared heap whose bytes come from a file. Nothing is written to it before: that would take a tenth of the time of
//! a read from the page cache.

use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::read_at;
use crate::shared_heap::{self, Free, HeapBuf};

/// A buffer that is filled from its start on.
pub struct UnsetBuf {
    /// Only its first `set` bytes are set, so nobody looks at it before it is whole.
    buffer: HeapBuf,
    set: usize,
}

impl UnsetBuf {
    /// A buffer to be filled. May block while other threads allocate or free.
    pub fn new(bytes: usize) -> Self {
        Self::of(shared_heap::take(bytes))
    }

    /// The same; `None` if the heap is locked by another thread, or has no free memory for it.
    pub fn try_new(bytes: usize) -> Option<Self> {
        shared_heap::try_take(bytes).map(Self::of)
    }

    fn of(Free(bytes): Free) -> Self {
        Self { buffer: HeapBuf(bytes), set: 0 }
    }

    /// Reads what is missing from the file, whose range for the whole buffer begins at `offset`. Returns how many bytes came, which is
    /// 0 at the file's end, or when nothing is missing.
    ///
    /// # Errors
    /// Those of [`read_at::read`], or of [`read_at::read_now`] if it must not wait.
    pub fn read(&mut self, file: impl AsFd, offset: u64, waits: bool) -> Result<usize, Errno> {
        let missing = self.buffer.0.len() - self.set;
        // SAFETY: `set` bytes and the missing ones are the buffer's, so the pointer stays within it.
        let start = unsafe { self.buffer.0.cast::<MaybeUninit<u8>>().add(self.set) };
        // SAFETY: the missing bytes are the buffer's, nobody else has them, and they need not be set.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), missing) };
        let at = offset.saturating_add(self.set as u64);
        let read = if waits { read_at::read(file, bytes, at) } else { read_at::read_now(file, bytes, at) }?;
        self.set += read.min(missing);
        Ok(read.min(missing))
    }

    /// The buffer, if all of it is set.
    pub fn whole(self) -> Option<HeapBuf> {
        (self.set == self.buffer.0.len()).then_some(self.buffer)
    }
}

impl fmt::Debug for UnsetBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnsetBuf({} of {} bytes)", self.set, self.buffer.0.len())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn it_is_whole_when_a_file_has_set_all_of_it() {
        let path = std::env::temp_dir().join(format!("flash-unset-{}", std::process::id()));
        File::create(&path).unwrap().write_all(b"0123456789").unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let read = |bytes, offset| {
            let mut buffer = UnsetBuf::new(bytes);
            while buffer.read(&file, offset, true).unwrap() > 0 {}
            buffer.whole()
        };
        assert_eq!(*read(8, 1).unwrap(), *b"12345678");
        assert_eq!(*read(0, 1).unwrap(), *b"");
        assert!(read(10, 1).is_none(), "the file is shorter");
        let write_only = File::options().write(true).open("/dev/null").unwrap();
        assert_eq!(UnsetBuf::new(1).read(&write_only, 0, true), Err(Errno::BADF));
    }
}
