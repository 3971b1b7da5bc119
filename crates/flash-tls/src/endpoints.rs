//! The endpoints of a server, each once.

use std::sync::Arc;

use flash_core::transport::CertificatesId;

use crate::endpoint::Endpoint;

#[derive(Debug)]
pub struct Endpoints(Vec<Arc<Endpoint>>);

impl Endpoints {
    /// Each has its place among them as its number. There is at least one.
    pub fn new(endpoints: Vec<Arc<Endpoint>>) -> Self {
        assert!(!endpoints.is_empty(), "a server of TLS has a certificate");
        Self(endpoints)
    }

    /// The endpoint of a site. The first one answers for a name that no site has, and for clients that send no name.
    pub fn of(&self, certificates: Option<CertificatesId>) -> &Arc<Endpoint> {
        certificates.and_then(|number| self.0.get(number.0 as usize)).unwrap_or(&self.0[0])
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.0.iter()
    }
}
