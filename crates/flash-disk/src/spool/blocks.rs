//! The blocks of the spool's file. Each block belongs to one body at a time. What bodies write is not known here.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flash_os::file_hints;
use rustix::fs::ftruncate;
use rustix::io::retry_on_intr;

/// The file, and which of its blocks are free.
#[derive(Debug)]
pub(crate) struct Store {
    file: File,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// All blocks, with the free ones.
    blocks: u32,
    free: Vec<u32>,
}

/// The blocks of one body. Dropping them gives them back to the store, which may wait for the disk.
#[derive(Debug)]
pub(crate) struct Blocks {
    store: Arc<Store>,
    numbers: Vec<u32>,
}

/// The filesystem allocates only what is written, so large blocks cost nothing.
const BLOCK_BYTES: u64 = 1 << 20;

impl Store {
    pub(super) fn new(file: File) -> Self {
        Self { file, counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Each change leaves them consistent.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocate(&self) -> u32 {
        let mut counts = self.counts();
        counts.free.pop().unwrap_or_else(|| {
            counts.blocks += 1;
            counts.blocks - 1
        })
    }

    fn give_back(&self, numbers: &[u32]) {
        for &number in numbers {
            let start = u64::from(number) * BLOCK_BYTES;
            // If the filesystem cannot do that, the space is reused, or freed with the last body.
            file_hints::free(&self.file, start..start + BLOCK_BYTES);
        }
        let mut counts = self.counts();
        counts.free.extend_from_slice(numbers);
        if counts.free.len() == counts.blocks as usize {
            *counts = Counts::default();
            // Under the lock, so that no thread writes meanwhile.
            let _ = retry_on_intr(|| ftruncate(&self.file, 0));
        }
    }

    /// How many blocks the file has, and how many bytes of the disk it takes.
    #[cfg(test)]
    pub(super) fn size(&self) -> (u32, u64) {
        use std::os::unix::fs::MetadataExt;
        (self.counts().blocks, self.file.metadata().unwrap().blocks() * 512)
    }
}

impl Blocks {
    /// For an empty body.
    pub(super) fn new(store: &Arc<Store>) -> Self {
        Self { store: Arc::clone(store), numbers: Vec::new() }
    }

    pub(super) fn file(&self) -> &File {
        &self.store.file
    }

    /// Where in the file a byte of the body is, and how many follow it there.
    pub(super) fn place(&self, byte: u64) -> Option<(u64, usize)> {
        let number = *self.numbers.get(usize::try_from(byte / BLOCK_BYTES).ok()?)?;
        let within = byte % BLOCK_BYTES;
        Some((u64::from(number) * BLOCK_BYTES + within, (BLOCK_BYTES - within) as usize))
    }

    /// The same for the byte behind a body of so many bytes. Takes a new block if the last one is full.
    pub(super) fn place_behind(&mut self, bytes: u64) -> Option<(u64, usize)> {
        if bytes == self.numbers.len() as u64 * BLOCK_BYTES {
            self.numbers.push(self.store.allocate());
        }
        self.place(bytes)
    }

    /// Moves all blocks out of here.
    pub(super) fn take(&mut self) -> Self {
        Self { store: Arc::clone(&self.store), numbers: std::mem::take(&mut self.numbers) }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        if !self.numbers.is_empty() {
            self.store.give_back(&self.numbers);
        }
    }
}
