//! The request path: bytes in, wants out.
//!
//! A [`connection`] is a state machine that makes no system call, reads no clock and cannot block. It returns what it needs
//! as a [`want`]; a driver in `flash-arch` performs that. Work that may wait for a disk is a [`job`], which `flash-disk`
//! executes. There is no socket, no thread and no file name resolution here.

#![forbid(unsafe_code)]

pub mod access;
pub mod background_work;
pub mod buffer_pool;
pub mod cache;
pub mod clients;
pub mod clock;
pub mod compressed;
pub mod compression;
pub mod configuration_number;
pub mod connection;
pub mod context;
pub mod counters;
mod deadline;
pub mod digest;
pub mod entry;
mod evictable;
mod exchange;
mod exchange_id;
pub mod experiments;
mod failure;
pub mod fallback;
pub mod file;
pub mod forwarded;
pub mod header;
mod held_site;
pub mod hosts;
mod idle_state;
pub mod job;
pub mod listing;
pub mod listing_cache;
pub mod local;
pub mod login;
pub mod media_types;
pub mod memory_budget;
pub mod methods;
pub mod network;
pub mod output;
pub mod page;
pub mod path;
pub mod path_rules;
pub mod places;
pub mod printable;
mod protocol;
pub mod proxy_header;
pub mod record;
pub mod redirect;
pub mod refusal;
pub mod request_id;
pub mod root;
pub mod routes;
pub mod send_credit;
pub mod server;
pub mod site;
pub mod site_id;
pub mod stamp;
mod tally;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod transport;
pub mod upstream;
pub mod validators;
pub mod want;

pub use clock::Now;
pub use connection::Connection;
pub use context::{Context, Drain, Tally, UpstreamError};
pub use evictable::Evictable;
pub use exchange_id::ExchangeId;
pub use idle_state::IdleState;
pub use server::Server;
pub use site::Site;
pub use transport::{TlsInfo, TransportInfo};
pub use upstream::Release;
pub use want::{Direction, Interest, Want};
