//! The listings in memory, and the thread that evicts them when they expire. How a listing is made is not known here.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use flash_core::listing::cache::ListingCache;

/// A step of a listing takes at most this time, plus its last call. A folder that is read in one step is sent with
/// its length.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// The cache of listings, and whether a thread evicts them.
#[derive(Debug)]
pub(crate) struct Listings {
    pub(crate) cache: ListingCache,
    is_swept: AtomicBool,
    /// Notified when a step ends, for helpers that find another at work on their listing.
    pub(crate) turn: Mutex<()>,
    pub(crate) step_ended: Condvar,
}

impl Listings {
    pub(crate) fn new(keep_ms: u64, bytes_max: u64) -> Self {
        Self {
            cache: ListingCache::new(keep_ms, bytes_max),
            is_swept: AtomicBool::new(false),
            turn: Mutex::new(()),
            step_ended: Condvar::new(),
        }
    }

    /// Starts the thread that evicts expired listings, unless it runs.
    pub(crate) fn sweep(self: &Arc<Self>) -> io::Result<()> {
        if self.is_swept.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let listings = Arc::clone(self);
        let life = move || {
            loop {
                thread::sleep(Duration::from_millis(listings.cache.keep_ms()));
                if listings.cache.age() {
                    continue;
                }
                listings.is_swept.store(false, Ordering::Release);
                // A listing may have been added since.
                if !listings.cache.keeps_any() || listings.is_swept.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("listings".into()).stack_size(64 << 10).spawn(life);
        thread.map(drop).inspect_err(|_| self.is_swept.store(false, Ordering::Release))
    }
}
