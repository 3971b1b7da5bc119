//! What may be opened, executed and changed with the rights of the start.
//!
//! A server that root starts handles files in folders that other users can write. It must not do for such a user what that user
//! may not. This crate decides what is trusted. Which files a server needs is not known here.

#![forbid(unsafe_code)]

mod program;

pub use program::program;
