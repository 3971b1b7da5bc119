//! The fields of a response that a measurement needs, in whichever protocol they come.

use super::bad::Bad;
use super::whole::{Asked, Reply};

/// What is known of a head while it is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) content_length: Option<u64>,
    last_modified: Option<Box<str>>,
}

impl Fields {
    /// Takes a field.
    pub(super) fn take(
        &mut self,
        name: &[u8],
        value: &[u8],
        asked: Asked,
        reply: &mut Reply,
    ) -> Result<(), Bad> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match name.len() {
            4 if asked.validator && is("etag") => reply.validator = condition("If-None-Match", value),
            13 if asked.validator && is("last-modified") => {
                self.last_modified = condition("If-Modified-Since", value);
            }
            13 if is("content-range") => reply.range = range(value),
            14 if is("content-length") => {
                let number = number(value).ok_or(Bad)?;
                // RFC 9112 §6.3: two that differ are an attack or a fault, never an answer.
                if self.content_length.is_some_and(|other| other != number) {
                    return Err(Bad);
                }
                self.content_length = Some(number);
            }
            16 if is("content-encoding") => reply.coded = !value.eq_ignore_ascii_case(b"identity"),
            _ => {}
        }
        Ok(())
    }

    /// The head has ended. Returns its Content-Length.
    pub(super) fn finish(self, reply: &mut Reply) -> Option<u64> {
        reply.validator = reply.validator.take().or(self.last_modified);
        self.content_length
    }
}

fn condition(name: &str, value: &[u8]) -> Option<Box<str>> {
    let value = std::str::from_utf8(value).ok()?;
    Some(format!("{name}: {value}\r\n").into())
}

/// Digits and nothing else; Rust's own parser would take a sign.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// `bytes 0-99/1000` (RFC 9110 §14.4).
fn range(value: &[u8]) -> Option<(u64, u64, u64)> {
    let text = value.strip_prefix(b"bytes ")?;
    let slash = text.iter().position(|byte| *byte == b'/')?;
    let dash = text[..slash].iter().position(|byte| *byte == b'-')?;
    Some((number(&text[..dash])?, number(&text[dash + 1..slash])?, number(&text[slash + 1..])?))
}
