//! Programs on bytes: what CGI and FastCGI programs are told of a request, and what they answer.
//!
//! The request path speaks to programs through this crate. A path is split at the script that it names ([`script`]);
//! what the program is told becomes [`Variables`]; a FastCGI program gets them, and the request's body, in records
//! ([`fastcgi`]); and whatever a program writes begins with a head, which is read in [`response`].
//!
//! Nothing here performs I/O, starts a program, or knows of files and connections. The two framings of one exchange
//! differ in [`fastcgi`] alone.

#![forbid(unsafe_code)]

pub mod fastcgi;
pub mod response;
pub mod script;
pub mod variables;

pub use variables::{Ends, Server, Variables};
