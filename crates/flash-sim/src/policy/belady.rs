//! Belady's cache, which knows the future: what no server can pass.
//!
//! With files of one size it is the optimum: the file leaves that is requested again last (Belady, 1966). With files of several sizes
//! nobody can compute the optimum in reasonable time. Then the file leaves that takes the most bytes, for the longest time, for each
//! read that it saves. A new file that would be the next to leave is not kept.

/// For each request, whether it misses. `saves` is what a hit of a file is worth: reads of a disk.
pub(super) fn misses(
    requests: &[u32],
    bytes: impl Fn(u32) -> u64,
    saves: impl Fn(u32) -> u64,
    capacity: u64,
) -> Vec<bool> {
    let files = requests.iter().max().map_or(0, |&file| file as usize + 1);
    let mut cache = Cache { capacity, used: 0, kept: Vec::new(), places: vec![None; files] };
    let mut missed = Vec::with_capacity(requests.len());
    for ((now, &file), next) in requests.iter().enumerate().zip(next_requests(requests, files)) {
        let weight = bytes(file);
        missed.push(!cache.take(file));
        if let Some(next) = next {
            let bytes_per_read = weight as f64 / saves(file).max(1) as f64;
            cache.keep(Kept { file, weight, next, bytes_per_read }, now);
        }
    }
    missed
}

/// When each request's file is requested again, if it ever is.
fn next_requests(requests: &[u32], files: usize) -> Vec<Option<usize>> {
    let mut later = vec![None; files];
    let mut next = vec![None; requests.len()];
    for (at, &file) in requests.iter().enumerate().rev() {
        next[at] = later[file as usize].replace(at);
    }
    next
}

struct Cache {
    capacity: u64,
    used: u64,
    kept: Vec<Kept>,
    /// By file, where it is among those that are kept.
    places: Vec<Option<usize>>,
}

#[derive(Clone, Copy)]
struct Kept {
    file: u32,
    weight: u64,
    next: usize,
    bytes_per_read: f64,
}

impl Kept {
    fn cost(&self, now: usize) -> f64 {
        (self.next - now) as f64 * self.bytes_per_read
    }
}

impl Cache {
    /// Whether the file is there. It is not, after that.
    fn take(&mut self, file: u32) -> bool {
        let Some(at) = self.places[file as usize] else { return false };
        self.remove(at);
        true
    }

    fn remove(&mut self, at: usize) {
        let gone = self.kept.swap_remove(at);
        self.used -= gone.weight;
        self.places[gone.file as usize] = None;
        if let Some(moved) = self.kept.get(at) {
            self.places[moved.file as usize] = Some(at);
        }
    }

    fn keep(&mut self, new: Kept, now: usize) {
        if new.weight > self.capacity {
            return;
        }
        while self.used + new.weight > self.capacity {
            let costs = self.kept.iter().map(|kept| kept.cost(now)).enumerate();
            let (victim, cost) = costs
                .max_by(|one, other| one.1.total_cmp(&other.1))
                .expect("only a cache with files is full");
            if cost <= new.cost(now) {
                return;
            }
            self.remove(victim);
        }
        self.used += new.weight;
        self.places[new.file as usize] = Some(self.kept.len());
        self.kept.push(new);
    }
}
