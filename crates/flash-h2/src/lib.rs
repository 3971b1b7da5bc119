//! HTTP/2 on bytes (RFC 9113, 7541 and 9218): frames, HPACK, flow control, the states of streams, priorities and limits.
//!
//! - [`frame`] writes frames, and [`reader`] takes them apart.
//! - [`hpack`] decodes the fields of requests, and encodes those of responses.
//! - [`request`] turns decoded fields into a head as HTTP/1 writes it, which [`flash_http::head`] parses.
//! - [`streams`] has the streams of a connection, their windows, and the order in which they send.
//! - [`session`] is one connection of a server: it answers control frames, and tells its user of requests and bodies.
//! - [`client`] is one connection of a client: of a proxy, or of `flash load`.
//! - [`budget`] bounds what a client may make a server do for nothing.
//!
//! This crate performs no I/O, reads no clock, and knows no files and no responses. Bodies are never copied here.

#![forbid(unsafe_code)]

pub mod budget;
pub mod client;
pub mod error;
pub mod frame;
pub mod hpack;
pub mod priority;
pub mod reader;
pub mod request;
pub mod session;
pub mod settings;
pub mod streams;

pub use client::{Client, ClientEvent, ClientLimits, CommonFields};
pub use error::{ConnectionError, ErrorCode};
pub use priority::Priority;
pub use request::Scratch;
pub use session::{Event, Session};
pub use streams::{Stream, Streams};
