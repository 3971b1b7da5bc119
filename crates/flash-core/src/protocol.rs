//! The wire protocols that a connection can speak. HTTP/1 is the only one so far.
//!
//! A protocol turns bytes into requests and answers into bytes, for one exchange at a time or for many, and knows when
//! its connection may be closed. What answers a request is its [exchange](crate::exchange)'s business.

pub(crate) mod h1;

use self::h1::Http1;

#[derive(Debug)]
pub(crate) enum Protocol {
    H1(Http1),
}
