//! A part of the pathname cache, and its policy: which entries are worth their room.
//!
//! An entry's value is what it saves in a while: its frequency, times what a request without it would cost. If room is short,
//! the shard compares a few entries, as Redis does. The one with the least value for each unit of what is short leaves:
//! bytes, entries or descriptors. A new entry comes in only if its name was requested before, and if it is worth more than
//! each entry that it would replace. Otherwise it replaces nothing. So a scan replaces nothing.

use std::sync::Arc;

use hashbrown::HashTable;

use super::frequencies::Frequencies;
use crate::file::COPIED_AT_ONCE_BYTES_MAX;
use crate::file::entry::Entry;
use crate::job::Worth;
use crate::site::id::SiteId;

/// How many entries are looked at while the shard is locked, when those of some sites leave or all names are shown.
const LOOKED_AT: usize = 128;
/// How many leave while the shard is locked, when it shrinks.
const LEAVE: usize = 32;
/// How many entries are compared, each time that one has to leave.
const SAMPLE: usize = 8;
/// The memory of an entry's place, besides the entry and its name.
const PLACE_BYTES: u64 = 64;
/// Without room, a name has to be requested this often before it gets any.
const REQUESTED_AGAIN: u8 = 2;
/// What a disk reads at a time, more or less.
const READ_BYTES: u64 = 128 << 10;
/// What a read from a disk saves, in look-ups that the kernel's caches would answer.
const READ_VALUE: u64 = 8;

/// What a shard, or an entry, takes of each limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) bytes: u64,
    pub(super) entries: u64,
    pub(super) descriptors: u64,
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scarce {
    Bytes,
    Entries,
    Descriptors,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    /// Places by the hashes of their names.
    index: HashTable<u32>,
    places: Vec<Slot>,
    used: Room,
    /// Entries that had to leave, because others are worth more or memory is scarce.
    evictions: u64,
}

/// A path of a site.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) hash: u64,
    pub(super) site: SiteId,
    pub(super) path: &'a [u8],
}

#[derive(Debug)]
struct Slot {
    hash: u64,
    site: SiteId,
    path: Box<[u8]>,
    entry: Arc<Entry>,
    room: Room,
    /// Of its bytes, those that every request for the file would take while it is sent. To evict it saves none of them.
    table_bytes: u64,
    /// What a request saves that finds the entry.
    saves: u64,
}

/// Entries that had to leave. They are dropped after the lock is released.
pub(super) type Evicted = Vec<Arc<Entry>>;

impl Shard {
    pub(super) fn get(&self, name: Name<'_>) -> Option<&Arc<Entry>> {
        self.position(name).map(|position| &self.places[position].entry)
    }

