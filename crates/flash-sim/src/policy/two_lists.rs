//! The page cache of Linux without multi-generational LRU: an active and an inactive list, and the memory of what was evicted.
//!
//! It follows `mm/vmscan.c`, `mm/swap.c` and `mm/workingset.c` (6.18) for clean pages of files that nobody maps, in a cgroup without
//! swap. A file is a unit, because servers read whole files: it stands for its folios, which lie side by side in the lists.

use std::collections::BTreeMap;

use super::cache::Cache;
use super::chains::Chains;

const INACTIVE: usize = 0;
const ACTIVE: usize = 1;

#[derive(Debug)]
pub struct TwoLists {
    capacity: u64,
    lists: Chains<2>,
    files: Vec<PageState>,
    /// Bytes that were evicted or activated so far (`nonresident_age`).
    age: u64,
    /// Files that a disk reads: how many wait for each, and its bytes. Their pages are locked, and cannot leave.
    in_flight: BTreeMap<u32, (u32, u64)>,
    in_flight_bytes: u64,
    /// Files came back and became active at once since the last time that room was made.
    has_refaults: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct PageState {
    /// `PG_referenced`.
    is_referenced: bool,
    /// The age when it was evicted.
    evicted: Option<u64>,
}

impl TwoLists {
    pub fn new(capacity: u64) -> TwoLists {
        TwoLists {
            capacity,
            lists: Chains::new(),
            files: Vec::new(),
            age: 0,
            in_flight: BTreeMap::new(),
            in_flight_bytes: 0,
            has_refaults: false,
        }
    }

    pub fn contains(&self, file: u32) -> bool {
        self.lists.queue_of(file).is_some()
    }

    pub fn len(&self) -> u64 {
        self.lists.len(INACTIVE) + self.lists.len(ACTIVE)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn used(&self) -> u64 {
        self.lists.bytes(INACTIVE) + self.lists.bytes(ACTIVE)
    }

    /// A read from the cache: `folio_mark_accessed`. Returns whether the file is there.
    pub fn touch(&mut self, file: u32) -> bool {
        let Some(list) = self.lists.queue_of(file) else { return false };
        let state = &mut self.files[file as usize];
        if !state.is_referenced {
            state.is_referenced = true;
        } else if list == INACTIVE {
            state.is_referenced = false;
            self.lists.move_to(ACTIVE, file);
            self.age += self.lists.bytes_of(file);
        }
        true
    }

    /// A disk begins to read a file for somebody. Its pages take their room at once.
    pub fn begin_read(&mut self, file: u32, bytes: u64) {
        let (waiting, _) = self.in_flight.entry(file).or_insert((0, bytes));
        *waiting += 1;
        if *waiting == 1 {
            self.in_flight_bytes += bytes;
            self.make_room(0);
        }
    }

    /// Somebody has what the disk has read.
    pub fn end_read(&mut self, file: u32) {
        let Some((waiting, bytes)) = self.in_flight.get_mut(&file) else { return };
        *waiting -= 1;
        if *waiting == 0 {
            self.in_flight_bytes -= *bytes;
            self.in_flight.remove(&file);
        }
    }

    /// A read from the disk, and of the file from the cache after it. A file that is larger than the cache does not stay.
    pub fn read(&mut self, file: u32, bytes: u64) {
        if self.touch(file) || bytes > self.capacity {
            return;
        }
        if self.files.len() <= file as usize {
            self.files.resize(file as usize + 1, PageState::default());
        }
        let state = &mut self.files[file as usize];
        state.is_referenced = true;
        // `workingset_refault`: it would still be there if the active list had been as much shorter.
        let is_active =
            state.evicted.take().is_some_and(|evicted| self.age - evicted <= self.lists.bytes(ACTIVE));
        if is_active {
            self.has_refaults = true;
            self.age += bytes;
        }
        self.make_room(bytes);
        self.lists.push(if is_active { ACTIVE } else { INACTIVE }, file, bytes);
    }

    /// Gives up a file's pages: `POSIX_FADV_DONTNEED`.
    pub fn forget(&mut self, file: u32) {
        if self.contains(file) {
            self.lists.remove(file);
        }
    }

    /// What else takes memory leaves so much for pages.
    pub fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.make_room(0);
    }

    fn make_room(&mut self, bytes: u64) {
        let bytes = bytes + self.in_flight_bytes;
        while self.used() > 0 && self.used() + bytes > self.capacity {
            self.reclaim(self.used() + bytes - self.capacity);
        }
    }

    /// `shrink_lruvec`: takes from both lists the same part, and only what was inactive leaves.
    fn reclaim(&mut self, bytes: u64) {
        let (inactive, active) = (self.lists.bytes(INACTIVE), self.lists.bytes(ACTIVE));
        // With less than a gigabyte, the active list shall be no longer than the other one.
        if active > 0 && (inactive < active || self.has_refaults) {
            let part = bytes as f64 / inactive.max(1) as f64;
            self.deactivate((active as f64 * part.min(1.0)).ceil() as u64);
        }
        self.has_refaults = false;
        let mut freed = 0;
        while freed < bytes
            && let Some(file) = self.lists.oldest(INACTIVE)
        {
            let evicted = self.lists.remove(file);
            self.files[file as usize] = PageState { is_referenced: false, evicted: Some(self.age) };
            self.age += evicted;
            freed += evicted;
        }
    }

    fn deactivate(&mut self, bytes: u64) {
        let mut moved = 0;
        while moved < bytes
            && let Some(file) = self.lists.oldest(ACTIVE)
        {
            moved += self.lists.bytes_of(file);
            self.lists.move_to(INACTIVE, file);
        }
    }
}

impl Cache for TwoLists {
    fn request(&mut self, file: u32, bytes: u64) -> bool {
        if self.touch(file) {
            return true;
        }
        self.read(file, bytes);
        false
    }
}
