//! The listings in memory: those that are being made, and those that may still answer new requests.
//!
//! A request joins a listing while its names are being read, however long that takes. After that the listing answers for
//! `keep_ms` more, but never once it is older than twice `keep_ms`. The cache keeps the listing for that time. Before and
//! after, only its readers keep it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use flash_http::negotiate::Coding;

use crate::cache::memory_budget::Budget;
use crate::job::{Done, Failure, List, Listed};
use crate::listing::coder::Coder;
use crate::listing::{Listing, Maker, Order, Step};
use crate::path::SitePath;
use crate::site::id::SiteId;

#[derive(Debug)]
pub struct ListingCache {
    keep_ms: u64,
    budget: Arc<Budget>,
    /// The part of the budget for what compresses listings. That stays as long as a slow client needs more pages.
    coders: Arc<Budget>,
    // Never locked while a listing is dropped, because that may take a while.
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    latest: HashMap<Key, Latest>,
    /// All listings that may be in memory, with earlier ones.
    all: Vec<Weak<Listing>>,
    /// The length of `all` at which dead entries are removed.
    tidy_at: usize,
}

type Key = (SiteId, SitePath<'static>, Order);

#[derive(Debug)]
struct Latest {
    listing: Weak<Listing>,
    /// Set while the cache keeps the listing without readers.
    kept: Option<Arc<Listing>>,
    /// The listing was kept at the last call of [`ListingCache::age`], too.
    is_aged: bool,
}

const TIDY_AT_MIN: usize = 64;
/// What compresses listings has a quarter of the budget at most, unless one alone takes more.
const CODERS_PART: u64 = 4;

impl ListingCache {
    pub fn new(keep_ms: u64, bytes_max: u64) -> Self {
        let one = Coding::ALL.into_iter().map(Coder::memory_bytes).max().unwrap_or_default();
        let coders = (bytes_max / CODERS_PART).max(one).min(bytes_max);
        let [budget, coders] = [bytes_max, coders].map(Budget::new);
        Self { keep_ms, budget, coders, known: Mutex::default() }
    }

    pub fn keep_ms(&self) -> u64 {
        self.keep_ms
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// A listing that is ready for this request, of a root of at least this generation. Never blocks: a locked cache returns
    /// none.
    pub fn get_now(&self, list: &List, generation: u64) -> Option<Arc<Listing>> {
        let known = match self.known.try_lock() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let listing = known.latest.get(&key(list))?.listing.upgrade()?;
        (listing.is_ready() && self.serves(&listing, list, generation)).then_some(listing)
    }

    /// The listing for this request: one that is ready, one that is being made, or a new one. If there is no memory to compress a
    /// new one, it is sent as it is.
    fn join(&self, list: &List, maker: &mut dyn Maker) -> Arc<Listing> {
        let root = maker.root();
        let generation = root.as_ref().map_or(0, |root| root.generation());
        let present = |known: &Known| {
            let before = known.latest.get(&key(list)).map(|latest| latest.listing.clone());
            let before = before.unwrap_or_default();
            match before.upgrade().filter(|listing| self.serves(listing, list, generation)) {
                Some(listing) => Ok(listing),
                None => Err(before),
            }
        };
        let mut coder = None;
        if let Some(coding) = list.order.coding {
            if let Ok(listing) = present(&self.lock()) {
                return listing;
            }
            coder = self.coder(coding, maker);
            if coder.is_none() {
                let order = Order { coding: None, ..list.order };
                return self.join(&List { order, ..list.clone() }, maker);
            }
        }
        let mut known = self.lock();
        let before = match present(&known) {
            Ok(listing) => return listing,
            Err(before) => before,
        };
        let memory = (Arc::clone(&self.budget), coder);
        let listing = Arc::new(Listing::new(key(list), list.asked_ms, memory, root, before));
        let latest = Latest { listing: Arc::downgrade(&listing), kept: None, is_aged: false };
        known.all.push(Weak::clone(&latest.listing));
        let replaced = known.latest.insert(key(list), latest);
        if known.all.len() > known.tidy_at {
            known.tidy();
        }
        drop((known, replaced));
        listing
    }

    /// What compresses a new listing. `None` if there is no memory for it.
    fn coder(&self, coding: Coding, maker: &mut dyn Maker) -> Option<Coder> {
        let bytes = Coder::memory_bytes(coding);
        let share = self.coders.reserve(bytes)?;
        loop {
            match self.budget.reserve(bytes) {
                Some(memory) => return Coder::new(coding, [share, memory]),
                None if maker.make_room() => {}
                None => return None,
            }
        }
    }

    fn serves(&self, listing: &Listing, list: &List, generation: u64) -> bool {
        listing.is_fresh(list.asked_ms, self.keep_ms) && listing.generation() >= generation
    }

    /// Does a step of the job. `None` if this helper must not wait for the listing.
    pub fn list(&self, list: &List, maker: &mut dyn Maker) -> Option<Done> {
        let listing = list.listing.clone().unwrap_or_else(|| self.join(list, maker));
        let was_ready = listing.is_ready();
        let page = loop {
            break match listing.page(list.page, list.asked_ms, maker) {
                Step::Page(page) => Some(page),
                Step::Unready => None,
                Step::Elsewhere => return None,
                Step::Failed(failure) => {
                    self.forget(&listing);
                    let order = Order { coding: None, ..listing.order() };
                    // There may be no room for its names beside what compresses it.
                    if failure == Failure::OverBudget && list.page == 0 && order != listing.order() {
                        return self.list(&List { order, listing: None, ..list.clone() }, maker);
                    }
                    return Some(Done::Failed(failure));
                }
                Step::Taken if !maker.wait() => return None,
                Step::Taken if !maker.is_over() => continue,
                Step::Taken => None,
            };
        };
        if !was_ready && listing.is_ready() && self.keep(&listing) {
            maker.kept();
        }
        Some(Done::Listed(Listed { listing, page }))
    }

    /// A listing has become ready. Returns whether the cache keeps it.
    fn keep(&self, listing: &Arc<Listing>) -> bool {
        if self.keep_ms == 0 {
            return false;
        }
        let mut known = self.lock();
        let latest = known.latest.get_mut(&key_of(listing));
        let Some(latest) = latest.filter(|latest| latest.is(listing)) else { return false };
        latest.kept = Some(Arc::clone(listing));
        true
    }

    /// A listing has failed: the next request makes a new one.
    fn forget(&self, listing: &Arc<Listing>) {
        let mut known = self.lock();
        let key = key_of(listing);
        if known.latest.get(&key).is_some_and(|latest| latest.is(listing)) {
            let forgotten = known.latest.remove(&key);
            drop((known, forgotten));
        }
    }

    pub fn keeps_any(&self) -> bool {
        self.lock().latest.values().any(|latest| latest.kept.is_some())
    }

    /// Called every `keep_ms`: drops listings that were kept at the last call. Returns whether any are left.
    pub fn age(&self) -> bool {
        let mut known = self.lock();
        let mut aged = Vec::new();
        for latest in known.latest.values_mut() {
            if latest.is_aged {
                aged.extend(latest.kept.take());
            }
            latest.is_aged = latest.kept.is_some();
        }
        known.tidy();
        drop((known, aged));
        self.keeps_any()
    }

    /// Evicts the pages of listings that the cache no longer keeps. If there are none, evicts all that it keeps. Returns
    /// whether there was anything to evict.
    pub fn make_room(&self) -> bool {
        let old = self.lock().old();
        if old.iter().any(|listing| listing.evict_pages()) {
            return true;
        }
        let mut known = self.lock();
        let kept: Vec<Arc<Listing>> =
            known.latest.values_mut().filter_map(|latest| latest.kept.take()).collect();
        drop(known);
        kept.iter().for_each(|listing| _ = listing.evict_pages());
        !kept.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Listings that only their readers keep.
    fn old(&self) -> Vec<Arc<Listing>> {
        let kept = self.latest.values().filter_map(|latest| latest.kept.as_ref().map(Arc::as_ptr));
        let kept: HashSet<*const Listing> = kept.collect();
        let all = self.all.iter().filter_map(Weak::upgrade);
        all.filter(|listing| !kept.contains(&Arc::as_ptr(listing))).collect()
    }

    fn tidy(&mut self) {
        self.all.retain(|listing| listing.strong_count() > 0);
        self.latest.retain(|_, latest| latest.listing.strong_count() > 0);
        self.tidy_at = (2 * self.all.len()).max(TIDY_AT_MIN);
    }
}

impl Latest {
    fn is(&self, listing: &Arc<Listing>) -> bool {
        self.listing.as_ptr() == Arc::as_ptr(listing)
    }
}

fn key(list: &List) -> Key {
    (list.site, list.path.clone(), list.order)
}

fn key_of(listing: &Listing) -> Key {
    (listing.site(), listing.path().clone(), listing.order())
}

#[cfg(test)]
mod tests;
