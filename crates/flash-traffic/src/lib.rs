//! What clients request. A [`Workload`] names every file that clients may request, its [`Catalogue`]. It gives each thread of
//! clients the order of its requests, a [`Sequence`]. The load generator sends the requests, and the simulator computes their
//! costs. Clients, pacing, connections and sockets are not in this crate.

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
