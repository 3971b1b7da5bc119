//! What is left of an exchange when it has ended: what metrics count, and the data of the access log.
//!
//! The request path fills it in. `flash-observe` counts, formats and writes it.

pub mod counters;
pub mod log_choice;
pub mod program_times;
pub mod refusal;
pub mod refusal_log;
pub mod request_id;
pub(crate) mod tally;
pub mod trace;

use std::fmt;
use std::net::SocketAddr;

use flash_http::basic::Credentials;
use flash_http::head::{Head, Reject};
use flash_http::status::Status;

use crate::clock::Now;
use crate::job::Spent;
use crate::record::log_choice::LogNumber;
use crate::record::program_times::ProgramTimes;
use crate::record::request_id::{LoggedId, RequestId, RequestIds};
use crate::record::trace::Span;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    Inet(SocketAddr),
    #[default]
    Unix,
}

/// The address without its port.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.ip().fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}

/// An exchange that is complete, or was broken off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The log that has a line for it. One that is only slow has none.
    pub log: Option<LogNumber>,
    pub peer: Peer,
    /// When the head was complete, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// From the complete head to the last byte handed to the kernel, in microseconds.
    pub duration_us: u64,
    /// The time that its jobs took.
    pub spent: Spent,
    /// The part of the duration from the response's first byte on, without waits for the disk.
    pub send_us: u64,
    /// From the complete head to the beginning of the response.
    pub first_byte_us: u64,
    /// The time of the program that has answered.
    pub program: Option<ProgramTimes>,
    /// None for bytes that were no request.
    pub id: Option<LoggedId>,
    /// The span of a trace that the request belongs to.
    pub span: Option<Span>,
    /// The protocol's name and version. Empty for bytes that were no request.
    pub protocol: &'static str,
    /// How the client asked. A trusted proxy may have said so. Empty for bytes that were no request.
    pub scheme: &'static str,
    /// The version of TLS between Flash and its client, if there is TLS.
    pub tls_version: Option<&'static str>,
    /// Who has logged in; empty if nobody had to.
    pub user: Box<[u8]>,
    /// The request line as received, without its CRLF. For a refused request, the part that was read, up to a kibibyte.
    pub request_line: Box<[u8]>,
    /// Why the request was refused. Empty for all others.
    pub reason: &'static str,
    /// The `Host` field's value, as received; empty when absent.
    pub host: Box<[u8]>,
    /// The `Referer` field's value; empty when absent.
    pub referer: Box<[u8]>,
    /// The `User-Agent` field's value; empty when absent.
    pub user_agent: Box<[u8]>,
    pub status: u16,
    /// Body bytes passed to the kernel. They are fewer than promised if the client left.
    pub body_bytes: u64,
    /// The response ended before its last byte left: the client went, its program failed, or the server stopped.
    pub cut: bool,
}

/// Which request it is, when its head was complete, and the time that its jobs have taken since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) id: RequestId,
    pub(crate) started_us: u64,
    pub(crate) spent: Spent,
}

impl Timing {
    pub(crate) fn begin(ids: &mut RequestIds, now: &Now) -> Self {
        Self { id: ids.next(), started_us: now.us, spent: Spent::default() }
    }
}

/// Whose request it is, and by which names it is followed.
pub(crate) struct Origin {
    pub(crate) log: Option<LogNumber>,
    pub(crate) scheme: &'static str,
    pub(crate) tls_version: Option<&'static str>,
    pub(crate) id: LoggedId,
    pub(crate) span: Option<Span>,
}

/// The end of a response, as metrics count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseEnd {
    /// The number under which responses of its site are counted.
    pub site: u32,
    pub status: u16,
    /// The same as in [`Record`].
    pub cut: bool,
    pub body_bytes: u64,
    pub duration_us: u64,
    /// The client, be it that of a proxy.
    pub peer: Peer,
}

/// A request whose response begins no sooner has a record even without an access log, for the list of slow requests.
pub const SLOW_US: u64 = 1000;

/// A response under way: what its end is counted by, and its record if there is an access log.
#[derive(Default, Debug)]
pub struct RecordBuilder {
    site: u32,
    peer: Peer,
    status: u16,
    head_bytes: u64,
    started_us: u64,
    log: Option<Box<LogBuilder>>,
}

/// The record of an exchange under way.
#[derive(Debug)]
struct LogBuilder {
    record: Record,
    /// When the response's head was written.
    begun_us: u64,
    /// Waits for the disk since then.
    waited_ns: u64,
}

