//! The number of the configuration that a request began with.
//!
//! A reload makes a new configuration. Each site holds the number of its own, and each exchange holds its site. So a
//! configuration is in use as long as its number is held. What a configuration consists of is not known here.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::site::Site;

#[derive(Debug)]
pub struct ConfigurationNumber {
    /// Counts from 1, which is the configuration of the start.
    pub number: u64,
    /// Exchanges under way.
    requests: AtomicU64,
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

/// The site of an exchange, whose configuration counts the exchange.
#[derive(Debug)]
pub(crate) struct HeldSite(Arc<Site>);

impl HeldSite {
    pub(crate) fn new(site: &Arc<Site>) -> Self {
        site.configuration.requests.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(site))
    }
}

impl Deref for HeldSite {
    type Target = Arc<Site>;

    fn deref(&self) -> &Arc<Site> {
        &self.0
    }
}

impl Drop for HeldSite {
    fn drop(&mut self) {
        self.0.configuration.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_counts_the_exchanges_that_hold_it() {
        let site = Arc::new(Site::default());
        let requests = || site.configuration.requests();
        let (one, other) = (HeldSite::new(&site), HeldSite::new(&site));
        assert_eq!((requests(), site.configuration.number), (2, 1));
        drop(one);
        assert_eq!(requests(), 1);
        drop(other);
        assert_eq!(requests(), 0);
    }
}
