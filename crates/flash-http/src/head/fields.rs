//! The field lines of a head (RFC 9112 §5), and what their fields mean for the request.

use super::parts::{Body, Expect, Head, Limits, Stop, Version, bad, refuse};
use super::target;
use crate::{Status, scan};

/// Reads the lines from `start` to the empty one into `head`; returns where the head ends.
#[inline]
pub(super) fn read<'b>(
    input: &'b [u8],
    start: usize,
    limits: &Limits,
    head: &mut Head<'b>,
) -> Result<usize, Stop> {
    let mut seen = Seen::default();
    let mut at = start;
    let mut fields = 0;
    loop {
        match input.get(at) {
            None => return Err(Stop::Incomplete),
            Some(b'\r') => break,
            Some(_) => {}
        }
        fields += 1;
        if fields > limits.fields_max {
            return refuse(Status::FIELDS_TOO_LARGE, "too many fields");
        }
        let (name, value, next) = line(input, at)?;
        seen.field(head, name, value, &input[next..])?;
        at = next;
    }
    line_end(input, at)?;
    seen.finish(head)?;
    Ok(at + 2)
}

/// One field line: its name, its value, and where the next line begins.
#[inline]
fn line(input: &[u8], start: usize) -> Result<(&[u8], &[u8], usize), Stop> {
    let line = &input[start..];
    let name = scan::token_run(line);
    match line.get(name) {
        None => return Err(Stop::Incomplete),
        Some(b':') if name > 0 => {}
        Some(b':') => return bad("a field without a name"),
        // RFC 9112 §2.2 and §5.2.
        Some(b' ' | b'\t') if name == 0 => return bad("a folded line"),
        // RFC 9112 §5.1.
        Some(b' ' | b'\t') => return bad("a blank before the colon"),
        Some(_) => return bad("a field name that is not a token"),
    }
    let value = &line[name + 1..];
    let length = scan::value_run(value);
    let next = line_end(value, length)?;
    Ok((&line[..name], scan::trim(&value[..length]), start + name + 1 + next))
}

/// The CRLF at `at`, where a value has ended; returns what lies behind it.
#[inline]
fn line_end(input: &[u8], at: usize) -> Result<usize, Stop> {
    match input.get(at..) {
        Some([b'\r', b'\n', ..]) => Ok(at + 2),
        Some([] | [b'\r']) | None => Err(Stop::Incomplete),
        Some([b'\r', ..]) => bad("a CR without its LF"),
        Some([b'\n', ..]) => bad("a LF without its CR"),
        Some(_) => bad("a control character in a field"),
    }
}

/// What must be remembered from line to line, beyond what [`Head`] says.
#[derive(Default)]
struct Seen<'b> {
    length: Option<u64>,
    transfer: Transfer,
    /// The tokens of `Connection`.
    close: bool,
    keep_alive: bool,
    range: Single<'b>,
    if_range: Single<'b>,
    if_modified_since: Single<'b>,
    if_unmodified_since: Single<'b>,
    traceparent: Single<'b>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Transfer {
    #[default]
    Plain,
    Chunked,
    /// Coded otherwise, and chunked after that as yet or not.
    Coded {
        chunked: bool,
    },
}

/// A field that has one value. If it appears again, the request is ambiguous.
#[derive(Clone, Copy, Default)]
enum Single<'b> {
    #[default]
    Absent,
    Once(&'b [u8]),
    Repeated,
}

impl<'b> Single<'b> {
    fn add(&mut self, value: &'b [u8]) {
        *self = match self {
            Single::Absent => Single::Once(value),
            Single::Once(_) | Single::Repeated => Single::Repeated,
        };
    }

    fn value(self) -> Option<&'b [u8]> {
        match self {
            Single::Once(value) => Some(value),
            Single::Absent | Single::Repeated => None,
        }
    }
}

impl<'b> Seen<'b> {
    /// Sorts one field in. `below` is what follows its line.
    #[inline]
    fn field(
        &mut self,
        head: &mut Head<'b>,
        name: &[u8],
        value: &'b [u8],
        below: &'b [u8],
    ) -> Result<(), Stop> {
        // The length settles almost every name, and what is left is one comparison, or two.
        match name.len() {
            4 if is(name, b"host") => host(head, value)?,
            5 if is(name, b"range") => self.range.add(value),
            6 if is(name, b"expect") => expect(head, value),
            7 if is(name, b"referer") => head.request.referer = head.request.referer.or(Some(value)),
            8 if is(name, b"if-match") => head.request.if_match.add("if-match", value, below),
            8 if is(name, b"if-range") => self.if_range.add(value),
            10 if is(name, b"connection") => self.connection(value),
            10 if is(name, b"user-agent") => {
                head.request.user_agent = head.request.user_agent.or(Some(value))
            }
            11 if is(name, b"traceparent") => self.traceparent.add(value),
            13 if is(name, b"if-none-match") => head.request.if_none_match.add("if-none-match", value, below),
            14 if is(name, b"content-length") => self.content_length(value)?,
            15 if is(name, b"accept-encoding") => {
                head.request.accept_encoding.add("accept-encoding", value, below)
            }
            17 if is(name, b"if-modified-since") => self.if_modified_since.add(value),
            17 if is(name, b"transfer-encoding") => self.transfer_encoding(value, head.framing.version)?,
            19 if is(name, b"if-unmodified-since") => self.if_unmodified_since.add(value),
            _ => {}
        }
        Ok(())
    }

