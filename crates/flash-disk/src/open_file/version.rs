//! One version of a file: what was handed out of it, and whether the file on the disk still holds that.
//!
//! The stamp on the disk tells that a file has changed, but not how. A file that only grew, or was only touched, may
//! still be sent as its head promised. A rewritten file may not, because a body would mix two versions. To find out,
//! the disk is compared with [digests](super::digests) of what was handed out.
//!
//! - **Grown** (longer than the last accepted stamp): the first and the last block and the one before the window are compared.
//!   Then the stamp is accepted. The last window of each response waits for a comparison of all bytes of the response. The
//!   reason is that a write in the same tick leaves the same time.
//! - **Touched** (not longer): the stamp has to rest first. Then all blocks that were handed out are compared.
//!
//! A comparison waits for the disk, so a loop only learns that one is due.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use flash_core::file::Stamp;
use flash_os::file_hints;
use flash_os::shared_heap::HeapBuf;

use super::digests::{BLOCK_BYTES, Digests};
use crate::read::{AHEAD_BYTES, ReadResult, read_exact};
use crate::stat::{self, RESTED_NS, unix_ns};

#[derive(Debug)]
pub(super) struct Version {
    pub(super) digests: Digests,
    /// The digest of the accepted stamp.
    accepted: AtomicU64,
    /// How often a stamp was accepted after a comparison of everything.
    settled: AtomicU64,
    /// The accepted stamp proves nothing, so each response is compared before it ends.
    is_loose: AtomicBool,
    /// The file was rewritten, or changes too often to tell.
    is_over: AtomicBool,
    /// Loops never take this lock.
    comparing: Mutex<Comparing>,
}

#[derive(Debug)]
struct Comparing {
    /// The accepted stamp.
    stamp: Stamp,
    /// How many more touches may lead to a comparison of all blocks.
    touches_left: u32,
}

/// The state of the version before a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    accepted: u64,
    settled: u64,
}

/// Whether bytes that were read before the stamp changed can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// They can be used.
    Grown,
    /// They have to be read again.
    Settled,
    /// They cannot be used: the file was rewritten.
    No,
}

/// A comparison of all blocks reads as much as was handed out.
const TOUCHES_MAX: u32 = 8;
/// How often one comparison waits for the file to rest.
const RESTS_MAX: usize = 4;
/// How many blocks are compared of a file that has no digests of all blocks.
const SAMPLES_MAX: usize = 256;

impl Version {
    pub(super) fn new(stamp: Stamp) -> Self {
        let digests = Digests::new(stamp.size);
        Self {
            accepted: AtomicU64::new(key(&digests, &stamp)),
            settled: AtomicU64::new(0),
            is_loose: AtomicBool::new(unrested_ns(stamp.modified_ns) > 0),
            is_over: AtomicBool::new(false),
            comparing: Mutex::new(Comparing { stamp, touches_left: TOUCHES_MAX }),
            digests,
        }
    }

    /// The state before a read. `None` if nothing of this version can be handed out any more.
    pub(super) fn view(&self) -> Option<View> {
        let view = View {
            settled: self.settled.load(Ordering::SeqCst),
            accepted: self.accepted.load(Ordering::SeqCst),
        };
        (!self.is_over.load(Ordering::SeqCst)).then_some(view)
    }

    /// Whether bytes that were read between the view and this stamp belong to this version.
    pub(super) fn accepts(&self, view: View, stamp: &Stamp) -> bool {
        key(&self.digests, stamp) == view.accepted
    }

    /// Records bytes that are about to be handed out. Returns whether they may be: a comparison that began after the
    /// view has not seen them.
    #[must_use]
    pub(super) fn record(&self, view: View, start: u64, bytes: &[u8]) -> bool {
        if !self.digests.record(start, bytes) {
            self.end();
        }
        self.settled.load(Ordering::SeqCst) == view.settled && !self.is_over.load(Ordering::SeqCst)
    }

    /// Whether the last window of a response needs a comparison.
    pub(super) fn is_loose(&self) -> bool {
        self.is_loose.load(Ordering::SeqCst)
    }

    /// Whether this stamp is the first one, and no other was accepted.
    pub(super) fn is_first(&self, view: View, stamp: &Stamp) -> bool {
        view.settled == 0 && self.accepts(view, stamp)
    }

