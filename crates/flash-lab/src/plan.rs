//! A plan: one experiment of the papers, or of our own, as data. It names the servers, their requests, the machine, the
//! parameter that varies, and the figures. It states what the paper found, as checks that the data must decide.
//!
//! Plans are TOML files in `plans/`, built into the program; others are given by their path. A plan says nothing of how
//! a server is configured (`flash-rig` knows that) nor of how a page looks (`report` does).

mod at;
mod check;
mod contents;
mod drawing;
mod load;
mod measurable;
mod read;
mod reduced;
mod workload;

pub use self::at::{At, Extent};
pub use self::check::{Bounds, Check, Finding, Pick, Term};
pub(crate) use self::contents::SETTLE;
pub use self::contents::{Axis, Case, MachineNeeds, Paper, Plan, Quick, ServerEntry, Sweep, Variant};
pub use self::drawing::{Drawing, Kind, PaperSeries, Scale};
pub use self::load::{Conform, Connections, Load, Protocol, Waiters};
pub use self::read::{BuiltIn, PlanError, built_in, find};
pub use self::workload::{Ask, Dynamic, Log, Workload};
