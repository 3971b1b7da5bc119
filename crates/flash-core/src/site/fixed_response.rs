//! `respond`: what a site or place answers to every request, in place of files and programs.

use flash_http::status::Status;

use crate::record::Peer;
use crate::site::network::Network;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedResponse {
    pub status: Status,
    /// Nothing stands for the page of the status.
    pub body: Box<[u8]>,
    pub content_type: Box<str>,
    /// Seconds.
    pub retry_after: Option<Box<str>>,
    /// Clients who get what would be there without it.
    pub except: Box<[Network]>,
}

impl FixedResponse {
    pub(crate) fn is_for(&self, client: Peer) -> bool {
        !self.except.iter().any(|network| network.holds(client))
    }

    /// Whether its body is the page of its status.
    pub(crate) fn has_page(&self) -> bool {
        self.body.is_empty() && self.status.0 >= 400
    }
}
