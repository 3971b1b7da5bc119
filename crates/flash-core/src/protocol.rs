//! The wire protocols that a connection can speak. HTTP/1 is the only one so far.
//!
//! A protocol turns bytes into requests, and responses into bytes. It knows when its connection may be closed. An
//! [exchange](crate::exchange) finds the response to a request.

pub(crate) mod h1;

use self::h1::Http1;

#[derive(Debug)]
pub(crate) enum Protocol {
    H1(Http1),
}
