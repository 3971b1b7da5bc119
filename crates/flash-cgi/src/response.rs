//! What a CGI program's output begins with: a head, and which of the four kinds of response it announces (RFC 3875 §6.2).
//!
//! The head is read strictly, from left to right and within limits, as a request's is: whatever a program writes, the
//! client gets a well-formed response or a 502. A program may end its lines in LF alone (§6.3). What follows the head is
//! not looked at here.

mod parse;
mod parts;

use flash_http::Fields;

pub use self::parts::{Bad, Head, Kind, Limits, Parsed};

/// Reads the head at the start of `input`, which may go on behind it.
///
/// Fed with ever longer prefixes of one output, it says [`Parsed::Incomplete`] until the verdict that it would give on
/// the whole is certain.
///
/// # Errors
/// Whatever RFC 3875 §6.3 or the limits forbid.
pub fn parse<'b>(input: &'b [u8], limits: &Limits) -> Result<Parsed<'b>, Bad> {
    parse::parse(input, limits)
}

/// Whether bytes that arrived behind the first `seen` ones, on which [`parse`] said [`Parsed::Incomplete`], are reason
/// to parse again: a line has ended, or the limit is reached. Asking first keeps a head that trickles in cheap.
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
    /// Left out: Status and Content-Length, which are in the [`Head`]; Date and Server, which this server writes; and
    /// those that belong to one connection (§6.3.4, RFC 9110 §7.6.1), which the program does not have.
    pub fn fields(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + use<'b> {
        Fields::of_checked(self.lines).filter(|(name, _)| parse::is_passed_on(name))
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
