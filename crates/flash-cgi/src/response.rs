//! What a CGI program's output begins with: a head, and which of the four kinds of response it announces (RFC 3875 §6.2).
//!
//! The parser reads the head strictly, from left to right and within limits, like the head of a request. So the client gets a
//! well-formed response or a 502, whatever a program writes. A program may end its lines in LF alone (§6.3). This module does
//! not read the body.

mod parse;
mod parts;

use flash_http::Fields;

pub use self::parts::{Bad, HandOff, Head, Kind, Limits, OfConnection, Parsed};

/// Reads the head at the start of `input`, which may go on behind it.
///
/// Fed with ever longer prefixes of one output, it says [`Parsed::Incomplete`] until the verdict that it would give on
/// the whole is certain.
///
/// # Errors
/// Whatever RFC 3875 §6.3 or the limits forbid.
pub fn parse<'b>(input: &'b [u8], limits: &Limits) -> Result<Parsed<'b>, Bad> {
    parse::parse(input, limits, parse::cgi)
}

/// Reads the head of a whole HTTP/1 response, as nph- scripts write it (RFC 3875 §5). A protocol that cannot carry such a
/// response as it is needs this. Each is a [`Kind::Document`].
///
/// # Errors
/// Like those of [`parse()`], and chunks of HTTP/1, which only its clients can read.
pub fn parse_nph<'b>(input: &'b [u8], limits: &Limits) -> Result<Parsed<'b>, Bad> {
    parse::parse(input, limits, parse::nph)
}

/// Reads the head of an HTTP/1 response from another server (RFC 9112). Its status may be below 200: another response follows then. Each
/// is a [`Kind::Document`].
///
/// # Errors
/// Like those of [`parse()`], and whatever would leave in doubt where the body ends (RFC 9112 §6.3).
pub fn parse_http<'b>(input: &'b [u8], limits: &Limits) -> Result<Parsed<'b>, Bad> {
    parse::parse(input, limits, parse::http)
}

/// Whether to parse again after [`parse()`] returned [`Parsed::Incomplete`] for the first `seen` bytes: a line has ended, or the
/// limit is reached. This check keeps a head that arrives byte by byte cheap.
pub fn may_progress(input: &[u8], seen: usize, limits: &Limits) -> bool {
    let new = &input[seen.min(input.len())..];
    memchr::memchr(b'\n', new).is_some() || input.len() >= limits.head_bytes_max
}

/// Whether a script writes whole HTTP responses itself (RFC 3875 §5): its name, the last of its path, begins with `nph-`.
pub fn is_nph(script: &[u8]) -> bool {
    let name = memchr::memrchr(b'/', script).map_or(script, |slash| &script[slash + 1..]);
    name.starts_with(b"nph-")
}

impl<'b> Head<'b> {
    /// The fields that the client gets as they are, Content-Type and Location among them.
    ///
    /// Status and Content-Length are left out, because they are in the [`Head`]. Date and Server are left out, because this
    /// server writes them, and X-Sendfile and X-Accel-…, because they are for it. Fields of one connection are left out too, because
    /// the program has no connection (§6.3.4, RFC 9110 §7.6.1).
    pub fn fields(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + use<'b> {
        let (lines, names_fields) = (self.lines, self.of_connection.names_fields);
        let stays = move |name: &[u8]| names_fields && parse::is_named_by_connection(name, lines);
        Fields::of_checked(lines).filter(move |(name, _)| parse::is_passed_on(name) && !stays(name))
    }

    /// Appends those fields as lines.
    pub fn write_fields(&self, out: &mut Vec<u8>) {
        for (name, value) in self.fields() {
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests;
