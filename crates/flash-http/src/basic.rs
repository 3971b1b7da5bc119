//! The credentials of HTTP Basic (RFC 7617): a user's name and password in a request's `Authorization` field.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::fields::Fields;

/// A name and its password, together no longer than this, have a check. SHA-crypt's cost grows with the password's length.
pub const CREDENTIAL_BYTES_MAX: usize = 256;
/// The decoder may need a few bytes more than the result has.
const BUFFER_BYTES: usize = CREDENTIAL_BYTES_MAX + 8;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A user's name and password, as a client has sent them. They need not be right.
pub struct Credentials {
    bytes: [u8; BUFFER_BYTES],
    colon: usize,
    end: usize,
}

impl Credentials {
    /// The credentials of a request. `None` if it has none, several, or none of a user. Does not allocate.
    pub fn of(fields: Fields<'_>) -> Option<Self> {
        let mut values = fields
            .into_iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"authorization"))
            .map(|(_, value)| value);
        match (values.next(), values.next()) {
            (Some(value), None) => Self::parse(value),
            _ => None,
        }
    }

    /// Reads a field's value, such as `Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==`.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (scheme, token) = value.split_at_checked(b"Basic ".len())?;
        if !scheme.eq_ignore_ascii_case(b"Basic ") {
            return None;
        }
        let token = token.trim_ascii();
        let mut bytes = [0; BUFFER_BYTES];
        let end = BASE64.decode_slice(token, &mut bytes).ok().filter(|end| *end <= CREDENTIAL_BYTES_MAX)?;
        // RFC 7617 §2: no control characters, and no colon in the name.
        let is_text = bytes[..end].iter().all(|byte| !byte.is_ascii_control());
        let colon = bytes[..end].iter().position(|byte| *byte == b':').filter(|colon| *colon > 0)?;
        is_text.then_some(Self { bytes, colon, end })
    }

    pub fn user(&self) -> &[u8] {
        &self.bytes[..self.colon]
    }

    pub fn password(&self) -> &[u8] {
        &self.bytes[self.colon + 1..self.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<(String, String)> {
        let read = Credentials::parse(value.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Some((text(read.user()), text(read.password())))
    }

    #[test]
    fn the_example_of_the_rfc_and_what_is_like_it() {
        let expected = Some(("Aladdin".to_owned(), "open sesame".to_owned()));
        for value in [
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "BASIC   QWxhZGRpbjpvcGVuIHNlc2FtZQ== ",
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ",
        ] {
            assert_eq!(read(value), expected, "{value}");
        }
        assert_eq!(read("Basic dGVzdDoxMjPCow==").unwrap().1, "123£");
        assert_eq!(read("Basic YTpiOmM=").unwrap(), ("a".into(), "b:c".into()));
        assert_eq!(read("Basic YTo=").unwrap(), ("a".into(), String::new()));
    }

    #[test]
    fn what_names_nobody() {
        // Of another scheme, no base64, no colon, no name, a NUL, a line feed.
        for value in [
            "",
            "Basic",
            "Basic ",
            "Bearer YTpi",
            "Basic YTpi!",
            "Basic YWI=",
            "Basic OmI=",
            "Basic YQA6Yg==",
            "Basic YTpiCg==",
        ] {
            assert_eq!(read(value), None, "{value}");
        }
        let of_length = |bytes: usize| BASE64.encode([b"a:".to_vec(), vec![b'x'; bytes - 2]].concat());
        assert!(read(&format!("Basic {}", of_length(CREDENTIAL_BYTES_MAX))).is_some());
        for bytes in [CREDENTIAL_BYTES_MAX + 1, BUFFER_BYTES + 1, 10_000] {
            assert_eq!(read(&format!("Basic {}", of_length(bytes))), None);
        }
    }
}
