//! What calls of a connection leave for their driver.
//!
//! A driver collects it when it likes. What metrics and logs make of it is not known here.

use std::sync::Arc;

use crate::file::background_work::BackgroundWork;
use crate::record::counters::{Count, Counts};
use crate::record::{Record, ResponseEnd};
use crate::upstream::Release;

/// Results since the driver last collected them.
#[derive(Debug, Default)]
pub struct Tally {
    /// Response heads that were written.
    pub responses: u64,
    pub counts: Counts<Count>,
    /// Responses that have ended.
    pub ended: Vec<ResponseEnd>,
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
        self.counts.add(Count::Requests, 1);
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
