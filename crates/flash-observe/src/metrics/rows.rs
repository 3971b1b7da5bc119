//! Which process counts in which row of the memory that all processes share.
//!
//! Only the process that has entered a row writes it. A process that is killed leaves its row, and the next one that enters it begins
//! anew.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io, process};

use flash_os::shared_array::SharedWords;

#[derive(Debug)]
pub(super) struct Rows {
    /// The number of each row's process; 0 where there is none.
    taken: SharedWords,
    /// The row of this process. A fork copies it.
    own: AtomicUsize,
}

impl Rows {
    pub(super) fn new(count: usize) -> io::Result<Self> {
        Ok(Self { taken: SharedWords::zeroed(count)?, own: AtomicUsize::new(usize::MAX) })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.taken.len()
    }

    /// The row of this process, if it has one.
    pub(super) fn own(&self) -> Option<usize> {
        Some(self.own.load(Ordering::Relaxed)).filter(|row| *row < self.taken.len())
    }

    /// The rows whose process is there.
    pub(super) fn taken(&self) -> impl Iterator<Item = usize> {
        (0..self.taken.len()).filter(|row| self.taken[*row].load(Ordering::Acquire) != 0)
    }

    /// The row is this process's from now on. It was cleared before.
    pub(super) fn enter(&self, row: usize) {
        self.own.store(row, Ordering::Relaxed);
        if let Some(taken) = self.taken.get(row) {
            taken.store(process::id().into(), Ordering::Release);
        }
    }

    /// This process has no row any more. If another one has entered its row already, the row stays taken.
    pub(super) fn leave(&self) {
        let row = self.own.swap(usize::MAX, Ordering::Relaxed);
        if let Some(taken) = self.taken.get(row) {
            let own = process::id().into();
            let _ = taken.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}
