//! Files in the order of their last use, with any place in it found in O(log n): the stack of an LRU cache without bounds.

/// Places are distances: 1 is the file that was used last, 2 the one before.
#[derive(Clone, Debug)]
pub struct Recency {
    /// Which file was used at which time; later uses have higher slots. Slots are used up and then numbered anew.
    slots: Vec<Option<u32>>,
    /// How many slots from the first on have been used.
    used: usize,
    /// Where each file lies in `slots`, by its number.
    slot_of: Vec<Option<u32>>,
    /// How many slots are taken, as a Fenwick tree (Fenwick, 1994): node i counts those of the `i & -i` slots that end at i.
    counts: Vec<u32>,
    files: u32,
}

impl Recency {
    /// For files below this number, none of them used so far.
    pub fn new(files: u32) -> Self {
        // With twice as many slots as files, numbering anew costs no more than the uses since the last time did.
        let slots = 2 * files as usize;
        Self {
            slots: vec![None; slots],
            used: 0,
            slot_of: vec![None; files as usize],
            counts: vec![0; slots + 1],
            files: 0,
        }
    }

    /// How many files have been used.
    pub fn files(&self) -> u32 {
        self.files
    }

    /// Uses a file: it goes to the top. Says at which distance it was, or None if it is used for the first time.
    pub fn touch(&mut self, file: u32) -> Option<u32> {
        let distance = self.slot_of[file as usize].map(|slot| {
            let distance = self.files - self.taken_below(slot as usize);
            self.slots[slot as usize] = None;
            self.add(slot as usize, -1);
            distance
        });
        if distance.is_none() {
            self.files += 1;
        }
        if self.used == self.slots.len() {
            self.renumber();
        }
        self.put(file);
        distance
    }

    /// Which file lies at this distance.
    pub fn at(&self, distance: u32) -> Option<u32> {
        // The one that has so many taken slots below it.
        let mut left = self.files.checked_sub(distance).filter(|_| distance > 0)?;
        let mut slot = 0;
        let mut step = self.slots.len().checked_ilog2().map_or(0, |log| 1 << log);
        while step > 0 {
            if slot + step <= self.slots.len() && self.counts[slot + step] <= left {
                slot += step;
                left -= self.counts[slot];
            }
            step /= 2;
        }
        self.slots[slot]
    }

    fn put(&mut self, file: u32) {
        self.slots[self.used] = Some(file);
        self.slot_of[file as usize] = u32::try_from(self.used).ok();
        self.add(self.used, 1);
        self.used += 1;
    }

    fn renumber(&mut self) {
        self.counts.fill(0);
        let slots = std::mem::take(&mut self.slots);
        self.slots = vec![None; slots.len()];
        self.used = 0;
        for file in slots.into_iter().flatten() {
            self.put(file);
        }
    }

    fn add(&mut self, slot: usize, change: i32) {
        let mut node = slot + 1;
        while let Some(count) = self.counts.get_mut(node) {
            *count = count.wrapping_add_signed(change);
            node += node & node.wrapping_neg();
        }
    }

    fn taken_below(&self, slot: usize) -> u32 {
        let mut node = slot;
        let mut taken = 0;
        while node > 0 {
            taken += self.counts[node];
            node &= node - 1;
        }
        taken
    }
}
