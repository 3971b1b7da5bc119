//! A cache that evicts the least recently used file.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// No entry.
const END: u32 = u32::MAX;

/// Files by the time they were last asked for, up to a total weight. Twelve bytes an entry and the index; each step takes the
/// same time, however many there are.
#[derive(Debug)]
pub struct Lru {
    capacity: u64,
    used: u64,
    index: HashMap<u32, u32, BuildHasherDefault<FileHasher>>,
    entries: Vec<Entry>,
    /// A chain through `older`.
    free: u32,
    newest: u32,
    oldest: u32,
    evicted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    file: u32,
    newer: u32,
    older: u32,
}

impl Lru {
    pub fn new(capacity: u64) -> Lru {
        Lru {
            capacity,
            used: 0,
            index: HashMap::default(),
            entries: Vec::new(),
            free: END,
            newest: END,
            oldest: END,
            evicted: false,
        }
    }

    pub fn contains(&self, file: u32) -> bool {
        self.index.contains_key(&file)
    }

    /// Makes the file the newest, and says whether it is there.
    pub fn touch(&mut self, file: u32) -> bool {
        let Some(&at) = self.index.get(&file) else { return false };
        if self.newest != at {
            self.unlink(at);
            self.link_newest(at);
        }
        true
    }

    /// Adds a file as the newest; the oldest make room. What is heavier than the whole cache stays outside.
    pub fn insert(&mut self, file: u32, weigh: impl Fn(u32) -> u64) {
        let weight = weigh(file);
        if weight > self.capacity || self.touch(file) {
            return;
        }
        while self.used + weight > self.capacity {
            self.evict(&weigh);
        }
        self.used += weight;
        let at = self.entry(file);
        self.link_newest(at);
    }

    /// Adds a file as the oldest, if it fits.
    pub fn insert_oldest(&mut self, file: u32, weigh: impl Fn(u32) -> u64) -> bool {
        let weight = weigh(file);
        if self.used + weight > self.capacity || self.contains(file) {
            return false;
        }
        self.used += weight;
        let at = self.entry(file);
        self.entries[at as usize] = Entry { file, newer: self.oldest, older: END };
        match self.oldest {
            END => self.newest = at,
            oldest => self.entries[oldest as usize].older = at,
        }
        self.oldest = at;
        true
    }

    /// Whether anything ever had to make room. From then on the content depends on the requests since the beginning alone,
    /// not on what came before.
    pub fn has_evicted(&self) -> bool {
        self.evicted
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    fn evict(&mut self, weigh: &impl Fn(u32) -> u64) {
        let at = self.oldest;
        let file = self.entries[at as usize].file;
        self.unlink(at);
        self.entries[at as usize].older = self.free;
        self.free = at;
        self.index.remove(&file);
        self.used -= weigh(file);
        self.evicted = true;
    }

    /// An entry for a file that has none.
    fn entry(&mut self, file: u32) -> u32 {
        let entry = Entry { file, newer: END, older: END };
        let at = match self.free {
            END => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
            free => {
                self.free = self.entries[free as usize].older;
                self.entries[free as usize] = entry;
                free
            }
        };
        self.index.insert(file, at);
        at
    }

    fn unlink(&mut self, at: u32) {
        let Entry { newer, older, .. } = self.entries[at as usize];
        match newer {
            END => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            END => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let older = self.newest;
        let entry = &mut self.entries[at as usize];
        (entry.newer, entry.older) = (END, older);
        match older {
            END => self.oldest = at,
            older => self.entries[older as usize].newer = at,
        }
        self.newest = at;
    }
}

/// One multiplication: files are numbered densely, and no attacker chooses numbers that collide.
#[derive(Debug, Default)]
struct FileHasher(u64);

impl Hasher for FileHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("files are hashed by their number");
    }

    fn write_u32(&mut self, file: u32) {
        // The table takes its group from the low bits and its tag from the high ones.
        let product = u64::from(file).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
