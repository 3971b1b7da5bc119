//! SIEVE (Zhang, Yang, Yue, Vigfusson and Rashmi, NSDI 2024): one queue and a hand. The hand goes from the old end to the new one. It
//! evicts the first file that was not requested since it last passed.

use super::cache::Cache;
use super::chains::Chains;

#[derive(Debug)]
pub(super) struct Sieve {
    capacity: u64,
    queue: Chains<1>,
    is_visited: Vec<bool>,
    hand: Option<u32>,
}

impl Sieve {
    pub(super) fn new(capacity: u64) -> Sieve {
        Sieve { capacity, queue: Chains::new(), is_visited: Vec::new(), hand: None }
    }

    fn evict(&mut self) {
        let oldest = |queue: &Chains<1>| queue.oldest(0).expect("only a cache with files is full");
        let mut file = self.hand.unwrap_or_else(|| oldest(&self.queue));
        while std::mem::take(&mut self.is_visited[file as usize]) {
            file = self.queue.newer(file).unwrap_or_else(|| oldest(&self.queue));
        }
        self.hand = self.queue.newer(file);
        self.queue.remove(file);
    }
}

impl Cache for Sieve {
    fn request(&mut self, file: u32, bytes: u64) -> bool {
        if self.queue.queue_of(file).is_some() {
            self.is_visited[file as usize] = true;
            return true;
        }
        if bytes > self.capacity {
            return false;
        }
        while self.queue.bytes(0) + bytes > self.capacity {
            self.evict();
        }
        if self.is_visited.len() <= file as usize {
            self.is_visited.resize(file as usize + 1, false);
        }
        self.is_visited[file as usize] = false;
        self.queue.push(0, file, bytes);
        false
    }
}
