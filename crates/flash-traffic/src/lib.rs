//! What clients ask for. A [`Workload`] names every file that may be asked for, its [`Catalogue`], and hands out the order
//! of the requests, a [`Sequence`] for each thread of clients. The load generator sends them; the simulator puts prices on
//! them. Who asks and when (clients, pacing, connections) is theirs, and so is everything about sockets.

#![forbid(unsafe_code)]

pub mod content;
mod listed;
pub mod log;
mod mix;
pub mod name;
mod programs;
mod round_robin;
pub mod sample;
mod size_classes;
mod specweb;
mod statistics;
mod synthetic;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod tree;
mod workload;

pub use listed::{ListError, Listed};
pub use mix::{Ingredient, Mix, MixError, Only};
pub use size_classes::SizeClasses;
pub use specweb::dynamic::Dynamic;
pub use specweb::{Sessions, SpecWeb};
pub use statistics::{Moments, TraceStatistics, lru_hits};
pub use synthetic::{References, Shape, ShapeError, Synthetic};
pub use trace::Trace;
pub use trace::replay::{Passes, Replay, Told};
pub use workload::{Ask, Catalogue, File, FileId, Message, Part, Sequence, Workload};
