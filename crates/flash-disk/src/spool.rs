//! Where request bodies lie that do not fit into memory: in one unnamed file, which is opened when the server starts.
//!
//! So a body takes no descriptor, and a server in its sandbox, which can open nothing any more, keeps bodies all the same. The
//! file is given out in blocks; each belongs to one body at a time, and of a block nothing is read but what its body has
//! written. Blocks that are given back take no room on the disk, and a file without bodies is empty. It goes with its
//! process, however that ends.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use flash_core::job::{self, Done, Failure, SpoolFile};
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;

use crate::Disk;
use crate::call_timer::{Stage, timed};
use crate::closer::Closer;

/// A handle.
#[derive(Clone, Debug)]
pub struct Spool(Arc<Store>);

#[derive(Debug)]
struct Store {
    file: File,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    /// How many there are, those that are free among them.
    count: u32,
    free: Vec<u32>,
}

/// One request's body.
#[derive(Debug)]
struct Body {
    written: Mutex<Written>,
    closer: Option<Arc<Closer>>,
}

#[derive(Debug)]
struct Written {
    blocks: Held,
    bytes: u64,
}

/// Blocks of one body. Dropping them gives them back, for which the disk may have to be waited for.
#[derive(Debug)]
pub(crate) struct Held {
    store: Arc<Store>,
    numbers: Vec<u32>,
}

/// What is not written takes no room, so that large blocks cost nothing.
const BLOCK_BYTES: u64 = 1 << 20;

impl Spool {
    /// Makes the file. It has no name, or only for a moment where the filesystem knows no such files.
    ///
    /// # Errors
    /// When the folder is not there, or may not be written.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self::of(tempfile::tempfile_in(folder)?))
    }

    pub(crate) fn of(file: File) -> Self {
        Self(Arc::new(Store { file, blocks: Mutex::default() }))
    }

    /// For a body that is about to be written. `closer` gives its blocks back for those who may not wait.
    pub(crate) fn body(&self, closer: Option<Arc<Closer>>) -> Arc<dyn SpoolFile> {
        let blocks = Held { store: Arc::clone(&self.0), numbers: Vec::new() };
        Arc::new(Body { written: Mutex::new(Written { blocks, bytes: 0 }), closer })
    }
}

impl Disk {
    /// Keeps a part of a body, or brings one back, waiting as long as that takes.
    pub(crate) fn spool(&self, spool: &job::Spool) -> Done {
        let done = match spool {
            job::Spool::Write { file, bytes } => {
                let new = || self.spool.as_ref().map(|spool| spool.body(self.remote_closer.clone()));
                let file = file.clone().or_else(new).ok_or(Failure::Full);
                file.and_then(|file| file.append(bytes).map(|()| Done::Spooled(file)))
            }
            job::Spool::Read { file, range } => file.read(range.clone()).map(Done::Unspooled),
        };
        done.unwrap_or_else(Done::Failed)
    }
}

impl Store {
    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        // Every change leaves them whole.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> u32 {
        let mut blocks = self.blocks();
        blocks.free.pop().unwrap_or_else(|| {
            blocks.count += 1;
            blocks.count - 1
        })
    }

    fn give_back(&self, numbers: &[u32]) {
        for &number in numbers {
            let start = u64::from(number) * BLOCK_BYTES;
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Where the filesystem cannot do that, the room is used again, or given back with the last body.
            let _ = retry(|| fallocate(&self.file, hole, start, BLOCK_BYTES));
        }
        let mut blocks = self.blocks();
        blocks.free.extend_from_slice(numbers);
        if blocks.free.len() == blocks.count as usize {
            *blocks = Blocks::default();
            // Under the lock, so that nobody writes meanwhile.
            let _ = retry(|| ftruncate(&self.file, 0));
        }
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
        let Written { blocks: Held { store, numbers }, bytes: end } = &mut *written;
        while !bytes.is_empty() {
            if *end == numbers.len() as u64 * BLOCK_BYTES {
                numbers.push(store.take());
            }
            let (at, most) = place(numbers, *end).ok_or(Failure::Broken)?;
            let piece = &bytes[..bytes.len().min(most)];
            let write = || retry(|| rustix::io::pwrite(&store.file, piece, at));
            let count = timed(Stage::Write, "pwrite64", write).map_err(failure)?;
            *end += count as u64;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes, Failure> {
        let written = self.written();
        let Written { blocks: Held { store, numbers }, bytes: end } = &*written;
        let (at, most) = place(numbers, range.start).ok_or(Failure::Broken)?;
        // What follows in another block is asked for next.
        let length = range.end.min(*end).saturating_sub(range.start).min(most as u64);
        let mut bytes = vec![0; length as usize];
        let read = || retry(|| rustix::io::pread(&store.file, &mut bytes[..], at));
        let count = timed(Stage::Read, "pread64", read).map_err(failure)?;
        bytes.truncate(count);
        if bytes.is_empty() { Err(Failure::Broken) } else { Ok(bytes.into()) }
    }
}

/// Where in the file a byte of a body is, and how many follow it there.
fn place(numbers: &[u32], byte: u64) -> Option<(u64, usize)> {
    let number = *numbers.get(usize::try_from(byte / BLOCK_BYTES).ok()?)?;
    let within = byte % BLOCK_BYTES;
    Some((u64::from(number) * BLOCK_BYTES + within, (BLOCK_BYTES - within) as usize))
}

fn retry<T>(call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    rustix::io::retry_on_intr(call)
}

fn failure(error: Errno) -> Failure {
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Failure::Full,
        _ => Failure::Broken,
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let Written { blocks: Held { store, numbers }, .. } =
            self.written.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(closer) = &self.closer {
            closer.give_back(Held { store: Arc::clone(store), numbers: std::mem::take(numbers) });
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.numbers.is_empty() {
            self.store.give_back(&self.numbers);
        }
    }
}

#[cfg(test)]
impl Spool {
    /// How many blocks the file has, and how many bytes of the disk it takes.
    pub(crate) fn size(&self) -> (u32, u64) {
        use std::os::unix::fs::MetadataExt;
        (self.0.blocks().count, self.0.file.metadata().unwrap().blocks() * 512)
    }
}
