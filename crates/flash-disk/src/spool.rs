//! The spool: one unnamed file for request bodies that do not fit into memory. It is opened when the server starts.
//!
//! So a body takes no descriptor, and a server in its sandbox, which can open no file, can still store bodies. The
//! file is divided into [blocks]. Of a block only what its body has written is read. Free blocks take no space on the
//! disk, and a file without bodies is empty. The kernel removes the file when the process ends.

pub(crate) mod blocks;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use flash_core::job::{Failure, SpoolFile};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};

use self::blocks::{Blocks, Store};
use crate::call_timer::{self, Stage, timed};
use crate::closer::Closer;

/// A handle.
#[derive(Clone, Debug)]
pub struct Spool(Arc<Store>);

/// One request's body.
#[derive(Debug)]
struct Body {
    written: Mutex<Written>,
    closer: Option<Arc<Closer>>,
}

#[derive(Debug)]
struct Written {
    blocks: Blocks,
    bytes: u64,
}

impl Spool {
    /// Makes the file. It has no name, or only for a moment if the filesystem cannot make unnamed files.
    ///
    /// # Errors
    /// If the folder does not exist, or may not be written.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self::of(tempfile::tempfile_in(folder)?))
    }

    pub(crate) fn of(file: File) -> Self {
        Self(Arc::new(Store::new(file)))
    }

    /// A file for a new body. `closer` gives its blocks back, for threads that must not wait.
    pub(crate) fn body(&self, closer: Option<Arc<Closer>>) -> Arc<dyn SpoolFile> {
        let blocks = Blocks::new(&self.0);
        Arc::new(Body { written: Mutex::new(Written { blocks, bytes: 0 }), closer })
    }

    /// How many blocks the file has, and how many bytes of the disk it takes.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (u32, u64) {
        self.0.size()
    }
}

impl Body {
    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpoolFile for Body {
    fn append(&self, mut bytes: &[u8]) -> Result<(), Failure> {
        let mut written = self.written();
        let Written { blocks, bytes: end } = &mut *written;
        while !bytes.is_empty() {
            let (at, most) = blocks.place_behind(*end).ok_or(Failure::Broken)?;
            let piece = &bytes[..bytes.len().min(most)];
            let write = || retry_on_intr(|| pwrite(blocks.file(), piece, at));
            let count = timed(Stage::Write, "pwrite64", write).map_err(failure)?;
            *end += count as u64;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, Failure> {
        let written = self.written();
        let Written { blocks, bytes: end } = &*written;
        let (at, most) = blocks.place(range.start).ok_or(Failure::Broken)?;
        // What follows in another block is asked for next.
        let length = range.end.min(*end).saturating_sub(range.start).min(most as u64);
        let mut bytes = vec![0; length as usize];
        let read = || retry_on_intr(|| pread(blocks.file(), &mut bytes[..], at));
        let count = timed(Stage::Read, "pread64", read).map_err(failure)?;
        bytes.truncate(count);
        if bytes.is_empty() { Err(Failure::Broken) } else { Ok(bytes.into()) }
    }
}

fn failure(error: Errno) -> Failure {
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Failure::Full,
        error => {
            call_timer::failed(error);
            Failure::Broken
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(closer) = &self.closer {
            let written = self.written.get_mut().unwrap_or_else(PoisonError::into_inner);
            closer.give_back(written.blocks.take());
        }
    }
}