impl RecordBuilder {
    /// An exchange whose head was complete at `started_us`, and whose jobs have taken `spent` since. `site` is the number under
    /// which it is counted, and `peer` the client. `origin` is for the log, if there is one.
    pub(crate) fn new(
        head: &Head<'_>,
        origin: Option<Origin>,
        (site, peer): (u32, Peer),
        (status, head_bytes): (Status, u64),
        Timing { started_us, spent, .. }: Timing,
        now: &Now,
    ) -> Self {
        let log = |origin: Origin| {
            let bytes = |value: Option<&[u8]>| value.unwrap_or_default().into();
            let record = Record {
                log: origin.log,
                first_byte_us: now.us.saturating_sub(started_us),
                unix_ms: now.unix_ms.saturating_sub(now.us.saturating_sub(started_us) / 1000),
                spent,
                id: Some(origin.id),
                span: origin.span,
                protocol: head.framing.version.name(),
                scheme: origin.scheme,
                tls_version: origin.tls_version,
                request_line: head.framing.request_line.into(),
                host: bytes(head.host),
                referer: bytes(head.referer),
                user_agent: bytes(head.user_agent),
                ..Record::new(peer, status, now)
            };
            Box::new(LogBuilder { record, begun_us: now.us, waited_ns: 0 })
        };
        let log = origin.map(log);
        Self { site, peer, status: status.0, head_bytes, started_us, log }
    }

    /// The request is from this user.
    pub(crate) fn by(mut self, user: impl FnOnce() -> Option<Credentials>) -> Self {
        if let Some(log) = &mut self.log
            && let Some(user) = user()
        {
            log.record.user = user.user().into();
        }
        self
    }

    /// The client has asked for something else, and a program has handed this on.
    pub(crate) fn of_request(mut self, line: &[u8]) -> Self {
        if let Some(log) = &mut self.log {
            log.record.request_line = line.into();
        }
        self
    }

    /// For bytes that were no request. `bytes` are the first of them.
    pub(crate) fn of_refusal(
        (log, peer, site): (Option<LogNumber>, Peer, u32),
        reject: Reject,
        bytes: &[u8],
        head_bytes: u64,
        now: &Now,
    ) -> Self {
        let Reject { status, reason } = reject;
        let log = log.map(|log| {
            let request_line = line_so_far(bytes).into();
            let record = Record { log: Some(log), request_line, reason, ..Record::new(peer, status, now) };
            Box::new(LogBuilder { record, begun_us: now.us, waited_ns: 0 })
        });
        Self { site, peer, status: status.0, head_bytes, started_us: now.us, log }
    }

    /// The program has taken this time so far.
    pub(crate) fn of_program(&mut self, times: Option<ProgramTimes>) {
        if let Some(log) = &mut self.log {
            log.record.program = times;
        }
    }

    /// A job for the response's body has taken this time.
    pub(crate) fn spend(&mut self, spent: Spent) {
        if let Some(log) = &mut self.log {
            log.record.spent += spent;
            log.waited_ns += spent.queue_ns + spent.help_ns;
        }
    }

    /// As [`RecordBuilder::finish`], for a response that ended before its last byte left.
    pub(crate) fn cut(self, bytes_sent: u64, now_us: u64) -> (ResponseEnd, Option<Record>) {
        let (end, record) = self.finish(bytes_sent, now_us);
        (ResponseEnd { cut: true, ..end }, record.map(|record| Record { cut: true, ..record }))
    }

    /// The response has ended. `bytes_sent` includes the head.
    pub fn finish(self, bytes_sent: u64, now_us: u64) -> (ResponseEnd, Option<Record>) {
        let Self { site, peer, status, head_bytes, started_us, log } = self;
        let body_bytes = bytes_sent.saturating_sub(head_bytes);
        let duration_us = now_us.saturating_sub(started_us);
        let record = log.map(|log| Record {
            body_bytes,
            duration_us,
            send_us: now_us.saturating_sub(log.begun_us + log.waited_ns / 1000),
            ..log.record
        });
        (ResponseEnd { site, status, cut: false, body_bytes, duration_us, peer }, record)
    }
}

impl Record {
    fn new(peer: Peer, status: Status, now: &Now) -> Self {
        Self { peer, unix_ms: now.unix_ms, status: status.0, ..Self::default() }
    }
}

const REQUEST_LINE_BYTES_MAX: usize = 1024;

/// The part of a request line that was read. An empty line may stand before it, and its end may be missing.
fn line_so_far(bytes: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = bytes.iter().take(2).take_while(|byte| is_end(byte)).count();
    let line = &bytes[start..];
    let end = line.iter().take(REQUEST_LINE_BYTES_MAX).take_while(|byte| !is_end(byte)).count();
    &line[..end]
}
