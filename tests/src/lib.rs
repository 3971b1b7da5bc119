//! The end-to-end suite.

#![forbid(unsafe_code)]
