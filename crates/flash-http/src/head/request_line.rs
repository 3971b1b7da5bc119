//! The request line: method, target, version (RFC 9112 §3), with exactly one space between them.

use super::parts::{Limits, Stop, Target, Version, Wire, bad, refuse};
use super::target::{self, Named};
use crate::{Method, Status, scan};

/// Longer method tokens are not looked for: no registered one has more than 17 bytes.
const METHOD_BYTES_MAX: usize = 32;

pub(super) struct RequestLine<'b> {
    pub(super) method: Method,
    pub(super) method_name: &'b [u8],
    pub(super) target: Target<'b>,
    /// From an absolute target.
    pub(super) authority: Option<&'b [u8]>,
    pub(super) version: Version,
    /// The line without its CRLF.
    pub(super) bytes: &'b [u8],
}

/// Reads the line that begins at `start`; also returns where the next one begins.
#[inline]
pub(super) fn read<'b>(
    input: &'b [u8],
    start: usize,
    limits: &Limits,
    wire: Wire,
) -> Result<(RequestLine<'b>, usize), Stop> {
    let (token, after_method) = method(&input[start..])?;
    let (target, after_target) = raw_target(after_method, limits)?;
    let method = Method::of(token);
    let Named { target, authority } = target::name(target, method)?;
    let (version, line_end) = version(after_target, wire)?;
    let end = input.len() - after_target.len() + line_end;
    let bytes = &input[start..end - 2];
    Ok((RequestLine { method, method_name: token, target, authority, version, bytes }, end))
}

/// The method's token, and what follows the space behind it.
#[inline]
fn method(input: &[u8]) -> Result<(&[u8], &[u8]), Stop> {
    let length = scan::token_run(&input[..input.len().min(METHOD_BYTES_MAX + 1)]);
    if length > METHOD_BYTES_MAX {
        return bad("the method is too long");
    }
    match input.get(length) {
        None => Err(Stop::Incomplete),
        Some(b' ') if length > 0 => Ok((&input[..length], &input[length + 1..])),
        Some(_) => bad("the method is not a token and a space"),
    }
}

/// The target's bytes, and what follows the space behind them.
#[inline]
fn raw_target<'b>(input: &'b [u8], limits: &Limits) -> Result<(&'b [u8], &'b [u8]), Stop> {
    let length = scan::visible_run(&input[..input.len().min(limits.target_bytes_max.saturating_add(1))]);
    if length > limits.target_bytes_max {
        return refuse(Status::URI_TOO_LONG, "the target is too long");
    }
    match input.get(length) {
        None => Err(Stop::Incomplete),
        Some(b' ') if length > 0 => Ok((&input[..length], &input[length + 1..])),
        Some(b' ') => bad("two spaces in the request line"),
        // This is also how HTTP/0.9 ends its line.
        Some(b'\r' | b'\n') => bad("a request line without a version"),
        Some(_) => bad("a control character in the target"),
    }
}

/// The version, and the length of it and its CRLF (RFC 9112 §2.3).
#[inline]
fn version(input: &[u8], wire: Wire) -> Result<(Version, usize), Stop> {
    let Some(text) = input.first_chunk::<10>() else { return short_version(input) };
    match text {
        b"HTTP/1.1\r\n" => Ok((Version::Http11, 10)),
        b"HTTP/1.0\r\n" => Ok((Version::Http10, 10)),
        [b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', b'0'..=b'9', b'\r', b'\n'] => match major {
            // RFC 9110 §2.5: a later minor version speaks to us as the highest that we know.
            b'1' => Ok((Version::Http11, 10)),
            b'2' if wire == Wire::Http2 => Ok((Version::Http2, 10)),
            _ => refuse(Status::VERSION_NOT_SUPPORTED, "a version other than HTTP/1"),
        },
        _ => bad("malformed version"),
    }
}

/// Not all of the version has come. What has come must fit.
#[cold]
fn short_version<T>(input: &[u8]) -> Result<T, Stop> {
    let fits = input.iter().zip(b"HTTP/d.d\r\n").all(|(byte, &expected)| match expected {
        b'd' => byte.is_ascii_digit(),
        _ => *byte == expected,
    });
    if fits { Err(Stop::Incomplete) } else { bad("malformed version") }
}
