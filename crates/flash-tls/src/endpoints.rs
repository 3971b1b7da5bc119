//! The endpoints of a process: those of its present configuration, and of earlier ones that loops still hold.

use std::sync::Arc;

use arc_swap::ArcSwap;
use flash_core::connection::transport::CertificatesId;

use crate::endpoint::Endpoint;

#[derive(Debug, Default)]
pub struct Endpoints(ArcSwap<Vec<Arc<Endpoint>>>);

impl Endpoints {
    /// Puts these in the place of the present ones. Of two with the same number, the first is taken.
    pub fn replace<'a>(&self, endpoints: impl IntoIterator<Item = &'a Arc<Endpoint>>) {
        let mut endpoints: Vec<_> = endpoints.into_iter().cloned().collect();
        // Stable: the first of equals stays the first.
        endpoints.sort_by_key(|endpoint| endpoint.id());
        endpoints.dedup_by_key(|endpoint| endpoint.id());
        self.0.store(Arc::new(endpoints));
    }

    /// What answers the handshakes of the sites with these certificates.
    pub fn of(&self, certificates: CertificatesId) -> Option<Arc<Endpoint>> {
        let endpoints = self.0.load();
        let found = endpoints.binary_search_by_key(&certificates, |endpoint| endpoint.id()).ok()?;
        Some(Arc::clone(&endpoints[found]))
    }

    /// All of them.
    pub fn all(&self) -> Arc<Vec<Arc<Endpoint>>> {
        self.0.load_full()
    }
}
