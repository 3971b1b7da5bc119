//! FastCGI: a request and its response in records, over one stream (the FastCGI specification, version 1).
//!
//! A connection carries one request at a time, as all applications can (§3.2 lets each say whether it could more; php-fpm
//! and libfcgi cannot). So the request's id is always [`REQUEST_ID`], and a record of another one is an error.
//!
//! [`Encoder`] writes what the server says, [`Decoder`] reads what the application answers; neither allocates for a
//! record, and neither keeps any part of a stream.

mod decoder;
mod encoder;
mod record;

pub use self::decoder::{Decoder, End, Error, Event};
pub use self::encoder::Encoder;
pub use self::record::{CONTENT_BYTES_MAX, HEAD_BYTES, REQUEST_ID};

#[cfg(test)]
mod tests;
