//! What was measured, as it lies on the disk: `DIR/PLAN/run.json` says under what circumstances, `DIR/PLAN/raw.jsonl`
//! holds a line for each measurement. Lines are added and synced one by one and never changed, so that a run that was
//! interrupted goes on where it stopped.
//!
//! Nothing is averaged here; [`Data`](crate::data::Data) does that when it is looked at.

mod names;
mod run;
mod store;

pub use self::names::{Better, Described, describe};
pub use self::run::{Figures, Machine, Measured, Measurement, Missing, Outcome, Run};
pub use self::store::{RecordError, Store};
