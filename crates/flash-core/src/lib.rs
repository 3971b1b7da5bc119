//! The request path: bytes in, wants out.
//!
//! A [`connection`] is a state machine that makes no system call, reads no clock and cannot block. It returns what it needs
//! as a [`connection::want`]; a driver in `flash-arch` performs that. Work that may wait for a disk is a [`job`], which `flash-disk`
//! executes. There is no socket, no thread and no file name resolution here.

#![forbid(unsafe_code)]

pub mod cache;
pub mod challenges;
pub mod clients;
pub mod clock;
pub mod connection;
mod exchange;
pub mod experiments;
pub mod file;
pub mod job;
pub mod listing;
pub mod path;
pub mod printable;
mod protocol;
pub mod record;
pub mod server;
pub mod site;
pub mod size;
#[cfg(test)]
mod testing;
pub mod upstream;

pub use clock::Now;
pub use connection::Connection;
pub use connection::context::{Context, Drain, Tally, UpstreamError};
pub use connection::evictable::Evictable;
pub use connection::idle_state::IdleState;
pub use connection::transport::{TlsInfo, TransportInfo};
pub use connection::want::{Direction, Interest, Want};
pub use exchange::id::ExchangeId;
pub use server::Server;
pub use site::Site;
pub use upstream::Release;
