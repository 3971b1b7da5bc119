//! What the access log will say of one exchange.
//!
//! Plain data: the request path fills it in, `flash-observe` formats and writes it.

use std::net::SocketAddr;

use flash_http::head::Head;
use flash_http::status::Status;

use crate::clock::Now;

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
    /// The request line as received, without its CRLF; empty when none could be made out.
    pub request_line: Box<[u8]>,
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

/// An exchange under way, as far as its record can be written.
#[derive(Debug)]
pub(crate) struct Unfinished {
    record: Record,
    head_bytes: u64,
    started_us: u64,
}

impl Unfinished {
    pub(crate) fn new(head: &Head<'_>, peer: Peer, status: Status, head_bytes: u64, now: &Now) -> Self {
        let bytes = |value: Option<&[u8]>| value.unwrap_or_default().into();
        let record = Record {
            request_line: head.request_line.into(),
            host: bytes(head.host),
            referer: bytes(head.referer),
            user_agent: bytes(head.user_agent),
            ..Record::of_refusal(peer, status, now)
        };
        Self { record, head_bytes, started_us: now.us }
    }

    /// For bytes that were no request.
    pub(crate) fn of_refusal(peer: Peer, status: Status, head_bytes: u64, now: &Now) -> Self {
        Self { record: Record::of_refusal(peer, status, now), head_bytes, started_us: now.us }
    }

    pub(crate) fn finish(self, bytes_sent: u64, now_us: u64) -> Record {
        Record {
            body_bytes: bytes_sent.saturating_sub(self.head_bytes),
            duration_us: now_us.saturating_sub(self.started_us),
            ..self.record
        }
    }
}

impl Record {
    fn of_refusal(peer: Peer, status: Status, now: &Now) -> Self {
        let nothing = Box::default;
        Self {
            peer,
            unix_ms: now.unix_ms,
            duration_us: 0,
            request_line: nothing(),
            host: nothing(),
            referer: nothing(),
            user_agent: nothing(),
            status: status.0,
            body_bytes: 0,
        }
    }
}