    /// Shows some names, from this place on. Returns where it goes on.
    pub(super) fn names(&self, from: usize, mut each: impl FnMut(Name<'_>)) -> Option<usize> {
        let until = (from + LOOKED_AT).min(self.places.len());
        for Slot { hash, site, path, .. } in self.places.get(from..until).unwrap_or_default() {
            each(Name { hash: *hash, site: *site, path });
        }
        (until < self.places.len()).then_some(until)
    }

    /// Takes the entry in, if it is worth its room. What it replaces goes to `evicted`, and so does an earlier entry of the name.
    /// An entry that is not worth its room replaces nothing else.
    pub(super) fn insert(
        &mut self,
        name: Name<'_>,
        entry: &Arc<Entry>,
        (limits, frequencies): (&Room, &Frequencies),
        evicted: &mut Evicted,
    ) -> bool {
        if let Some(old) = self.position(name) {
            evicted.push(self.remove(old));
        }
        let place = Slot::new(name, entry);
        if place.room.exceeds(limits).is_some() {
            return false;
        }
        let frequency = frequencies.of(name.hash);
        let mut replaced: Vec<Slot> = Vec::new();
        while let Some(scarce) = self.used.plus(place.room).exceeds(limits) {
            let victim = self.least_dense(scarce, name.hash, frequencies);
            let least = victim.map_or(f64::INFINITY, |victim| self.density(victim, scarce, frequencies));
            if frequency < REQUESTED_AGAIN || place.density(frequency, scarce) <= least {
                replaced.into_iter().for_each(|place| self.put(place));
                return false;
            }
            replaced.extend(victim.map(|victim| self.take(victim)));
        }
        self.evictions += replaced.len() as u64;
        evicted.extend(replaced.into_iter().map(|place| place.entry));
        self.put(place);
        true
    }

    /// Puts another entry in the place of the name's. If it is not worth its room, the earlier one stays.
    pub(super) fn replace(
        &mut self,
        name: Name<'_>,
        entry: &Arc<Entry>,
        limits: (&Room, &Frequencies),
        evicted: &mut Evicted,
    ) -> bool {
        let earlier = self.get(name).map(Arc::clone);
        let is_in = self.insert(name, entry, limits, evicted);
        if !is_in && let Some(earlier) = earlier {
            // The room that it had is still free.
            self.insert(name, &earlier, limits, evicted);
        }
        is_in
    }

    /// Removes entries of sites that are not kept, from this position on and some at a time. Returns where to go on.
    pub(super) fn remove_sites(
        &mut self,
        from: usize,
        is_kept: impl Fn(SiteId) -> bool,
        evicted: &mut Evicted,
    ) -> Option<usize> {
        let mut position = from;
        for _ in 0..LOOKED_AT {
            match self.places.get(position) {
                None => return None,
                Some(place) if is_kept(place.site) => position += 1,
                // The last place takes this position.
                Some(_) => evicted.push(self.remove(position)),
            }
        }
        Some(position)
    }

    /// Removes some of the entries that are worth least, as far as all take too much memory. Returns whether the rest fits.
    pub(super) fn shrink(&mut self, limits: &Room, frequencies: &Frequencies, evicted: &mut Evicted) -> bool {
        for _ in 0..LEAVE {
            if self.used.bytes <= limits.bytes {
                return true;
            }
            // Each time among others.
            let seed = self.used.bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let Some(least) = self.least_dense(Scarce::Bytes, seed, frequencies) else { return true };
            self.evictions += 1;
            evicted.push(self.remove(least));
        }
        false
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// What the shard would take of the name's file.
    pub(super) fn worth(&self, hash: u64, limits: &Room, frequencies: &Frequencies) -> Worth {
        let is_requested_again = frequencies.of(hash) >= REQUESTED_AGAIN;
        let open = Room { entries: 1, descriptors: 1, bytes: 0 };
        let open = match self.used.plus(open).exceeds(limits) {
            None => true,
            Some(scarce) => {
                let victim = self.least_dense(scarce, hash, frequencies);
                let least = victim.map(|victim| self.density(victim, scarce, frequencies));
                is_requested_again && least.is_some_and(|least| value(frequencies.of(hash), 1) > least)
            }
        };
        let free_bytes = limits.bytes.saturating_sub(self.used.bytes);
        let content_bytes_max = match is_requested_again {
            true => self.content_bytes_max(hash, limits, frequencies),
            // A file that is requested once, as in a first pass, is sent from the page cache.
            false => free_bytes.min(COPIED_AT_ONCE_BYTES_MAX),
        };
        Worth { content_bytes_max, free_bytes, open }
    }

    /// The largest content that is worth more than what it would replace.
    fn content_bytes_max(&self, hash: u64, limits: &Room, frequencies: &Frequencies) -> u64 {
        let free = limits.bytes.saturating_sub(self.used.bytes);
        let Some(victim) = self.least_dense(Scarce::Bytes, hash, frequencies) else { return free };
        let least = self.density(victim, Scarce::Bytes, frequencies);
        // What one read brings saves the same for any size. From there on the value grows with the size.
        let saved = value(frequencies.of(hash), READ_VALUE);
        if saved / READ_BYTES as f64 > least { limits.bytes } else { free.max((saved / least) as u64) }
    }

    pub(super) fn used(&self) -> Room {
        self.used
    }

    fn position(&self, Name { hash, site, path }: Name<'_>) -> Option<usize> {
        let is_it = |&position: &u32| {
            let place = &self.places[position as usize];
            place.hash == hash && place.site == site && *place.path == *path
        };
        self.index.find(hash, is_it).map(|&position| position as usize)
    }

    /// Of a few entries, the one with the least value for each unit of what is scarce.
    fn least_dense(&self, scarce: Scarce, seed: u64, frequencies: &Frequencies) -> Option<usize> {
        let count = self.places.len() as u64;
        // Places are in no order, so a few in a row are as good as any.
        let start = seed.rotate_left(17).wrapping_add(frequencies.age());
        let position = |number: u64| (start.wrapping_add(number) % count) as usize;
        let takes = |&position: &usize| self.places[position].room.of(scarce) > 0;
        let density = |&position: &usize| self.density(position, scarce, frequencies);
        // If none of the first takes any of it, there is one further on.
        let walk = (0..count).map(position);
        walk.filter(takes).take(SAMPLE).min_by(|a, b| density(a).total_cmp(&density(b)))
    }

    fn density(&self, position: usize, scarce: Scarce, frequencies: &Frequencies) -> f64 {
        let place = &self.places[position];
        place.density(frequencies.of(place.hash), scarce)
    }

    fn put(&mut self, place: Slot) {
        self.used = self.used.plus(place.room);
        let position = self.places.len() as u32;
        let hash_of = |&position: &u32| self.places[position as usize].hash;
        self.index.insert_unique(place.hash, position, hash_of);
        self.places.push(place);
    }

    fn remove(&mut self, position: usize) -> Arc<Entry> {
        self.take(position).entry
    }

    fn take(&mut self, position: usize) -> Slot {
        let hash = self.places[position].hash;
        let found = self.index.find_entry(hash, |&other| other as usize == position);
        found.expect("each place is indexed").remove();
        let last = self.places.len() - 1;
        if position != last {
            // The last place moves into the gap.
            let hash = self.places[last].hash;
            let moved =
                self.index.find_mut(hash, |&other| other as usize == last).expect("each place is indexed");
            *moved = position as u32;
        }
        let place = self.places.swap_remove(position);
        self.used = self.used.minus(place.room);
        place
    }
}

impl Slot {
    fn new(Name { hash, site, path }: Name<'_>, entry: &Arc<Entry>) -> Self {
        let bytes = entry.weight_bytes() + path.len() as u64 + PLACE_BYTES;
        let room = Room { bytes, entries: 1, descriptors: entry.descriptors() };
        let reads = entry.content_bytes().div_ceil(READ_BYTES);
        let (table_bytes, saves) = (entry.table_bytes(), 1 + reads * READ_VALUE);
        Self { hash, site, path: path.into(), entry: Arc::clone(entry), room, table_bytes, saves }
    }

    /// The value of each unit of what is scarce.
    fn density(&self, frequency: u8, scarce: Scarce) -> f64 {
        let freed = match scarce {
            Scarce::Bytes => self.room.bytes - self.table_bytes,
            Scarce::Entries | Scarce::Descriptors => self.room.of(scarce),
        };
        value(frequency, self.saves) / freed.max(1) as f64
    }
}

/// What an entry saves in a while. A name without requests is still worth its size: of two of them the larger leaves.
fn value(frequency: u8, saves: u64) -> f64 {
    f64::from(frequency.max(1)) * saves as f64
}

impl Room {
    fn of(self, scarce: Scarce) -> u64 {
        match scarce {
            Scarce::Bytes => self.bytes,
            Scarce::Entries => self.entries,
            Scarce::Descriptors => self.descriptors,
        }
    }

    fn exceeds(self, limits: &Self) -> Option<Scarce> {
        [Scarce::Entries, Scarce::Descriptors, Scarce::Bytes]
            .into_iter()
            .find(|&it| self.of(it) > limits.of(it))
    }

    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            entries: self.entries + other.entries,
            descriptors: self.descriptors + other.descriptors,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes - other.bytes,
            entries: self.entries - other.entries,
            descriptors: self.descriptors - other.descriptors,
        }
    }
}

#[cfg(test)]
mod tests;
