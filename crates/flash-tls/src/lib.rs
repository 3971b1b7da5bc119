//! TLS on bytes: ciphertext in, plaintext out.
//!
//! A [`session`] is one connection's TLS, without its socket. It holds no buffer while it is idle. [`certificates`] are read
//! and checked before anybody is served with them, and replaced while the server runs. [`tickets`] let clients resume their
//! sessions at any loop and at any process.
//!
//! Sockets, sites and the request path are not here. The only thing that the request path learns is a
//! [`TlsInfo`](flash_core::TlsInfo).

#![forbid(unsafe_code)]

pub mod authority;
pub mod certificates;
pub mod check;
mod client_certificates;
mod compression;
pub mod endpoint;
pub mod endpoints;
pub mod names;
pub mod ocsp;
mod resumption;
mod scratch;
mod self_signed;
pub mod session;
pub mod tickets;
pub mod upstream;

pub use certificates::{Certificate, CertificateFiles, Leaf};
pub use client_certificates::ClientAuthorities;
pub use endpoint::{Choices, Endpoint};
pub use endpoints::Endpoints;
pub use scratch::release as release_scratch;
pub use session::{Event, Session};
