//! The site that an exchange holds.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::site::Site;

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
