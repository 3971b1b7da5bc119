//! What carries a connection's bytes, as far as requests and responses depend on it.
//!
//! The driver knows it after accepting. The bytes, and their encryption, are below the request path.

use flash_http::Scheme;

use crate::record::Peer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportInfo {
    pub peer: Peer,
    pub scheme: Scheme,
}

impl TransportInfo {
    /// A socket without encryption.
    pub fn plain(peer: Peer) -> Self {
        Self { peer, scheme: Scheme::Http }
    }
}