    /// RFC 9110 §7.6.1. Other tokens name fields meant for this hop, none of which we act upon.
    fn connection(&mut self, value: &[u8]) {
        for token in value.split(|&byte| byte == b',').map(scan::trim) {
            self.close |= token.eq_ignore_ascii_case(b"close");
            self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// RFC 9112 §6.3: one number, once. A repeated or listed one is how requests are smuggled.
    fn content_length(&mut self, value: &[u8]) -> Result<(), Stop> {
        if self.length.is_some() {
            return bad("several Content-Length fields");
        }
        if self.transfer != Transfer::Plain {
            return bad("Content-Length beside Transfer-Encoding");
        }
        self.length = scan::decimal(value);
        if self.length.is_none() { bad("malformed Content-Length") } else { Ok(()) }
    }

    /// RFC 9112 §6.1: we take `chunked`, once and alone. What else there may be in any number of lines before it is for
    /// others to understand.
    fn transfer_encoding(&mut self, value: &[u8], version: Version) -> Result<(), Stop> {
        if version == Version::Http10 {
            return bad("Transfer-Encoding in HTTP/1.0");
        }
        if self.length.is_some() {
            return bad("Content-Length beside Transfer-Encoding");
        }
        for coding in value.split(|&byte| byte == b',').map(scan::trim) {
            let name = scan::token_run(coding);
            let is_coding = name > 0 && matches!(scan::trim(&coding[name..]), [] | [b';', ..]);
            self.transfer = match self.transfer {
                _ if !is_coding => return bad("malformed Transfer-Encoding"),
                Transfer::Chunked | Transfer::Coded { chunked: true } => {
                    return bad("a transfer coding after chunked");
                }
                Transfer::Plain if coding.eq_ignore_ascii_case(b"chunked") => Transfer::Chunked,
                _ => Transfer::Coded { chunked: coding.eq_ignore_ascii_case(b"chunked") },
            };
        }
        Ok(())
    }

    /// The head is whole: what its fields mean together.
    #[inline]
    fn finish(self, head: &mut Head<'b>) -> Result<(), Stop> {
        // RFC 9112 §3.2.
        if head.request.host.is_none() && head.framing.version != Version::Http10 {
            return bad("no Host");
        }
        head.request.body = match (self.transfer, self.length) {
            (Transfer::Chunked, _) => Body::Chunked,
            (Transfer::Coded { chunked: true }, _) => {
                return refuse(Status::NOT_IMPLEMENTED, "a transfer coding other than chunked");
            }
            // RFC 9112 §6.3: nobody knows where such a body ends.
            (Transfer::Coded { chunked: false }, _) => return bad("a body that does not end in chunks"),
            (Transfer::Plain, None | Some(0)) => Body::None,
            (Transfer::Plain, Some(length)) => Body::Length(length),
        };
        // RFC 9112 §9.3.
        head.framing.keep_alive = match head.framing.version {
            Version::Http11 | Version::Http2 => !self.close,
            Version::Http10 => self.keep_alive && !self.close,
        };
        // RFC 9110 §10.1.1.
        if head.framing.version == Version::Http10 && head.request.expect == Expect::Continue {
            head.request.expect = Expect::None;
        }
        head.request.if_modified_since = self.if_modified_since.value();
        head.request.if_unmodified_since = self.if_unmodified_since.value();
        head.request.if_range = self.if_range.value();
        head.request.traceparent = self.traceparent.value();
        // A range whose condition cannot be known must not be served as a range (RFC 9110 §13.1.5).
        head.request.range = match self.if_range {
            Single::Repeated => None,
            Single::Absent | Single::Once(_) => self.range.value(),
        };
        Ok(())
    }
}

/// Compares a token with a name made of small letters and hyphens. Setting one bit makes capitals small, and makes
/// no other token byte what it was not.
#[inline]
fn is<const N: usize>(token: &[u8], name: &[u8; N]) -> bool {
    <&[u8; N]>::try_from(token).is_ok_and(|token| {
        let differences = token.iter().zip(name).fold(0, |all, (byte, small)| all | ((byte | 0x20) ^ small));
        differences == 0
    })
}

/// RFC 9112 §3.2: once, and valid.
fn host<'b>(head: &mut Head<'b>, value: &'b [u8]) -> Result<(), Stop> {
    if head.request.host.is_some() {
        return bad("several Host fields");
    }
    if !target::is_host(value) {
        return bad("malformed Host");
    }
    head.request.host = Some(value);
    Ok(())
}

/// RFC 9110 §10.1.1: a list, of which we can meet one member only.
fn expect(head: &mut Head<'_>, value: &[u8]) {
    for expectation in value.split(|&byte| byte == b',').map(scan::trim) {
        head.request.expect = match head.request.expect {
            Expect::None | Expect::Continue if expectation.eq_ignore_ascii_case(b"100-continue") => {
                Expect::Continue
            }
            unchanged if expectation.is_empty() => unchanged,
            _ => Expect::Other,
        };
    }
}
