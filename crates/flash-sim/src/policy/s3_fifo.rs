//! S3-FIFO (Yang, Zhang, Qiu, Yue and Rashmi, SOSP 2023). A small queue is for what is new, and a main queue for the rest. A ghost
//! queue has the names that left the small one.

use super::cache::Cache;
use super::chains::Chains;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
const FREQUENCY_MAX: u8 = 3;

#[derive(Debug)]
pub(super) struct S3Fifo {
    capacity: u64,
    queues: Chains<3>,
    /// Requests since a file came in, up to three.
    frequencies: Vec<u8>,
}

impl S3Fifo {
    pub(super) fn new(capacity: u64) -> S3Fifo {
        S3Fifo { capacity, queues: Chains::new(), frequencies: Vec::new() }
    }

    fn used(&self) -> u64 {
        self.queues.bytes(SMALL) + self.queues.bytes(MAIN)
    }

    fn evict(&mut self) {
        // The small queue has a tenth.
        if self.queues.bytes(SMALL) >= self.capacity / 10 || self.queues.oldest(MAIN).is_none() {
            self.evict_small();
        } else {
            self.evict_main();
        }
    }

    fn evict_small(&mut self) {
        while let Some(file) = self.queues.oldest(SMALL) {
            if self.frequencies[file as usize] > 1 {
                self.frequencies[file as usize] = 0;
                self.queues.move_to(MAIN, file);
            } else {
                self.queues.move_to(GHOST, file);
                while self.queues.bytes(GHOST) > self.capacity * 9 / 10 {
                    self.queues.remove(self.queues.oldest(GHOST).expect("it has bytes"));
                }
                return;
            }
        }
    }

    fn evict_main(&mut self) {
        while let Some(file) = self.queues.oldest(MAIN) {
            match &mut self.frequencies[file as usize] {
                0 => {
                    self.queues.remove(file);
                    return;
                }
                frequency => {
                    *frequency -= 1;
                    self.queues.move_to(MAIN, file);
                }
            }
        }
    }
}

impl Cache for S3Fifo {
    fn request(&mut self, file: u32, bytes: u64) -> bool {
        if self.frequencies.len() <= file as usize {
            self.frequencies.resize(file as usize + 1, 0);
        }
        let queue = self.queues.queue_of(file);
        if matches!(queue, Some(SMALL | MAIN)) {
            let frequency = &mut self.frequencies[file as usize];
            *frequency = (*frequency + 1).min(FREQUENCY_MAX);
            return true;
        }
        if bytes > self.capacity {
            return false;
        }
        let was_known = queue == Some(GHOST);
        if was_known {
            self.queues.remove(file);
        }
        while self.used() + bytes > self.capacity {
            self.evict();
        }
        self.frequencies[file as usize] = 0;
        self.queues.push(if was_known { MAIN } else { SMALL }, file, bytes);
        false
    }
}
