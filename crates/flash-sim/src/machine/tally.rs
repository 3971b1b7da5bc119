//! What is counted while measuring.

use hdrhistogram::Histogram;

use crate::engine::Time;

/// Waits are kept to three digits, up to eleven days.
const LATENCY_US_MAX: u64 = 1_000_000_000_000;
/// So many replies are ranked for the service inversion.
const RANKED: u32 = 10_000;

/// Counts since the last reset.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) began: Time,
    pub(super) events: u64,
    pub(super) bytes: u64,
    /// Of disks.
    pub(super) reads: u64,
    pub(super) latency_us: Histogram<u64>,
    pub(super) latency: u64,
    /// Without what they took before the reset.
    pub(super) since_reset: u64,
    pub(super) latency_max: Time,
    pub(super) data: Hits,
    pub(super) path: Hits,
    pub(super) switches: u64,
    pub(super) switching: Time,
    pub(super) spun: Time,
    /// Processor time that runners asked for and got.
    pub(super) given: Time,
    /// Every so many replies, the next one is ranked.
    stride: u32,
    ranked: Vec<(Time, u64)>,
    /// How many requests until the one to follow.
    pub(super) until_followed: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hits {
    hits: u64,
    looks: u64,
}

impl Hits {
    pub(super) fn count(&mut self, hit: bool) {
        self.looks += 1;
        self.hits += u64::from(hit);
    }

    pub(super) fn rate(self) -> f64 {
        self.hits as f64 / self.looks.max(1) as f64
    }
}

impl Tally {
    pub(super) fn new(measured: u32) -> Tally {
        Tally {
            requests: 0,
            began: 0,
            events: 0,
            bytes: 0,
            reads: 0,
            latency_us: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are sound"),
            latency: 0,
            since_reset: 0,
            latency_max: 0,
            data: Hits::default(),
            path: Hits::default(),
            switches: 0,
            switching: 0,
            spun: 0,
            given: 0,
            stride: measured.div_ceil(RANKED),
            ranked: Vec::with_capacity(RANKED as usize),
            until_followed: None,
        }
    }

    /// A request has been answered.
    pub(super) fn answered(&mut self, began: Time, now: Time, bytes: u64) {
        let latency = now - began;
        self.since_reset += now - began.max(self.began);
        self.requests += 1;
        self.bytes += bytes;
        self.latency += latency;
        self.latency_max = self.latency_max.max(latency);
        self.latency_us.saturating_record(latency / 1000);
        if self.requests.is_multiple_of(u64::from(self.stride)) && self.ranked.len() < RANKED as usize {
            self.ranked.push((latency, bytes));
        }
    }

    /// Whether the request that begins now is the one to follow.
    pub(super) fn follows_now(&mut self) -> bool {
        match &mut self.until_followed {
            None => false,
            Some(0) => self.until_followed.take().is_some(),
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }

    /// Ruan and Pai (2006): how far ranks by wait are from ranks by size, over the same for the reverse order. Equal sizes
    /// rank as they came out.
    pub(super) fn service_inversion(&self) -> f64 {
        let replies = &self.ranked;
        let mut by_wait: Vec<usize> = (0..replies.len()).collect();
        by_wait.sort_by_key(|&reply| replies[reply].0);
        let mut by_size = by_wait.clone();
        by_size.sort_by_key(|&reply| replies[reply].1);
        let mut wait_rank = vec![0; replies.len()];
        for (rank, &reply) in by_wait.iter().enumerate() {
            wait_rank[reply] = rank;
        }
        let apart = by_size.iter().enumerate().map(|(rank, &reply)| wait_rank[reply].abs_diff(rank));
        let reversed = (0..replies.len()).map(|rank| (replies.len() - 1 - rank).abs_diff(rank));
        apart.sum::<usize>() as f64 / reversed.sum::<usize>().max(1) as f64
    }
}
