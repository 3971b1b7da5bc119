//! A request's head: from the bytes received to what the client asked for.
//!
//! This is the first step of every exchange. The parser refuses all that RFC 9112 does not allow, because lenient parsers have
//! made request smuggling possible (RFC 9112 §11.2). It reads from left to right, and each refusal depends on no byte behind
//! the one that caused it. That is why a head that arrives in pieces gets the same verdict as one that arrives whole.
//!
//! It does not decode paths, and does not look at bodies.

mod fields;
mod parts;
mod request_line;
mod target;

pub use self::parts::{Body, Expect, Framing, Head, Limits, Reject, RequestHead, Target, Version};
use self::parts::{Stop, Wire};
use crate::{Fields, Status, Values};

/// What [`parse`] made of the bytes so far.
#[derive(Clone, Copy, Debug)]
// A head lives for one call and is never stored, so there is nothing to gain from a box.
#[allow(clippy::large_enum_variant)]
pub enum Parsed<'b> {
    /// Nothing wrong yet, and not all of it.
    Incomplete,
    Complete {
        head: Head<'b>,
        /// Length of the head: skipped empty lines, the lines, and the empty line.
        bytes: usize,
    },
}

/// Reads the head at the start of `input`, which may go on behind it.
///
/// Fed with ever longer prefixes of one input, it says [`Parsed::Incomplete`] until the verdict that it would
/// give on the whole is certain.
///
/// # Errors
/// 400 for what RFC 9112 forbids, 414 and 431 for what `limits` forbid, 505 for another major version.
pub fn parse<'b>(input: &'b [u8], limits: &Limits) -> Result<Parsed<'b>, Reject> {
    parse_as(input, limits, Wire::Http1)
}

/// Reads a head that was made of the fields of an HTTP/2 request. It is a head of HTTP/1 with the version `HTTP/2.0`, and
/// whole. Whether there is a body, and where it ends, only the frames tell: its length is [`Body::None`] unless a field says it.
///
/// # Errors
/// As [`parse`].
pub fn parse_http2<'b>(input: &'b [u8], limits: &Limits) -> Result<Head<'b>, Reject> {
    match parse_as(input, limits, Wire::Http2)? {
        Parsed::Complete { head, .. } => Ok(head),
        Parsed::Incomplete => Err(Reject { status: Status::BAD_REQUEST, reason: "the head is incomplete" }),
    }
}

#[inline]
fn parse_as<'b>(input: &'b [u8], limits: &Limits, wire: Wire) -> Result<Parsed<'b>, Reject> {
    let window = &input[..input.len().min(limits.head_bytes_max)];
    match complete(window, limits, wire) {
        Ok((head, bytes)) => Ok(Parsed::Complete { head, bytes }),
        Err(Stop::Reject(reject)) => Err(reject),
        // A full window cannot become complete any more.
        Err(Stop::Incomplete) if window.len() == limits.head_bytes_max => {
            Err(Reject { status: Status::FIELDS_TOO_LARGE, reason: "the head is too long" })
        }
        Err(Stop::Incomplete) => Ok(Parsed::Incomplete),
    }
}

/// Whether to parse again after [`parse`] returned [`Parsed::Incomplete`] for the first `seen` bytes: a line has ended, or a
/// limit may be reached. Without this check, a head that arrives byte by byte would cost quadratic time. With it, there is at
/// most one parse for each line. The parser then finds a bad byte at the end of its line, with the same verdict.
pub fn may_progress(input: &[u8], seen: usize, limits: &Limits) -> bool {
    let (old, new) = input.split_at(seen.min(input.len()));
    memchr::memchr(b'\n', new).is_some()
        || input.len() >= limits.head_bytes_max
        // The request line has limits of its own. Empty lines may stand before it.
        || memchr::memchr(b'\n', old.trim_ascii_start()).is_none()
}

#[inline]
fn complete<'b>(input: &'b [u8], limits: &Limits, wire: Wire) -> Result<(Head<'b>, usize), Stop> {
    let start = leading_crlf(input)?;
    let (line, end) = request_line::read(input, start, limits, wire)?;
    let request = RequestHead {
        method: line.method,
        method_name: line.method_name,
        target: line.target,
        host: None,
        body: Body::None,
        expect: Expect::None,
        if_match: Values::default(),
        if_none_match: Values::default(),
        if_modified_since: None,
        if_unmodified_since: None,
        if_range: None,
        range: None,
        accept_encoding: Values::default(),
        referer: None,
        user_agent: None,
        traceparent: None,
        fields: Fields::default(),
    };
    let framing = Framing { version: line.version, request_line: line.bytes, keep_alive: false };
    let mut head = Head { request, framing };
    let bytes = fields::read(input, end, limits, &mut head)?;
    head.request.fields = Fields::of_checked(&input[end..bytes]);
    // RFC 9112 §3.2.2: the authority of an absolute target wins over Host.
    if let Some(authority) = line.authority {
        head.request.host = Some(authority);
    }
    Ok((head, bytes))
}

/// More empty lines than this are no request.
const EMPTY_LINES_MAX: usize = 8;

/// RFC 9112 §2.2: skips empty lines before the request line, which old clients send behind a POST. One is usual.
fn leading_crlf(input: &[u8]) -> Result<usize, Stop> {
    let mut start = 0;
    while start < EMPTY_LINES_MAX * 2 && input[start..].starts_with(b"\r\n") {
        start += 2;
    }
    match &input[start..] {
        [] | [b'\r'] => Err(Stop::Incomplete),
        _ => Ok(start),
    }
}

#[cfg(test)]
mod tests;
