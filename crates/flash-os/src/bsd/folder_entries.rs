//! `getdirentries`. Its entries are taken apart byte by byte, so that it does not matter where they lie.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{FileType, tell};
use rustix::io::Errno;

// Where the parts of an entry are (sys/dirent.h).
const BYTES_AT: usize = 16;
#[cfg(target_vendor = "apple")]
const TYPE_AT: usize = 20;
#[cfg(target_vendor = "apple")]
const NAME_AT: usize = 21;
#[cfg(not(target_vendor = "apple"))]
const TYPE_AT: usize = 18;
#[cfg(not(target_vendor = "apple"))]
const NAME_AT: usize = 24;

unsafe extern "C" {
    #[cfg_attr(target_vendor = "apple", link_name = "__getdirentries64")]
    fn getdirentries(
        folder: libc::c_int,
        entries: *mut libc::c_char,
        bytes: usize,
        begin: *mut libc::off_t,
    ) -> isize;
}

/// The entries of an open folder.
#[derive(Debug)]
pub struct Entries<'b, F> {
    folder: F,
    buffer: &'b mut [MaybeUninit<u8>],
    filled: usize,
    at: usize,
    /// Where the next call goes on.
    next: u64,
}

/// A name, and what it is the name of.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'b> {
    name: &'b CStr,
    kind: u8,
    next: u64,
}

impl<'b, F: AsFd> Entries<'b, F> {
    pub fn new(folder: F, buffer: &'b mut [MaybeUninit<u8>]) -> Self {
        Self { folder, buffer, filled: 0, at: 0, next: 0 }
    }

    /// The next one. No iterator has those that borrow from it.
    #[expect(clippy::should_implement_trait, reason = "an entry lies in the buffer")]
    pub fn next(&mut self) -> Option<Result<Entry<'_>, Errno>> {
        match self.advance() {
            Ok(from) => {
                let entry = &self.filled()[from?..self.at];
                Some(Entry::of(entry, self.next).ok_or(Errno::IO))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Goes behind the next entry that has not been removed, and says where it begins.
    fn advance(&mut self) -> Result<Option<usize>, Errno> {
        loop {
            if self.is_buffer_empty() && self.fill()? == 0 {
                return Ok(None);
            }
            let (from, rest) = (self.at, &self.filled()[self.at..]);
            let is_removed = rest.first_chunk() == Some(&0_u64.to_ne_bytes());
            let bytes = rest.get(BYTES_AT..).and_then(<[u8]>::first_chunk);
            let bytes = bytes.map(|bytes| usize::from(u16::from_ne_bytes(*bytes)));
            self.at += bytes.filter(|bytes| (1..=rest.len()).contains(bytes)).ok_or(Errno::IO)?;
            if !is_removed {
                return Ok(Some(from));
            }
        }
    }

    fn filled(&self) -> &[u8] {
        // SAFETY: the kernel has written so many bytes into the buffer, which is not lent to anybody else.
        unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast(), self.filled) }
    }

    fn fill(&mut self) -> Result<usize, Errno> {
        let (mut begin, folder) = (0, self.folder.as_fd().as_raw_fd());
        // SAFETY: the kernel writes into the buffer, at most as many bytes as it has, and one number.
        let filled = unsafe {
            getdirentries(folder, self.buffer.as_mut_ptr().cast(), self.buffer.len(), &raw mut begin)
        };
        let failed = |_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO);
        self.filled = usize::try_from(filled).map_err(failed)?;
        self.at = 0;
        self.next = tell(&self.folder)?;
        Ok(self.filled)
    }

    /// Whether the next one takes a call.
    pub fn is_buffer_empty(&self) -> bool {
        self.at >= self.filled
    }
}

impl<'b> Entry<'b> {
    fn of(bytes: &'b [u8], next: u64) -> Option<Self> {
        let name = CStr::from_bytes_until_nul(bytes.get(NAME_AT..)?).ok()?;
        Some(Self { name, kind: *bytes.get(TYPE_AT)?, next })
    }

    pub fn file_name(&self) -> &CStr {
        self.name
    }

    pub fn file_type(&self) -> FileType {
        match self.kind {
            libc::DT_REG => FileType::RegularFile,
            libc::DT_DIR => FileType::Directory,
            libc::DT_LNK => FileType::Symlink,
            libc::DT_SOCK => FileType::Socket,
            libc::DT_FIFO => FileType::Fifo,
            libc::DT_CHR => FileType::CharacterDevice,
            libc::DT_BLK => FileType::BlockDevice,
            _ => FileType::Unknown,
        }
    }

    /// Where to go on, after the last entry in the buffer.
    pub fn next_entry_cookie(&self) -> u64 {
        self.next
    }
}
