//! Percent-encoding: of paths, for Location and for links in listings, and back.

use crate::scan;

/// Appends `path` to `out`, with every byte encoded that RFC 3986 §3.3 does not allow in a path as itself.
pub fn encode_path(path: &[u8], out: &mut Vec<u8>) {
    encode(path, &PATH, out);
}

/// Appends a name as a relative reference that needs no escape in HTML either: all but the unreserved characters are encoded (§2.3).
/// So every client reads it that reads listings of nginx and Apache.
pub fn encode_name(name: &[u8], out: &mut Vec<u8>) {
    encode(name, &UNRESERVED, out);
}

/// The bytes that the text stands for. `None` if an escape is broken.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let hex = |digit: &u8| char::from(*digit).to_digit(16).map(|value| value as u8);
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        let mut digit = || bytes.next().and_then(hex);
        decoded.push(if byte == b'%' { digit()? << 4 | digit()? } else { byte });
    }
    Some(decoded)
}

fn encode(text: &[u8], plain: &[bool; 256], out: &mut Vec<u8>) {
    for &byte in text {
        if plain[usize::from(byte)] {
            out.push(byte);
        } else {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
        }
    }
}

/// RFC 3986 §2.1: in capitals.
const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Slashes, and what a segment is made of: unreserved, sub-delims, `:` and `@`.
const PATH: [bool; 256] = scan::table(b"/:@-._~!$&'()*+,;=");
const UNRESERVED: [bool; 256] = scan::table(b"-._~");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3986_3_3_paths() {
        let encoded = |path: &[u8]| {
            let mut out = Vec::new();
            encode_path(path, &mut out);
            String::from_utf8(out).expect("encoded paths are ASCII")
        };
        assert_eq!(encoded(b"/a-b_c.d~e/:@!$&'()*+,;="), "/a-b_c.d~e/:@!$&'()*+,;=");
        assert_eq!(encoded(b"/100% \"?#<>[]\\^`{|}"), "/100%25%20%22%3F%23%3C%3E%5B%5D%5C%5E%60%7B%7C%7D");
        assert_eq!(encoded("/é\u{0}\u{7f}".as_bytes()), "/%C3%A9%00%7F");
        assert_eq!(encoded(b"/\xff\r\n"), "/%FF%0D%0A");
    }

    #[test]
    fn escapes_are_decoded_once() {
        assert_eq!(decode(b"/a%20b%2525+").as_deref(), Some(&b"/a b%25+"[..]));
        for broken in [&b"%"[..], b"%4", b"a%4g", b"%-1"] {
            assert_eq!(decode(broken), None);
        }
    }

    #[test]
    fn rfc3986_4_2_names_as_references() {
        let mut out = Vec::new();
        encode_name(b"a-b_c.d~e:f&g'h\"i?j;k \xc3\xa9", &mut out);
        assert_eq!(out, b"a-b_c.d~e%3Af%26g%27h%22i%3Fj%3Bk%20%C3%A9");
    }
}
