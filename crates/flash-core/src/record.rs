//! What the access log will say of one exchange.
//!
//! Plain data: the request path fills it in, `flash-observe` formats and writes it.

use std::net::SocketAddr;

use flash_http::head::{Reject, RequestHead};
use flash_http::status::Status;

use crate::clock::Now;
use crate::job::Spent;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Inet(SocketAddr),
    Unix,
}

/// One finished (or broken-off) exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub peer: Peer,
    /// When the head was complete, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// From the complete head to the last byte handed to the kernel, in microseconds.
    pub duration_us: u64,
    /// What its jobs took.
    pub spent: Spent,
    /// Of the duration, from the response's first byte on, without waiting for the disk.
    pub send_us: u64,
    /// The request line as received, without its CRLF. Of a request that was refused, as much of it as was read, up to a
    /// kibibyte: empty when there was nothing.
    pub request_line: Box<[u8]>,
    /// Why bytes were no request, or came too slowly; empty for all others.
    pub reason: &'static str,
    /// The `Host` field's value, as received; empty when absent.
    pub host: Box<[u8]>,
    /// The `Referer` field's value; empty when absent.
    pub referer: Box<[u8]>,
    /// The `User-Agent` field's value; empty when absent.
    pub user_agent: Box<[u8]>,
    pub status: u16,
    /// Body bytes handed to the kernel, which is fewer than promised when the client left.
    pub body_bytes: u64,
}

/// When a request's head was complete, and what its jobs have taken since.
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

/// An exchange under way, as far as its record can be written.
#[derive(Debug)]
pub struct RecordBuilder {
    record: Record,
    head_bytes: u64,
    started_us: u64,
    /// When its head was written.
    begun_us: u64,
    /// For the disk, since then.
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

    /// For bytes that were no request, of which these were the first.
    pub(crate) fn of_refusal(peer: Peer, reject: Reject, bytes: &[u8], head_bytes: u64, now: &Now) -> Self {
        let Reject { status, reason } = reject;
        let request_line = line_so_far(bytes).into();
        let record = Record { request_line, reason, ..Record::new(peer, status, now) };
        Self { record, head_bytes, started_us: now.us, begun_us: now.us, waited_ns: 0 }
    }

    /// A job for its body has taken this.
    pub(crate) fn spend(&mut self, spent: Spent) {
        self.record.spent += spent;
        self.waited_ns += spent.queue_ns + spent.help_ns;
    }

    /// `bytes_sent` counts the head as well.
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
            request_line: nothing(),
            reason: "",
            host: nothing(),
            referer: nothing(),
            user_agent: nothing(),
            status: status.0,
            body_bytes: 0,
        }
    }
}

const REQUEST_LINE_BYTES_MAX: usize = 1024;

/// What was read of a request line: it may stand behind an empty one, and need not have ended.
fn line_so_far(bytes: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = bytes.iter().take(2).take_while(|byte| is_end(byte)).count();
    let line = &bytes[start..];
    let end = line.iter().take(REQUEST_LINE_BYTES_MAX).take_while(|byte| !is_end(byte)).count();
    &line[..end]
}
