//! Signed links: which requests bring the signature that a site or a place asks for.
//!
//! The request path knows a link as its client has sent it. [`Links`] knows the keys. A check takes some microseconds.

use std::fmt::Debug;

use crate::clients::ByteRate;
use crate::path::SitePath;
use crate::record::Peer;

/// The links that open a site or a place.
pub trait Links: Debug + Send + Sync {
    /// Whether the link is one of them, and the rate that it says.
    fn check(&self, link: &Link<'_>) -> Result<Option<ByteRate>, BadLink>;
}

/// A link, as a request brings it.
#[derive(Debug)]
pub struct Link<'r> {
    pub path: &'r SitePath<'r>,
    pub query: &'r [u8],
    pub client: Peer,
    /// In seconds since the Unix epoch.
    pub now_s: u64,
}

/// Why a link opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLink {
    /// It has no signature, or one for something else.
    Wrong,
    /// It was right until a while ago.
    Expired,
}
