//! What all clients of one run share, and how many of each kind there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::report::Report;
use super::site::Site;

pub(crate) struct Scene<'a> {
    pub(crate) site: &'a Site,
    pub(crate) report: &'a Report,
    pub(crate) crowd: Crowd,
    pub(crate) port: u16,
    pub(crate) seed: u64,
    pub(crate) ends: Instant,
    over: Arc<AtomicBool>,
}

/// How many clients there are of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) visitors: usize,
    pub(crate) slow: usize,
    /// Below the least rate.
    pub(crate) too_slow: usize,
    pub(crate) rude: usize,
    /// Connections of the flood.
    pub(crate) flood: usize,
    /// Threads or processes of the server that serve one connection each, and are warmed first.
    pub(crate) runners: usize,
}

impl Crowd {
    /// Each busy client has a process of mp or a thread of mt to itself.
    pub(crate) fn of(arch: &str) -> Crowd {
        match arch {
            "mp" => Crowd { visitors: 8, slow: 6, too_slow: 2, rude: 6, flood: 4, runners: 32 },
            "mt" => Crowd { visitors: 16, slow: 12, too_slow: 4, rude: 12, flood: 8, runners: 64 },
            _ => Crowd { visitors: 32, slow: 24, too_slow: 6, rude: 16, flood: 1_200, runners: 0 },
        }
    }
}

impl<'a> Scene<'a> {
    pub(crate) fn new(
        site: &'a Site,
        report: &'a Report,
        crowd: Crowd,
        port: u16,
        seed: u64,
        ends: Instant,
    ) -> Scene<'a> {
        Scene { site, report, crowd, port, seed, ends, over: Arc::default() }
    }

    pub(crate) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The flag that says so.
    pub(crate) fn over(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.over)
    }

    /// What a client draws from: the same for the same seed, kind and number.
    pub(crate) fn rng(&self, kind: u64, number: usize) -> Rng {
        Rng::with_seed(self.seed ^ (kind << 48) ^ ((number as u64) << 32))
    }

    /// Sleeps, but not past the end. False when it is over.
    pub(crate) fn sleep(&self, duration: Duration) -> bool {
        let end = Instant::now() + duration;
        while !self.is_over() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(Duration::from_millis(200)));
        }
        false
    }
}
