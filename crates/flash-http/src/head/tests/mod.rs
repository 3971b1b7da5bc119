//! Heads: what is read out of good ones, what is refused, and laws over all of them.

mod fields;
mod laws;
mod request_line;

use super::*;

/// The head that `text` is, and nothing behind it.
#[track_caller]
fn head(text: &str) -> Head<'_> {
    match parse(text.as_bytes(), &Limits::default()) {
        Ok(Parsed::Complete { head, bytes }) => {
            assert_eq!(bytes, text.len());
            head
        }
        other => panic!("{text:?}: {other:?}"),
    }
}

/// The status with which `text` is refused.
#[track_caller]
fn refused(text: impl AsRef<[u8]>) -> u16 {
    refused_within(text, &Limits::default())
}

#[track_caller]
fn refused_within(text: impl AsRef<[u8]>, limits: &Limits) -> u16 {
    match parse(text.as_ref(), limits) {
        Err(reject) => reject.status.0,
        other => panic!("{}: {other:?}", text.as_ref().escape_ascii()),
    }
}

fn is_incomplete(text: impl AsRef<[u8]>) -> bool {
    matches!(parse(text.as_ref(), &Limits::default()), Ok(Parsed::Incomplete))
}
