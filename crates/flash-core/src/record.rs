//! The access log's data of one exchange.
//!
//! The request path fills it in. `flash-observe` formats and writes it.

use std::fmt;
use std::net::SocketAddr;

use flash_http::basic::Credentials;
use flash_http::head::{Reject, RequestHead};
use flash_http::status::Status;

use crate::clock::Now;
use crate::job::Spent;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Inet(SocketAddr),
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub peer: Peer,
    /// When the head was complete, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// From the complete head to the last byte handed to the kernel, in microseconds.
    pub duration_us: u64,
    /// The time that its jobs took.
    pub spent: Spent,
    /// The part of the duration from the response's first byte on, without waits for the disk.
    pub send_us: u64,
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

/// When a request's head was complete, and the time that its jobs have taken since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) started_us: u64,
    pub(crate) spent: Spent,
}

impl Timing {
    pub(crate) fn from(now_us: u64) -> Self {
        Self { started_us: now_us, spent: Spent::default() }
    }
}

/// The record of an exchange under way.
#[derive(Debug)]
pub struct RecordBuilder {
    record: Record,
    head_bytes: u64,
    started_us: u64,
    /// When the response's head was written.
    begun_us: u64,
    /// Waits for the disk since then.
    waited_ns: u64,
}

impl RecordBuilder {
    /// An exchange whose head was complete at `started_us`, and whose jobs have taken `spent` since.
    pub(crate) fn new(
        head: &RequestHead<'_>,
        request_line: &[u8],
        peer: Peer,
        (status, head_bytes): (Status, u64),
        Timing { started_us, spent }: Timing,
        now: &Now,
    ) -> Self {
        let bytes = |value: Option<&[u8]>| value.unwrap_or_default().into();
        let record = Record {
            unix_ms: now.unix_ms.saturating_sub(now.us.saturating_sub(started_us) / 1000),
            spent,
            request_line: request_line.into(),
            host: bytes(head.host),
            referer: bytes(head.referer),
            user_agent: bytes(head.user_agent),
            ..Record::new(peer, status, now)
        };
        Self { record, head_bytes, started_us, begun_us: now.us, waited_ns: 0 }
    }

    /// The request is from this user.
    pub(crate) fn by(mut self, user: Option<Credentials>) -> Self {
        if let Some(user) = user {
            self.record.user = user.user().into();
        }
        self
    }

    /// For bytes that were no request. `bytes` are the first of them.
    pub(crate) fn of_refusal(peer: Peer, reject: Reject, bytes: &[u8], head_bytes: u64, now: &Now) -> Self {
        let Reject { status, reason } = reject;
        let request_line = line_so_far(bytes).into();
        let record = Record { request_line, reason, ..Record::new(peer, status, now) };
        Self { record, head_bytes, started_us: now.us, begun_us: now.us, waited_ns: 0 }
    }

    /// A job for the response's body has taken this time.
    pub(crate) fn spend(&mut self, spent: Spent) {
        self.record.spent += spent;
        self.waited_ns += spent.queue_ns + spent.help_ns;
    }

    /// As [`RecordBuilder::finish`], for a response that ended before its last byte left.
    pub(crate) fn cut(self, bytes_sent: u64, now_us: u64) -> Record {
        Record { cut: true, ..self.finish(bytes_sent, now_us) }
    }

    /// `bytes_sent` includes the head.
    pub fn finish(self, bytes_sent: u64, now_us: u64) -> Record {
        Record {
            body_bytes: bytes_sent.saturating_sub(self.head_bytes),
            duration_us: now_us.saturating_sub(self.started_us),
            send_us: now_us.saturating_sub(self.begun_us + self.waited_ns / 1000),
            ..self.record
        }
    }
}

impl Record {
    fn new(peer: Peer, status: Status, now: &Now) -> Self {
        let nothing = Box::default;
        Self {
            peer,
            unix_ms: now.unix_ms,
            duration_us: 0,
            spent: Spent::default(),
            send_us: 0,
            user: nothing(),
            request_line: nothing(),
            reason: "",
            host: nothing(),
            referer: nothing(),
            user_agent: nothing(),
            status: status.0,
            body_bytes: 0,
            cut: false,
        }
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
