//! Request targets: the four forms of RFC 9112 §3.2, and the hosts in them.

use super::parts::{Stop, Target, bad};
use crate::{Method, scan};

/// A target, and the authority that an absolute one names.
pub(super) struct Named<'b> {
    pub(super) target: Target<'b>,
    pub(super) authority: Option<&'b [u8]>,
}

/// Sorts `bytes`, which are visible ASCII and obs-text, into one of the forms.
#[inline]
pub(super) fn name(bytes: &[u8], method: Method) -> Result<Named<'_>, Stop> {
    if method == Method::Known("CONNECT") {
        return authority_form(bytes);
    }
    match bytes {
        [b'/', ..] => Ok(Named { target: origin(bytes)?, authority: None }),
        b"*" if method == Method::Options => Ok(Named { target: Target::Asterisk, authority: None }),
        b"*" => bad("* with a method other than OPTIONS"),
        _ => absolute(bytes, method),
    }
}

/// RFC 9112 §3.2.1. `bytes` begins with a slash.
#[inline]
fn origin(bytes: &[u8]) -> Result<Target<'_>, Stop> {
    match scan::find_either(b'?', b'#', bytes) {
        None => Ok(Target::Origin { path: bytes, query: None }),
        Some(at) if bytes[at] == b'?' => {
            let query = &bytes[at + 1..];
            no_fragment(query)?;
            Ok(Target::Origin { path: &bytes[..at], query: Some(query) })
        }
        Some(_) => bad("a fragment in the target"),
    }
}

fn no_fragment(bytes: &[u8]) -> Result<(), Stop> {
    match memchr::memchr(b'#', bytes) {
        None => Ok(()),
        Some(_) => bad("a fragment in the target"),
    }
}

/// RFC 9112 §3.2.2.
#[cold]
fn absolute(bytes: &[u8], method: Method) -> Result<Named<'_>, Stop> {
    let Some(rest) = strip_scheme(bytes, b"http://").or_else(|| strip_scheme(bytes, b"https://")) else {
        return bad("the target is neither a path nor an http URI");
    };
    let authority_end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    // RFC 9110 §4.2.1: an http URI without a host is invalid. User information is refused too (§4.2.4).
    if authority.is_empty() || authority[0] == b':' || !is_host(authority) {
        return bad("malformed authority in the target");
    }
    let target = match path {
        // RFC 9112 §3.2.4: this is how `*` reads on its way through proxies.
        [] if method == Method::Options => Target::Asterisk,
        [] => Target::Origin { path: b"/", query: None },
        [b'?', query @ ..] => {
            no_fragment(query)?;
            Target::Origin { path: b"/", query: Some(query) }
        }
        _ => origin(path)?,
    };
    Ok(Named { target, authority: Some(authority) })
}

fn strip_scheme<'b>(bytes: &'b [u8], scheme: &[u8]) -> Option<&'b [u8]> {
    let (start, rest) = bytes.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// RFC 9112 §3.2.3.
#[cold]
fn authority_form(bytes: &[u8]) -> Result<Named<'_>, Stop> {
    let has_port = matches!(bytes, [_, .., b'0'..=b'9']) && bytes[0] != b':' && bytes.contains(&b':');
    if !has_port || !is_host(bytes) {
        return bad("malformed authority in the target");
    }
    Ok(Named { target: Target::Authority(bytes), authority: Some(bytes) })
}

/// RFC 9110 §7.2: `uri-host [ ":" port ]`, perhaps empty.
pub(super) fn is_host(value: &[u8]) -> bool {
    if value.first() == Some(&b'[') {
        let Some(close) = memchr::memchr(b']', value) else { return false };
        let address = &value[1..close];
        return !address.is_empty()
            && address.iter().all(|&byte| byte == b':' || HOST[byte as usize])
            && is_port(&value[close + 1..]);
    }
    let name = value.iter().position(|&byte| !HOST[byte as usize]).unwrap_or(value.len());
    is_port(&value[name..])
}

/// Nothing, or a colon and digits (RFC 3986 §3.2.3 allows none).
fn is_port(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// RFC 3986 §3.2.2: the bytes of a reg-name, which include those of an IPv4 address.
const HOST: [bool; 256] = scan::table(b"-._~!$&'()*+,;=%");
