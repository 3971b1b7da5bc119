//! A worker's own small cache, before the pathname cache that all workers share. It holds frequent entries, by site and raw
//! request target.
//!
//! A request that it answers touches nothing that another processor writes: no lock, no counter, no reference count. An
//! entry stays until its next look at the disk is due, after about a second. After that, the shared cache answers.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;

use crate::file::entry::Entry;
use crate::site::id::SiteId;

#[derive(Debug)]
pub struct LocalCache {
    slots: Box<[Slot]>,
    hasher: DefaultHashBuilder,
    bytes: u64,
    bytes_max: u64,
    swept_ms: u64,
}

#[derive(Debug, Default)]
struct Slot {
    kept: Option<Kept>,
    /// The hash of the last target that was not kept. One request alone is not worth a copy.
    candidate: u64,
}

#[derive(Debug)]
struct Kept {
    site: SiteId,
    target: Box<[u8]>,
    entry: Arc<Entry>,
    until_ms: u64,
    bytes: u64,
    /// Requests that it has answered.
    hits: u32,
}

/// Enough for targets that are requested many times a second.
const SLOTS: usize = 1024;
/// How often old entries are removed, so that they do not hold memory that the shared cache has freed.
const SWEEP_MS: u64 = 1000;

impl LocalCache {
    /// A cache for this many bytes, or no cache for a worker that needs none.
    pub fn new(bytes_max: u64) -> Self {
        let slots = if bytes_max == 0 { 0 } else { SLOTS };
        let slots = std::iter::repeat_with(Slot::default).take(slots).collect();
        Self { slots, hasher: DefaultHashBuilder::default(), bytes: 0, bytes_max, swept_ms: 0 }
    }

    /// What is kept for the target, if it was found in the root of this generation.
    pub(crate) fn get(
        &mut self,
        site: SiteId,
        target: &[u8],
        now_ms: u64,
        generation: u64,
    ) -> Option<Arc<Entry>> {
        if self.slots.is_empty() {
            return None;
        }
        if now_ms.saturating_sub(self.swept_ms) >= SWEEP_MS {
            self.sweep(now_ms);
        }
        let place = self.hash(site, target) as usize % SLOTS;
        let kept = self.slots[place].kept.as_mut()?;
        let serves = now_ms < kept.until_ms && kept.entry.generation() >= generation;
        (serves && kept.site == site && *kept.target == *target).then(|| {
            kept.hits = kept.hits.saturating_add(1);
            Arc::clone(&kept.entry)
        })
    }

    /// How many requests for the target it has answered since the last call. The shared cache has not seen them.
    pub(crate) fn take_hits(&mut self, site: SiteId, target: &[u8]) -> u32 {
        if self.slots.is_empty() {
            return 0;
        }
        let place = self.hash(site, target) as usize % SLOTS;
        let kept = self.slots[place].kept.as_mut();
        let of_target = kept.filter(|kept| kept.site == site && *kept.target == *target);
        of_target.map_or(0, |kept| std::mem::take(&mut kept.hits))
    }

    /// Offers an entry of the shared cache, which is fresh until `until_ms`.
    pub(crate) fn offer(&mut self, site: SiteId, target: &[u8], entry: &Entry, now_ms: u64, until_ms: u64) {
        // The shared cache counts open files, so their entries stay there. Sending such a file takes far longer than a
        // lock.
        if self.slots.is_empty() || until_ms <= now_ms || entry.descriptors() > 0 {
            return;
        }
        let hash = self.hash(site, target);
        let slot = &mut self.slots[hash as usize % SLOTS];
        if slot.candidate != hash {
            slot.candidate = hash;
            return;
        }
        let bytes = target.len() as u64 + entry.weight_bytes();
        let others = self.bytes - slot.kept.as_ref().map_or(0, |kept| kept.bytes);
        if others + bytes <= self.bytes_max {
            self.bytes = others + bytes;
            slot.kept = Some(Kept {
                site,
                target: target.into(),
                entry: Arc::new(entry.replica()),
                until_ms,
                bytes,
                hits: 0,
            });
        }
    }

    fn hash(&self, site: SiteId, target: &[u8]) -> u64 {
        self.hasher.hash_one((site, target))
    }

    fn sweep(&mut self, now_ms: u64) {
        self.swept_ms = now_ms;
        for slot in &mut self.slots {
            if let Some(kept) = slot.kept.take_if(|kept| kept.until_ms <= now_ms) {
                self.bytes -= kept.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::entry::Resource;
    use crate::job::{Done, Find, Job};
    use crate::path::SitePath;
    use crate::testing::Disk;

    const SITE: SiteId = SiteId(0);

    fn missing() -> Entry {
        Entry::new(Resource::Missing, 0)
    }

    #[test]
    fn the_second_time_it_is_kept_until_it_is_due() {
        let mut local = LocalCache::new(1 << 20);
        local.offer(SITE, b"/a", &missing(), 0, 1000);
        assert!(local.get(SITE, b"/a", 0, 0).is_none(), "once is not often");
        local.offer(SITE, b"/a", &missing(), 0, 1000);
        assert!(local.get(SITE, b"/a", 999, 0).is_some());
        assert!(local.get(SITE, b"/b", 999, 0).is_none());
        assert!(local.get(SITE, b"/a", 1000, 0).is_none());
        local.offer(SITE, b"/a", &missing(), 1000, 1000);
        assert!(local.get(SITE, b"/a", 1000, 0).is_none(), "somebody is just looking at the disk for it");
        assert_eq!(local.bytes, 0, "what is over has been swept away");
        local.offer(SITE, b"/a", &missing(), 1001, 2000);
        assert!(local.get(SITE, b"/a", 1001, 0).is_some());
    }

    #[test]
    fn a_target_is_another_one_in_another_site() {
        let mut local = LocalCache::new(1 << 20);
        (0..2).for_each(|_| local.offer(SITE, b"/a", &missing(), 0, 1000));
        assert!(local.get(SITE, b"/a", 0, 0).is_some() && local.get(SiteId(1), b"/a", 0, 0).is_none());
    }

    #[test]
    fn what_holds_a_file_open_is_not_kept() {
        let mut disk = Disk::new(0);
        disk.put("/a", *b"too large for memory");
        let path = SitePath::parse(b"/a").unwrap().into_owned();
        let found = disk.try_now(&Job::Find(Find::first(SITE, path)));
        let Some(Done::Found(open)) = found else { panic!("it is there") };
        let mut local = LocalCache::new(1 << 20);
        (0..3).for_each(|_| local.offer(SITE, b"/a", &open, 0, 1000));
        assert!(local.get(SITE, b"/a", 0, 0).is_none());
        drop(open);
        assert_eq!(disk.open_files(), 0);
    }

    #[test]
    fn its_bytes_are_bounded() {
        let one = missing().weight_bytes() + 4;
        let mut local = LocalCache::new(3 * one);
        for name in 100..200 {
            let target = format!("/{name}");
            (0..2).for_each(|_| local.offer(SITE, target.as_bytes(), &missing(), 0, 1000));
        }
        assert_eq!(local.bytes, 3 * one);
        local.get(SITE, b"/", 1000, 0);
        assert_eq!(local.bytes, 0);
    }
}
