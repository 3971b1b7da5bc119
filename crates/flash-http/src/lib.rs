//! HTTP on bytes: parses requests, and decides what their fields mean.
//!
//! This is the lowest layer of the request path:
//!
//! - [`head`] parses the head of a request.
//! - [`basic`] reads the credentials of HTTP Basic.
//! - [`chunked`] decodes chunked bodies.
//! - [`condition`] decides whether the client's copy is still valid.
//! - [`digest`] reads who wants a digest, and writes it.
//! - [`range`] decides which bytes the client gets.
//! - [`negotiate`] chooses the coding, and [`media`] the media type.
//!
//! This crate performs no I/O, reads no clock, and knows no files or connections. Parsing an ordinary head does not allocate.

#![forbid(unsafe_code)]

pub mod basic;
pub mod chunked;
pub mod condition;
pub mod date;
pub mod digest;
pub mod etag;
pub mod fields;
pub mod head;
pub mod media;
pub mod method;
pub mod negotiate;
pub mod percent;
pub mod range;
pub mod scan;
pub mod scheme;
pub mod status;
pub mod trace_context;
pub mod values;

pub use fields::Fields;
pub use head::{Body, Expect, Framing, Head, Limits, Parsed, Reject, RequestHead, Target, Version};
pub use method::Method;
pub use scheme::Scheme;
pub use status::Status;
pub use values::Values;
