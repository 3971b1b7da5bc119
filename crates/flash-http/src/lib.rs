//! HTTP on bytes: what a client asked for, and the words to answer with.
//!
//! This is the lowest layer of the request path. A [`head`] is read here, and the questions that its fields raise
//! are answered here: may the body be ignored ([`chunked`]), does the client's copy still hold ([`condition`]),
//! which bytes does it want ([`range`]), in which coding ([`negotiate`]), of which type ([`media`]).
//!
//! Nothing here performs I/O, reads a clock, or knows of files and connections. Reading an ordinary head does not
//! allocate.

#![forbid(unsafe_code)]

pub mod chunked;
pub mod condition;
pub mod date;
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
pub mod values;

pub use fields::Fields;
pub use head::{Body, Expect, Framing, Head, Limits, Parsed, Reject, RequestHead, Target, Version};
pub use method::Method;
pub use scheme::Scheme;
pub use status::Status;
pub use values::Values;
