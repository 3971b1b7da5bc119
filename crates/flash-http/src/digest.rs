//! Digests of representations (RFC 9530): who wants one, and how it is written.
//!
//! SHA-256 is the only algorithm. What has which digest is not known here.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::{Fields, scan};

/// A SHA-256.
pub type Sha256 = [u8; 32];

const ALGORITHM: &[u8] = b"sha-256";
/// The highest preference (RFC 9530 §4).
const PREFERENCE_MAX: u64 = 10;

/// Whether a client gives SHA-256 a weight other than 0. Which algorithms it prefers to that makes no difference, as they are not
/// to be had. Like all of a dictionary, the last member with a key counts (RFC 9651 §3.2).
pub fn is_wanted(fields: Fields<'_>) -> bool {
    let lines = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"want-repr-digest"));
    let members = lines.flat_map(|(_, value)| value.split(|&byte| byte == b',').map(scan::trim));
    let weights = members.filter_map(|member| {
        let item = member.split(|&byte| byte == b';').next().unwrap_or_default();
        let (key, weight) = item.split_at(item.iter().position(|&byte| byte == b'=')?);
        (key == ALGORITHM).then(|| scan::decimal(&weight[1..]))
    });
    weights.last().flatten().is_some_and(|weight| (1..=PREFERENCE_MAX).contains(&weight))
}

/// The value of `Repr-Digest`.
pub fn repr_digest(digest: &Sha256) -> String {
    format!("sha-256=:{}:", BASE64_STANDARD.encode(digest))
}

/// A digest as programs show it.
pub fn hex(digest: &Sha256) -> String {
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A line of the text that `sha256sum -c` reads. A name that would break the line is escaped as GNU coreutils does.
pub fn checksum_line(digest: &Sha256, name: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(70 + name.len());
    if name.iter().any(|byte| b"\\\n\r".contains(byte)) {
        line.push(b'\\');
    }
    line.extend_from_slice(hex(digest).as_bytes());
    line.extend_from_slice(b"  ");
    for &byte in name {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            plain => line.push(plain),
        }
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9530_4_weights() {
        for (values, wanted) in [
            (&["sha-256=1"][..], true),
            (&["sha-512=10, sha-256=1"], true),
            (&["sha-512=3,\tsha-256=10;a=b , unixsum=0"], true),
            (&["sha-512=10", "sha-256=5"], true),
            (&["sha-256=10", "sha-256=0"], false),
            (&["sha-256=0, sha-256=2"], true),
            (&["sha-256=0"], false),
            (&["sha-256=11"], false),
            (&["sha-256=-1"], false),
            (&["sha-256=0.5"], false),
            (&["sha-256"], false),
            (&["sha-256="], false),
            (&["SHA-256=1"], false),
            (&["sha-512=10, md5=3"], false),
            (&["sha-2560=1, xsha-256=1"], false),
            (&["=,;,"], false),
            (&[""], false),
            (&[], false),
        ] {
            let line = |value: &&str| format!("want-REPR-digest: {value}\r\n");
            let lines =
                values.iter().map(line).collect::<String>() + "Want-Content-Digest: sha-256=1\r\n\r\n";
            assert_eq!(is_wanted(Fields::of_checked(lines.as_bytes())), wanted, "{values:?}");
        }
    }

    #[test]
    fn digests_as_others_write_them() {
        // RFC 9530 §B.1.
        const DIGEST: &str = "44aff4ab2d7c3250525675a08f0cfa9591168cffe51791c5f5bbc417c15a6c38";
        let byte = |at: usize| u8::from_str_radix(&DIGEST[2 * at..2 * at + 2], 16).unwrap();
        let digest = std::array::from_fn(byte);
        assert_eq!(repr_digest(&digest), "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:");
        let text = |name: &[u8]| String::from_utf8(checksum_line(&digest, name)).unwrap();
        assert_eq!(text(b"a b.iso"), format!("{DIGEST}  a b.iso\n"));
        assert_eq!(text(b"a\\b\nc\r"), format!("\\{DIGEST}  a\\\\b\\nc\\r\n"));
    }
}
