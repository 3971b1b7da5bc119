//! A name table: the hashes of a folder's names at one time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flash_core::file::Stamp;

#[derive(Debug)]
pub(crate) struct Table {
    /// Sorted. The lowest bit of each says whether the name is a regular file's.
    hashes: Box<[u32]>,
    /// `None` if the folder cannot be examined again.
    state: Option<FolderState>,
    /// `None` if the table is valid while the folder keeps its state.
    term: Option<Term>,
    is_outdated: AtomicBool,
}

/// A folder's identity and times of change. No two folders have the same state. Nor has one before and after a
/// change, if it had rested when it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FolderState {
    /// The number of its mount root. An image that replaces another may have the same device, and folders with the
    /// same times.
    pub(crate) mount_root: u64,
    pub(crate) stamp: Stamp,
}

/// How long a table is valid that cannot be compared with its folder.
#[derive(Debug)]
pub(crate) struct Term {
    /// From then on one look-up goes to the disk, so that a new table comes before this one expires.
    renewed_at: Instant,
    is_renewed: AtomicBool,
    over_at: Instant,
}

/// What a table says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Missing,
    /// The name is missing, or a regular file.
    File,
    Anything,
}

const IS_FILE: u32 = 1;

/// A name's hash, marked with whether it is a regular file's.
pub(crate) fn marked(hash: u32, is_file: bool) -> u32 {
    hash & !IS_FILE | if is_file { IS_FILE } else { 0 }
}

impl Table {
    /// Makes a table of [`marked`] hashes.
    pub(crate) fn new(mut hashes: Vec<u32>, state: Option<FolderState>, term: Option<Term>) -> Self {
        hashes.sort_unstable();
        Self { hashes: hashes.into(), state, term, is_outdated: AtomicBool::new(false) }
    }

    pub(super) fn says(&self, hash: u32) -> Says {
        let hash = hash & !IS_FILE;
        let place = self.hashes.partition_point(|&other| other < hash);
        // Of two names with the same hash, a folder's comes first.
        match self.hashes.get(place) {
            Some(&found) if found == hash => Says::Anything,
            Some(&found) if found == hash | IS_FILE => Says::File,
            _ => Says::Missing,
        }
    }

    pub(super) fn names(&self) -> usize {
        self.hashes.len()
    }

    pub(super) fn state(&self) -> Option<&FolderState> {
        self.state.as_ref()
    }

    pub(super) fn is_valid(&self) -> bool {
        !self.is_outdated.load(Ordering::Relaxed)
            && self.term.as_ref().is_none_or(|term| Instant::now() < term.over_at)
    }

    /// Whether the caller has to ask the disk, to renew the table. Returns true once.
    pub(super) fn is_due(&self) -> bool {
        self.term.as_ref().is_some_and(|term| {
            !term.is_renewed.load(Ordering::Relaxed)
                && Instant::now() >= term.renewed_at
                && !term.is_renewed.swap(true, Ordering::Relaxed)
        })
    }

    /// Whether a renewal has begun.
    pub(super) fn is_being_renewed(&self) -> bool {
        self.term.as_ref().is_some_and(|term| term.is_renewed.load(Ordering::Relaxed))
    }

    /// The folder has changed.
    pub(super) fn outdate(&self) {
        self.is_outdated.store(true, Ordering::Relaxed);
    }
}

impl Term {
    /// The term of a table that was read so long ago.
    pub(crate) fn new(age: Duration, length: Duration) -> Self {
        let now = Instant::now();
        let after = |length: Duration| now + length.saturating_sub(age).min(TERM_MAX);
        Self { renewed_at: after(length / 2), is_renewed: AtomicBool::new(false), over_at: after(length) }
    }
}

/// The longest term.
const TERM_MAX: Duration = Duration::from_secs(24 * 3600);
