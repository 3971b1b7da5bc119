//! FastCGI: a request and its response in records, over one stream (the FastCGI specification, version 1).
//!
//! A connection carries one request at a time, as all applications can (§3.2 lets each say whether it could more; php-fpm
//! and libfcgi cannot). So the request's id is always [`REQUEST_ID`], and a record of another one is an error.
//!
//! [`Encoder`] writes what the server says, [`Decoder`] reads what the application answers; neither allocates for a
//! record, and neither keeps any part of a stream.

mod decoder;
mod encoder;

pub use self::decoder::{Decoder, End, Error, Event};
pub use self::encoder::Encoder;

/// The id of every request (§3.3: any but 0, and small ones are best).
pub const REQUEST_ID: u16 = 1;
/// A record's head (§3.3).
pub const HEAD_BYTES: usize = 8;
/// What a record holds at most.
pub const CONTENT_BYTES_MAX: usize = 65535;

const VERSION: u8 = 1;

/// Types of records (§8), but for those that neither side has a use for.
mod kind {
    pub(super) const BEGIN_REQUEST: u8 = 1;
    pub(super) const ABORT_REQUEST: u8 = 2;
    pub(super) const END_REQUEST: u8 = 3;
    pub(super) const PARAMS: u8 = 4;
    pub(super) const STDIN: u8 = 5;
    pub(super) const STDOUT: u8 = 6;
    pub(super) const STDERR: u8 = 7;
    pub(super) const GET_VALUES_RESULT: u8 = 10;
}

#[cfg(test)]
mod tests;
