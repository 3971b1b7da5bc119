//! What a driver lends to every call of a connection, and the results that it collects afterwards.
//!
//! A context lives for one call. There is no state of a connection or of an exchange here.

use std::sync::Arc;

use crate::buffer_pool::BufferPool;
use crate::clock::Now;
use crate::local::LocalCache;
use crate::record::Record;
use crate::site::Site;
use crate::upstream::Release;

/// What the driver lends to every call.
pub struct Context<'a> {
    pub site: &'a Site,
    pub now: &'a Now,
    pub local: &'a mut LocalCache,
    pub buffers: &'a mut BufferPool,
    pub tally: &'a mut Tally,
    /// The server is stopping: finish what is under way, begin nothing new.
    pub draining: bool,
}

/// What has happened since the driver last looked.
#[derive(Debug, Default)]
pub struct Tally {
    /// Heads that were answered.
    pub responses: u64,
    /// Bytes that sockets took, heads among them.
    pub sent_bytes: u64,
    /// How long output waited for sockets.
    pub send_us: u64,
    /// Exchanges that ended, for the access log. None when no records are wanted.
    pub records: Vec<Record>,
    /// Streams whose exchanges are over: the driver takes each out of its port and calls [`Release::finish`], before the
    /// next want, or before it forgets the connection.
    pub released: Vec<Release>,
    /// What upstreams did that they should not, for the error log.
    pub upstream_errors: Vec<UpstreamError>,
}

/// A request, and what the program that answers it did wrong.
#[derive(Debug)]
pub struct UpstreamError {
    pub request: Arc<str>,
    pub reason: &'static str,
}
