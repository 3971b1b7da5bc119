//! What the head of a response is made of once it is read, and what it may cost.

use flash_http::Status;

/// What a head may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first byte to the empty line's last.
    pub head_bytes_max: usize,
    pub fields_max: usize,
}

/// Fields are this long at least, on average, where a head has many of them.
const FIELD_BYTES: usize = 256;

impl Limits {
    pub fn of_bytes(head_bytes_max: usize) -> Limits {
        Limits { head_bytes_max, fields_max: (head_bytes_max / FIELD_BYTES).max(100) }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::of_bytes(32 << 10)
    }
}

/// What [`parse`](super::parse) made of the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'b> {
    /// Nothing wrong yet, and not all of it.
    Incomplete,
    Complete {
        head: Head<'b>,
        /// Length of the head, with its empty line.
        bytes: usize,
    },
}

/// Which rule a program broke, for the log. The client gets 502.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad {
    pub reason: &'static str,
}

/// A response's head. Values come without the blanks around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'b> {
    pub kind: Kind<'b>,
    /// What the client is to be told: from 200 to 599. 200 for a [`Kind::LocalRedirect`], whose target will decide.
    pub status: Status,
    /// The phrase behind the status, if the program gave one; else [`Status::reason`] is a good one.
    pub reason: &'b [u8],
    /// The file that answers instead of a body, if the program hands one on.
    pub hand_off: Option<HandOff<'b>>,
    /// `X-Accel-Limit-Rate`, as nginx has it: bytes per second, or 0 for no limit.
    pub limit_rate: Option<u64>,
    /// A body that is longer or shorter than this is not what the program meant to send.
    pub content_length: Option<u64>,
    /// What only a response of HTTP/1 says, about its connection.
    pub of_connection: OfConnection<'b>,
    /// Its field lines, which were checked.
    pub(super) lines: &'b [u8],
}

/// What a response of HTTP/1 says about the connection that it came over. Programs of CGI have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfConnection<'b> {
    /// The body comes in chunks (RFC 9112 §7.1).
    pub is_chunked: bool,
    /// Another response can follow (§9.3).
    pub persists: bool,
    /// The protocol that follows a 101 response (RFC 9110 §7.8).
    pub upgrade: Option<&'b [u8]>,
    /// `Connection` names fields that are not passed on (§7.6.1).
    pub(super) names_fields: bool,
}

/// A file that a program hands on to the server. It is the server's to say which ones may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOff<'b> {
    /// `X-Accel-Redirect`, as nginx has it: a path of the site.
    Path(&'b [u8]),
    /// `X-Sendfile`, as Apache and lighttpd have it: a path of the disk.
    File(&'b [u8]),
}

/// The four kinds of response (RFC 3875 §6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'b> {
    /// §6.2.1.
    Document,
    /// §6.2.2: answer as if the client had asked for this path, and perhaps query, with GET. It begins with one slash
    /// and holds visible ASCII and obs-text.
    LocalRedirect(&'b [u8]),
    /// §6.2.3: no document is promised, so that the server may write one.
    ClientRedirect,
    /// §6.2.4.
    ClientRedirectWithDocument,
}
