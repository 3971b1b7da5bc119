//! What clients ask for. A [`Workload`] names every file that may be asked for, its [`Catalogue`], and hands out the order
//! of the requests, a [`Sequence`] for each thread of clients. The load generator sends them; the simulator puts prices on
//! them. Who asks and when (clients, pacing, connections) is theirs, and so is everything about sockets.

#![forbid(unsafe_code)]

pub mod log;
pub mod name;
pub mod sample;
mod statistics;
pub mod trace;
mod workload;

pub use statistics::{Moments, TraceStatistics, lru_hits};
pub use trace::Trace;
pub use workload::{Ask, Catalogue, File, FileId, Part, Sequence, Workload};
