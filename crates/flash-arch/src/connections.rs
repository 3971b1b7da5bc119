//! Connections: where they arrive, who gives way, and what carries their bytes.

pub(crate) mod acceptor;
pub(crate) mod admission;
pub(crate) mod gates;
pub mod listener;
pub(crate) mod loop_threads;
pub(crate) mod parked;
pub(crate) mod permit;
pub(crate) mod socket;
pub(crate) mod transport;
pub(crate) mod victims;
