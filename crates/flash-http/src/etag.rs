//! Entity tags (RFC 9110 §8.8.3): ours, and the lists of them that clients send.

use crate::{Values, scan};
use std::fmt;

/// Longest suffix of a tag, in bytes.
pub const SUFFIX_BYTES_MAX: usize = 12;
/// Two quotes, two hexadecimal numbers of 64 bits, a hyphen, and a suffix. A digest takes a byte less.
const TAG_BYTES_MAX: usize = 2 + 16 + 1 + 16 + SUFFIX_BYTES_MAX;

/// A strong tag with its quotes: `"modified-size"`, or a digest, in hexadecimal.
#[derive(Clone, Copy)]
pub struct EntityTag {
    text: [u8; TAG_BYTES_MAX],
    bytes: u8,
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

impl EntityTag {
    /// The tag of a file by its modification time and size. The suffix tells representations of one file apart.
    ///
    /// # Panics
    /// If the suffix is longer than [`SUFFIX_BYTES_MAX`] or is not made of letters, digits and hyphens.
    pub fn new(modified_ns: i64, size: u64, suffix: &str) -> EntityTag {
        EntityTag::around(suffix, |tag| {
            tag.push_hex(modified_ns.cast_unsigned());
            tag.push(b'-');
            tag.push_hex(size);
        })
    }

    /// The tag of a file by a digest of its content. It has no hyphen in front of its suffix, so no time and size have it.
    ///
    /// # Panics
    /// As [`EntityTag::new`].
    pub fn of_digest(digest: &[u8; 16], suffix: &str) -> EntityTag {
        EntityTag::around(suffix, |tag| {
            for byte in digest {
                tag.push(HEX_DIGITS[usize::from(byte >> 4)]);
                tag.push(HEX_DIGITS[usize::from(byte & 0xf)]);
            }
        })
    }

    fn around(suffix: &str, push: impl FnOnce(&mut EntityTag)) -> EntityTag {
        assert!(suffix.len() <= SUFFIX_BYTES_MAX, "a tag's suffix is short");
        assert!(
            suffix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            "a tag's suffix is plain"
        );
        let mut tag = EntityTag { text: [0; TAG_BYTES_MAX], bytes: 0 };
        tag.push(b'"');
        push(&mut tag);
        suffix.bytes().for_each(|byte| tag.push(byte));
        tag.push(b'"');
        tag
    }

    fn push(&mut self, byte: u8) {
        self.text[usize::from(self.bytes)] = byte;
        self.bytes += 1;
    }

    fn push_hex(&mut self, number: u64) {
        let digits = number.checked_ilog2().unwrap_or(0) / 4 + 1;
        for place in (0..digits).rev() {
            self.push(HEX_DIGITS[(number >> (4 * place)) as usize & 0xf]);
        }
    }

    /// With its quotes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.bytes)]
    }
}

impl fmt::Debug for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

/// RFC 9110 §8.8.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal byte for byte: a weak tag matches nothing.
    Strong,
    /// Equal but for the mark of weakness.
    Weak,
}

/// Whether a list of tags, or `*`, has one that matches `etag` (strong, quoted). A malformed list matches nothing.
pub fn list_matches(list: Values<'_>, etag: &[u8], comparison: Comparison) -> bool {
    list.lines().any(|line| line == b"*" || tags(line).any(|tag| matches(tag, etag, comparison)))
}

/// Whether a list has the tag itself. `*` names none.
pub fn list_names(list: Values<'_>, etag: &[u8]) -> bool {
    list.lines().any(|line| tags(line).any(|tag| tag == etag))
}

/// Whether a list is `*`, which stands for any tag at all.
pub fn list_is_any(list: Values<'_>) -> bool {
    list.lines().any(|line| line == b"*")
}

/// Whether a single tag matches `etag` (strong, quoted).
pub fn matches(tag: &[u8], etag: &[u8], comparison: Comparison) -> bool {
    match (comparison, tag) {
        (Comparison::Weak, [b'W', b'/', opaque @ ..]) => opaque == etag,
        _ => tag == etag,
    }
}

/// The tags of one line, up to where it stops being a list. Commas may be inside a tag, so quotes lead the way.
fn tags(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line;
    std::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', behind @ ..] = rest {
            rest = behind;
        }
        let open = if rest.starts_with(b"W/") { 2 } else { 0 };
        if rest.get(open) != Some(&b'"') {
            return None;
        }
        let close = open + 1 + memchr::memchr(b'"', &rest[open + 1..])?;
        let (tag, behind) = rest.split_at(close + 1);
        rest = scan::trim(behind);
        matches!(rest, [] | [b',', ..]).then_some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Comparison::{Strong, Weak};

    #[test]
    fn rfc9110_8_8_3_tags_are_written_in_quotes() {
        let text = |tag: EntityTag| String::from_utf8(tag.as_bytes().to_vec()).expect("tags are ASCII");
        assert_eq!(text(EntityTag::new(0, 0, "")), "\"0-0\"");
        assert_eq!(text(EntityTag::new(0x17ab, 1024, "-br")), "\"17ab-400-br\"");
        assert_eq!(
            text(EntityTag::new(-1, u64::MAX, "-abcdefghijk")),
            "\"ffffffffffffffff-ffffffffffffffff-abcdefghijk\""
        );
        let digest = [0xab, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0xef];
        assert_eq!(
            text(EntityTag::of_digest(&digest, "br01234567")),
            "\"ab000102030405060708090a0b0c0defbr01234567\""
        );
    }

    #[test]
    fn rfc9110_8_8_3_2_comparison() {
        assert!(!matches(b"W/\"1\"", b"\"1\"", Strong));
        assert!(matches(b"W/\"1\"", b"\"1\"", Weak));
        assert!(matches(b"\"1\"", b"\"1\"", Strong));
        assert!(!matches(b"w/\"1\"", b"\"1\"", Weak));
        assert!(!matches(b"1", b"\"1\"", Weak));
    }

    #[test]
    fn rfc9110_13_1_1_lists() {
        let holds = |list: &'static str| list_matches(Values::one(list.as_bytes()), b"\"b,\"", Strong);
        assert!(holds("*"));
        assert!(holds("\"b,\""));
        assert!(holds("\"a\", \"b,\""));
        assert!(holds(",, W/\"a\" ,\t\"b,\" ,"));
        assert!(!holds("\"a\", W/\"b,\""));
        assert!(!holds("\"a\" \"b,\""));
        assert!(!holds("a, \"b,\""));
        assert!(!holds("\"b,"));
        assert!(!holds("\"a\", *"));
        assert!(!holds(""));
    }
}
