//! CGI and FastCGI on bytes: the variables of a request, and the responses of programs.
//!
//! The request path uses this crate for programs:
//!
//! - [`script`] splits a path at the script that it names.
//! - [`Variables`] are what the program is told of a request.
//! - [`fastcgi`] puts them, and the request's body, into records.
//! - [`response`] reads the head of the program's output.
//!
//! This crate performs no I/O, starts no program, and knows no files or connections. CGI and FastCGI differ in [`fastcgi`]
//! alone.

#![forbid(unsafe_code)]

pub mod fastcgi;
pub mod response;
pub mod script;
pub mod variables;

pub use variables::{Ends, Server, Variables};
