//! Certificates from an authority, by ACME (RFC 8555): which are asked for when, in a process of its own.
//!
//! The server opens no connection and writes no key. It tells by a [`Board`] in shared memory which certificates it wants. The
//! [process](run) asks the authority for them, and keeps them in a [folder](Store) from which the server reads them. What the authority
//! asks meanwhile stands on the board, and the server's loops answer it.
//!
//! Several servers may have one folder. The one that holds its [lease](lease) asks for all, and the others show what it was asked.

#![forbid(unsafe_code)]

mod account;
mod asker;
mod begun;
mod board;
mod challenge;
mod clock;
mod hook;
mod http_client;
mod issued;
mod lease;
mod order;
mod process;
mod refusal;
mod renewal;
mod schedule;
mod settings;
mod staple;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod wanted;

pub use board::Board;
pub use clock::{Clock, unix_seconds};
pub use process::{Process, Sandbox, check, revoke, run};
pub use settings::{KeyKind, Settings};
pub use state::{Staple, State};
pub use store::{Store, file_of};
