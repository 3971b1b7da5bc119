//! Content codings on bytes (RFC 9110 §8.4.1): br, zstd and gzip, for files and for streams.
//!
//! The encoders come from libraries. This crate gives them one form, and chooses their levels. It does not know what is worth
//! to be compressed, and who accepts the result.

#![forbid(unsafe_code)]

mod encoder;

pub use crate::encoder::{Effort, Encoder, Failed};
