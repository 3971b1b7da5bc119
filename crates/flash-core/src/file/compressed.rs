//! What Flash itself has compressed of a file, beside the file in its [entry](crate::file::entry).
//!
//! How it comes there is the business of [compression](crate::file::compression).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flash_http::negotiate::{Coding, CodingSet};

use crate::file::File;

/// The files that Flash has made of a file by compressing it, and those that it may make.
#[derive(Debug, Default)]
pub struct Compressed {
    /// At most one for each coding.
    pub(crate) files: Vec<Arc<File>>,
    /// The codings that may still be made.
    possible: CodingSet,
    /// From when on one may be asked for, in the server's milliseconds.
    ask_from_ms: AtomicU64,
}

/// What became of a file that was to be compressed.
#[derive(Clone, Debug)]
pub enum CompressionResult {
    Made(Arc<File>),
    /// The coding does not make the file much smaller. It is not tried again with this version of the file.
    DoesNotPay,
    /// It failed, or there is no room for it. It may be asked for again after a while.
    Failed,
}

/// Between two requests for codings of one entry. The first may have been dropped, because too many wait.
const ASK_AGAIN_MS: u64 = 100;
/// After a failure.
const TRY_AGAIN_MS: u64 = 10_000;
/// Smaller files leave in one packet in any case.
pub const COMPRESSED_FILE_BYTES_MIN: u64 = 1 << 10;
/// Larger files take too long, and are hardly text.
pub const COMPRESSED_FILE_BYTES_MAX: u64 = 16 << 20;

impl Compressed {
    /// Nothing is made yet, and these codings may be.
    pub fn possible(possible: CodingSet) -> Self {
        Self { possible, ..Self::default() }
    }

    /// The file in a coding, if it is made.
    pub fn file(&self, coding: Coding) -> Option<&Arc<File>> {
        self.files.iter().find(|file| file.coding == Some(coding))
    }

    /// Whether a coding may be made, and is not.
    pub fn may_make(&self, coding: Coding) -> bool {
        self.possible.contains(coding)
    }

    pub(crate) fn has_possible(&self) -> bool {
        !self.possible.is_empty()
    }

    pub(crate) fn made(&self) -> CodingSet {
        self.files.iter().filter_map(|file| file.coding).fold(CodingSet::EMPTY, CodingSet::with)
    }

    pub(crate) fn made_or_possible(&self) -> CodingSet {
        self.made().union(self.possible)
    }

    /// Returns true for one caller in a while. That caller has a coding made.
    pub(crate) fn claim(&self, now_ms: u64) -> bool {
        let from = self.ask_from_ms.load(Ordering::Relaxed);
        let until = now_ms + ASK_AGAIN_MS;
        let claim = || self.ask_from_ms.compare_exchange(from, until, Ordering::Relaxed, Ordering::Relaxed);
        from <= now_ms && claim().is_ok()
    }

    /// The same with other files.
    pub fn with_files(&self, other: impl Fn(&Arc<File>) -> Arc<File>) -> Self {
        Self {
            files: self.files.iter().map(other).collect(),
            possible: self.possible,
            ask_from_ms: self.ask_from_ms.load(Ordering::Relaxed).into(),
        }
    }

    /// The same with one result more. `None` if nothing changes.
    pub(crate) fn with(&self, coding: Coding, result: &CompressionResult) -> Option<Self> {
        if !self.may_make(coding) {
            return None;
        }
        let mut next = Self { possible: self.possible.without(coding), ..self.with_files(Arc::clone) };
        match result {
            CompressionResult::Made(file) => next.files.push(Arc::clone(file)),
            CompressionResult::DoesNotPay => {}
            CompressionResult::Failed => return None,
        }
        Some(next)
    }

    /// Whether it has all results of another one, and more. Each result makes a coding impossible.
    pub(crate) fn is_ahead_of(&self, other: &Self) -> bool {
        self.possible != other.possible && self.possible.intersection(other.possible) == self.possible
    }

    pub(crate) fn failed(&self, now_ms: u64) {
        self.ask_from_ms.store(now_ms + TRY_AGAIN_MS, Ordering::Relaxed);
    }
}
