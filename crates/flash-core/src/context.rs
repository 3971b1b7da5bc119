//! What a driver lends to every call of a connection, and the results that it collects afterwards.
//!
//! A context lives for one call. It holds no state of a connection or of an exchange.

use std::sync::Arc;

use crate::buffer_pool::BufferPool;
use crate::clock::Now;
use crate::compression::Compression;
use crate::local::LocalCache;
use crate::record::Record;
use crate::server::Server;
use crate::upstream::Release;

/// What the driver lends to every call.
pub struct Context<'a> {
    pub server: &'a Server,
    pub now: &'a Now,
    pub local: &'a mut LocalCache,
    pub buffers: &'a mut BufferPool,
    pub tally: &'a mut Tally,
    /// The server is stopping: finish the requests under way, and begin no new ones.
    pub draining: bool,
}

/// Results since the driver last collected them.
#[derive(Debug, Default)]
pub struct Tally {
    /// Response heads that were written.
    pub responses: u64,
    /// Bytes that sockets took, heads among them.
    pub sent_bytes: u64,
    /// How long output waited for sockets.
    pub send_us: u64,
    /// Exchanges that ended, for the access log. Empty if the log is off.
    pub records: Vec<Record>,
    /// Streams whose exchanges are over. The driver takes each stream out of its poller and calls [`Release::finish`]. It
    /// does so before the next want, and before it drops the connection.
    pub released: Vec<Release>,
    /// What clients would have got in another coding, if Flash had compressed it.
    pub compressions: Vec<Compression>,
    /// Errors of upstreams, for the error log.
    pub upstream_errors: Vec<UpstreamError>,
}

/// What an upstream did wrong, and with which request.
#[derive(Debug)]
pub struct UpstreamError {
    pub request: Arc<str>,
    pub reason: &'static str,
}