    /// Finds out whether a new stamp on the disk can be accepted. `at` is where the window begins.
    pub(super) fn accept(&self, file: BorrowedFd<'_>, promised: &Stamp, at: u64) -> Accepted {
        let mut comparing = self.comparing();
        for _ in 0..RESTS_MAX {
            let Ok(examined) = stat::examine(file) else { break };
            let now = examined.stamp;
            if self.view().is_some_and(|view| self.accepts(view, &now)) {
                // Another thread has accepted it, or the time was set back.
                return Accepted::Settled;
            }
            if self.is_over.load(Ordering::SeqCst) || now.inode != promised.inode || now.size < promised.size
            {
                break;
            }
            if now.size > comparing.stamp.size {
                let all = || self.digests.recorded(0..promised.size);
                let before = self.digests.recorded(0..at).next_back();
                let samples = all().next().into_iter().chain(before).chain(all().next_back());
                if !self.agree(file, samples) {
                    break;
                }
                self.is_loose.store(true, Ordering::SeqCst);
                self.take(&mut comparing, now);
                return Accepted::Grown;
            }
            if !self.digests.cover_all() || comparing.touches_left == 0 {
                break;
            }
            match unrested_ns(now.changed_ns) {
                0 => {}
                ns => {
                    thread::sleep(Duration::from_nanos(ns));
                    continue;
                }
            }
            comparing.touches_left -= 1;
            match self.settle(file, &mut comparing, now) {
                Some(true) => return Accepted::Settled,
                Some(false) => break,
                None => {}
            }
        }
        self.end();
        Accepted::No
    }

    /// Whether the file still holds this range, as a response got it.
    pub(super) fn holds(&self, file: BorrowedFd<'_>, promised: &Stamp, given: &Range<u64>) -> bool {
        let mut comparing = self.comparing();
        if self.is_over.load(Ordering::SeqCst) || !self.is_loose() {
            return !self.is_over.load(Ordering::SeqCst);
        }
        let Ok(now) = stat::examine(file).map(|examined| examined.stamp) else { return false };
        let is_rested = unrested_ns(now.changed_ns) == 0 && self.digests.cover_all();
        if is_rested
            && now.size >= promised.size
            && let Some(holds) = self.settle(file, &mut comparing, now)
        {
            if !holds {
                self.end();
            }
            return holds;
        }
        let most = if self.digests.cover_all() { usize::MAX } else { SAMPLES_MAX };
        let count = self.digests.recorded(given.clone()).count();
        let samples = self.digests.recorded(given.clone()).step_by(count.div_ceil(most).max(1));
        let holds = self.agree(file, samples);
        if !holds {
            self.end();
        }
        holds
    }

    /// Compares all blocks that were handed out with a file that rests, and accepts its stamp. `None` if the stamp
    /// changed meanwhile.
    fn settle(&self, file: BorrowedFd<'_>, comparing: &mut Comparing, now: Stamp) -> Option<bool> {
        let all = 0..now.size;
        let compared: Vec<Range<u64>> = self.digests.recorded(all.clone()).collect();
        if !self.agree(file, compared.iter().cloned()) {
            return Some(false);
        }
        let after = stat::examine(file).ok()?.stamp;
        if now != after {
            return None;
        }
        self.take(comparing, now);
        self.settled.fetch_add(1, Ordering::SeqCst);
        // Bytes that are recorded from now on have a view that is too old to be handed out. Blocks that were recorded
        // meanwhile are compared now.
        let is_new =
            |block: &Range<u64>| compared.binary_search_by_key(&block.start, |other| other.start).is_err();
        if !self.agree(file, self.digests.recorded(all).filter(is_new)) {
            return Some(false);
        }
        self.is_loose.store(false, Ordering::SeqCst);
        Some(true)
    }

    /// Whether the disk holds these blocks as they were handed out.
    fn agree(&self, file: BorrowedFd<'_>, blocks: impl Iterator<Item = Range<u64>>) -> bool {
        let mut buffer = HeapBuf::zeroed(BLOCK_BYTES as usize);
        let mut ahead = 0;
        for block in blocks {
            if block.start >= ahead {
                file_hints::read_ahead(file, block.start, AHEAD_BYTES);
                ahead = block.start + AHEAD_BYTES.get();
            }
            let bytes = &mut buffer[..(block.end - block.start) as usize];
            match read_exact(file, bytes, block.start) {
                ReadResult::Whole(()) if self.digests.agree(&block, bytes) => {}
                _ => return false,
            }
        }
        true
    }

    fn take(&self, comparing: &mut Comparing, stamp: Stamp) {
        comparing.stamp = stamp;
        self.accepted.store(key(&self.digests, &stamp), Ordering::SeqCst);
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    fn comparing(&self) -> MutexGuard<'_, Comparing> {
        self.comparing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A digest of what [`Stamp::same_content`] compares.
fn key(digests: &Digests, stamp: &Stamp) -> u64 {
    let values = [stamp.inode, stamp.size, stamp.modified_ns as u64].map(u64::to_ne_bytes);
    digests.of(values.as_flattened())
}

/// How long a file that was written then still has to rest. A time in the future says nothing.
fn unrested_ns(written_ns: i64) -> u64 {
    match unix_ns().saturating_sub(written_ns) {
        age_ns @ 0..RESTED_NS => (RESTED_NS - age_ns) as u64,
        _ => 0,
    }
}
