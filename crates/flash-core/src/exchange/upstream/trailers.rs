//! Trailer fields (RFC 9110 §6.5): which of them are passed on behind a body.

use flash_http::Fields;

use crate::file::header;

/// What a recipient that takes trailers for fields of the head would obey: who asks, where a body ends, and what it is (§6.5.1).
const OF_HEADS: [&str; 31] = [
    "age",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expect",
    "expires",
    "forwarded",
    "host",
    "keep-alive",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "retry-after",
    "server",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "www-authenticate",
];

/// The lines of those that may pass.
pub(super) fn passed_on(lines: &[u8], passes: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let is_of_heads = |name: &[u8]| OF_HEADS.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    let mut passed = Vec::new();
    for (name, value) in Fields::of_checked(lines).filter(|(name, _)| !is_of_heads(name) && passes(name)) {
        header::field(&mut passed, name, value);
    }
    passed
}
