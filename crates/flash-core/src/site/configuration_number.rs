//! The number of the configuration that a request began with.
//!
//! A reload makes a new configuration. Each site holds the number of its own, and each exchange holds its site. So a
//! configuration is in use as long as its number is held. What a configuration consists of is not known here.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub struct ConfigurationNumber {
    /// Counts from 1, which is the configuration of the start.
    pub number: u64,
    /// Exchanges under way.
    pub(crate) requests: AtomicU64,
}

impl ConfigurationNumber {
    pub fn new(number: u64) -> Self {
        Self { number, requests: AtomicU64::new(0) }
    }

    /// Requests under way that hold the configuration. Those that the caches answer at once are none of them.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Default for ConfigurationNumber {
    fn default() -> Self {
        Self::new(1)
    }
}
