//! The site that an exchange holds.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::site::Site;

/// The site of an exchange, or a place in it, whose configuration counts the exchange.
#[derive(Debug)]
pub(crate) struct HeldSite {
    site: Arc<Site>,
    /// The site that the place is in.
    host: Option<Arc<Site>>,
}

impl HeldSite {
    /// `host` is the site that `site` is or belongs to.
    pub(crate) fn new(host: &Arc<Site>, site: &Arc<Site>) -> Self {
        site.configuration.requests.fetch_add(1, Ordering::Relaxed);
        let is_place = !Arc::ptr_eq(host, site);
        Self { site: Arc::clone(site), host: is_place.then(|| Arc::clone(host)) }
    }

    /// The site of the request's host.
    pub(crate) fn host(&self) -> &Arc<Site> {
        self.host.as_ref().unwrap_or(&self.site)
    }
}

impl Deref for HeldSite {
    type Target = Arc<Site>;

    fn deref(&self) -> &Arc<Site> {
        &self.site
    }
}

impl Drop for HeldSite {
    fn drop(&mut self) {
        self.site.configuration.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_counts_the_exchanges_that_hold_it() {
        let site = Arc::new(Site::default());
        let requests = || site.configuration.requests();
        let (one, other) = (HeldSite::new(&site, &site), HeldSite::new(&site, &site));
        assert_eq!((requests(), site.configuration.number), (2, 1));
        drop(one);
        assert_eq!(requests(), 1);
        drop(other);
        assert_eq!(requests(), 0);
    }
}
