//! What calls of a connection leave for their driver.
//!
//! A driver collects it when it likes. What metrics and logs make of it is not known here.

use std::sync::Arc;

use crate::background_work::BackgroundWork;
use crate::record::{Record, ResponseEnd};
use crate::upstream::Release;

/// Results since the driver last collected them.
#[derive(Debug, Default)]
pub struct Tally {
    /// Response heads that were written.
    pub responses: u64,
    /// Requests that have begun, and requests that ended without a response. All others are under way, or among `ended`.
    pub begun: u64,
    pub abandoned: u64,
    /// Responses that have ended.
    pub ended: Vec<ResponseEnd>,
    /// Look-ups that the caches answered, and those that need a job.
    pub cache_hits: u64,
    pub cache_misses: u64,
    /// Requests refused because their client made too many.
    pub limited: u64,
    /// Bytes that sockets took, heads among them.
    pub sent_bytes: u64,
    /// Bytes of request bodies and of responses that were written to the spool.
    pub spooled_bytes: u64,
    /// Programs that were ended because they had waited for their clients for too long.
    pub programs_held: u64,
    /// How long output waited for sockets.
    pub send_us: u64,
    /// Exchanges that ended, for the access log. If the log is off, only those that were slow.
    pub records: Vec<Record>,
    /// Streams whose exchanges are over. The driver takes each stream out of its poller and calls [`Release::finish`]. It
    /// does so before the next want, and before it drops the connection.
    pub released: Vec<Release>,
    /// What clients would have got in another coding or with an entity tag, if it had been made.
    pub background: Vec<BackgroundWork>,
    /// Errors of upstreams, for the error log.
    pub upstream_errors: Vec<UpstreamError>,
}

impl Tally {
    /// A response has ended.
    pub(crate) fn end(&mut self, (end, record): (ResponseEnd, Option<Record>)) {
        self.ended.push(end);
        self.records.extend(record);
    }
}

/// What an upstream did wrong, and with which request.
#[derive(Debug)]
pub struct UpstreamError {
    pub request: Arc<str>,
    pub reason: &'static str,
}
