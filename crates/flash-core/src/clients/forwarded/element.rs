//! Elements of the field Forwarded (RFC 7239 §4), from the right.
//!
//! Elements on the right are a trusted proxy's and well-formed. What stands left of them, a client may have left open, as with
//! a quote. So a reader from the left would take a proxy's element for a part of the client's.

/// What an element says, as far as it is well-formed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Element<'v> {
    pub(super) client: Option<&'v [u8]>,
    pub(super) proto: Option<&'v [u8]>,
}

/// The elements of a value, the last one first.
pub(super) fn from_the_right(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut left = Some(value);
    std::iter::from_fn(move || {
        let value = left?;
        let comma = last_comma(value);
        left = comma.map(|comma| &value[..comma]);
        Some(value[comma.map_or(0, |comma| comma + 1)..].trim_ascii())
    })
}

/// The last comma outside of quotes.
fn last_comma(value: &[u8]) -> Option<usize> {
    let mut is_quoted = false;
    for (at, byte) in value.iter().enumerate().rev() {
        match byte {
            b'"' if !(is_quoted && is_escaped(&value[..at])) => is_quoted = !is_quoted,
            b',' if !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Whether what follows these bytes is escaped by a backslash, which is not itself escaped.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// Reads an element's pairs. A value with an escape is no address and no scheme.
pub(super) fn parse(element: &[u8]) -> Element<'_> {
    let mut parsed = Element::default();
    let (mut is_quoted, mut is_escaped) = (false, false);
    let pairs = element.split(|&byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ => return byte == b';' && !is_quoted,
        }
        false
    });
    for pair in pairs {
        let Some(equals) = pair.iter().position(|&byte| byte == b'=') else { continue };
        let (name, value) = (pair[..equals].trim_ascii(), unquoted(pair[equals + 1..].trim_ascii()));
        if name.eq_ignore_ascii_case(b"for") {
            parsed.client = value;
        } else if name.eq_ignore_ascii_case(b"proto") {
            parsed.proto = value;
        }
    }
    parsed
}

fn unquoted(value: &[u8]) -> Option<&[u8]> {
    let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    bare.or(Some(value)).filter(|value| !value.contains(&b'\\') && !value.contains(&b'"'))
}
