//! What a head is made of once it is read, what it may cost, and how it is refused.

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

impl Limits {
    /// For a head that has been within its limits before.
    pub const NONE: Limits =
        Limits { target_bytes_max: usize::MAX, head_bytes_max: usize::MAX, fields_max: usize::MAX };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { target_bytes_max: 8192, head_bytes_max: 32768, fields_max: 100 }
    }
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
    /// In a head that was made of fields of HTTP/2, see [`parse_http2`](super::parse_http2).
    Http2,
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

impl<'b> Target<'b> {
    /// The path as the client sent it, still percent-encoded.
    pub fn raw_path(self) -> &'b [u8] {
        match self {
            Self::Origin { path, .. } => path,
            Self::Asterisk => b"*",
            Self::Authority(authority) => authority,
        }
    }

    /// What stands behind the path's question mark.
    pub fn query(self) -> Option<&'b [u8]> {
        match self {
            Self::Origin { query, .. } => query,
            Self::Asterisk | Self::Authority(_) => None,
        }
    }
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
    /// None if there are several (W3C Trace Context §3.2).
    pub traceparent: Option<&'b [u8]>,
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
            Version::Http2 => "HTTP/2.0",
        }
    }
}

/// Which protocol's head the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Http1,
    /// Written by us, of a request over HTTP/2.
    Http2,
}

/// Why the parser went no further.
#[derive(Debug)]
pub(super) enum Stop {
    Incomplete,
    Reject(Reject),
}

/// A refusal with 400.
pub(super) fn bad<T>(reason: &'static str) -> Result<T, Stop> {
    refuse(Status::BAD_REQUEST, reason)
}

#[cold]
pub(super) fn refuse<T>(status: Status, reason: &'static str) -> Result<T, Stop> {
    Err(Stop::Reject(Reject { status, reason }))
}
