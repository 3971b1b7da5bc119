//! A request's head: from the bytes received to what the client asked for.
//!
//! The first step of every exchange. The parser is strict where leniency has let requests be smuggled past one
//! server into another (RFC 9112 §11.2): what RFC 9112 does not allow, it refuses. It reads from left to right,
//! and each refusal depends on no byte behind the one that caused it. That is why a head that arrives in pieces
//! gets the same verdict as one that arrives whole.
//!
//! It does not decode paths, and does not look at bodies.

mod fields;
mod request_line;
mod target;

use std::ops::Deref;

use crate::{Fields, Method, Status, Values};

/// What a head may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Request target; beyond it 414.
    pub target_bytes_max: usize,
    /// The whole head, from the first byte to the empty line's last; beyond it 431.
    pub head_bytes_max: usize,
    /// Field lines; beyond it 431.
    pub fields_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { target_bytes_max: 8192, head_bytes_max: 32768, fields_max: 100 }
    }
}

/// What [`parse`] made of the bytes so far.
#[derive(Clone, Copy, Debug)]
// A head lives for one call and is never stored, so there is nothing to gain from a box.
#[allow(clippy::large_enum_variant)]
pub enum Parsed<'b> {
    /// Nothing wrong yet, and not all of it.
    Incomplete,
    Complete {
        head: Head<'b>,
        /// Length of the head: a skipped leading CRLF, the lines, and the empty line.
        bytes: usize,
    },
}

/// A refusal: the status to answer with before the connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    pub status: Status,
    /// For the log and for curious people; says which rule was broken.
    pub reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    /// And every later minor version, which we answer as 1.1 (RFC 9110 §2.5).
    Http11,
}

/// What is asked for (RFC 9112 §3.2). Absolute form is reduced to [`Target::Origin`], and its authority takes the
/// place of `Host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'b> {
    /// `path` begins with `/` and holds visible ASCII and obs-text, still percent-encoded. `query` comes without
    /// its `?`.
    Origin { path: &'b [u8], query: Option<&'b [u8]> },
    /// `*`: the server as a whole. Only with OPTIONS.
    Asterisk,
    /// `host:port`. Only with CONNECT, which we do not do.
    Authority(&'b [u8]),
}

/// What the head says about the length of the request's body (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// No body, or one of no bytes.
    None,
    /// More than 0 bytes.
    Length(u64),
    /// Only its end tells.
    Chunked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    None,
    /// 100-continue. Never in HTTP/1.0, where it is ignored (RFC 9110 §10.1.1).
    Continue,
    /// Something we cannot meet: 417.
    Other,
}

/// What a request asks for, whatever protocol brings it. Values come without the blanks around them and as received.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'b> {
    pub method: Method,
    /// As the client spelt it, also where it is not known.
    pub method_name: &'b [u8],
    pub target: Target<'b>,
    /// The authority that is asked. Always there in HTTP/1.1, perhaps empty.
    pub host: Option<&'b [u8]>,
    pub body: Body,
    pub expect: Expect,
    pub if_match: Values<'b>,
    pub if_none_match: Values<'b>,
    pub if_modified_since: Option<&'b [u8]>,
    pub if_unmodified_since: Option<&'b [u8]>,
    pub if_range: Option<&'b [u8]>,
    pub range: Option<&'b [u8]>,
    pub accept_encoding: Values<'b>,
    pub referer: Option<&'b [u8]>,
    pub user_agent: Option<&'b [u8]>,
    /// All of them, those above too, for who passes a request on.
    pub fields: Fields<'b>,
}

/// What a head says about the HTTP/1 connection that it came on.
#[derive(Clone, Copy, Debug)]
pub struct Framing<'b> {
    pub version: Version,
    /// Without its CRLF.
    pub request_line: &'b [u8],
    /// From the version and the `Connection` field (RFC 9112 §9.3).
    pub keep_alive: bool,
}

/// A head as HTTP/1 writes it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'b> {
    pub request: RequestHead<'b>,
    pub framing: Framing<'b>,
}

impl<'b> Deref for Head<'b> {
    type Target = RequestHead<'b>;

    fn deref(&self) -> &RequestHead<'b> {
        &self.request
    }
}

impl Version {
    pub const fn name(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }
}

/// Reads the head at the start of `input`, which may go on behind it.
///
/// Fed with ever longer prefixes of one input, it says [`Parsed::Incomplete`] until the verdict that it would
/// give on the whole is certain.
///
/// # Errors
/// 400 for what RFC 9112 forbids, 414 and 431 for what `limits` forbid, 505 for another major version.
pub fn parse<'b>(input: &'b [u8], limits: &Limits) -> Result<Parsed<'b>, Reject> {
    let window = &input[..input.len().min(limits.head_bytes_max)];
    match complete(window, limits) {
        Ok((head, bytes)) => Ok(Parsed::Complete { head, bytes }),
        Err(Stop::Reject(reject)) => Err(reject),
        // A full window cannot become complete any more.
        Err(Stop::Incomplete) if window.len() == limits.head_bytes_max => {
            Err(Reject { status: Status::FIELDS_TOO_LARGE, reason: "the head is too long" })
        }
        Err(Stop::Incomplete) => Ok(Parsed::Incomplete),
    }
}

/// Whether bytes that arrived behind the first `seen` ones, on which [`parse`] said [`Parsed::Incomplete`], are
/// reason to parse again: a line has ended, or a limit may be reached. Asking first keeps a head that trickles in
/// from costing quadratic time, with at most a parse for each line instead of one for each byte. A bad byte is then
/// found when its line ends, with the same verdict.
pub fn may_progress(input: &[u8], seen: usize, limits: &Limits) -> bool {
    let (old, new) = input.split_at(seen.min(input.len()));
    memchr::memchr(b'\n', new).is_some()
        || input.len() >= limits.head_bytes_max
        // The request line has limits of its own. A line end in the first two bytes is the empty line before it.
        || memchr::memchr(b'\n', old.get(2..).unwrap_or_default()).is_none()
}

/// Why the parser went no further.
#[derive(Debug)]
enum Stop {
    Incomplete,
    Reject(Reject),
}

/// A refusal with 400.
fn bad<T>(reason: &'static str) -> Result<T, Stop> {
    refuse(Status::BAD_REQUEST, reason)
}

#[cold]
fn refuse<T>(status: Status, reason: &'static str) -> Result<T, Stop> {
    Err(Stop::Reject(Reject { status, reason }))
}

fn complete<'b>(input: &'b [u8], limits: &Limits) -> Result<(Head<'b>, usize), Stop> {
    let start = leading_crlf(input)?;
    let (line, end) = request_line::read(input, start, limits)?;
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

/// RFC 9112 §2.2: skips one empty line before the request line, which old clients send behind a POST.
fn leading_crlf(input: &[u8]) -> Result<usize, Stop> {
    match input {
        [b'\r', b'\n', ..] => Ok(2),
        [] | [b'\r'] => Err(Stop::Incomplete),
        _ => Ok(0),
    }
}

#[cfg(test)]
mod tests;
