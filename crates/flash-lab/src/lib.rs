//! The laboratory: experiments as plans, run beside today's servers, with raw data, findings and a report.
//!
//! [`plan`] says what is done, [`record`] what came of it, [`data`] and [`finding`] what that means. Servers are
//! processes, ours included; what starts and limits them is `flash-rig`, what loads them is `flash-load`.

#![forbid(unsafe_code)]

pub mod bench;
pub mod data;
pub mod environment;
pub mod experiment;
pub mod export;
pub mod finding;
#[cfg(test)]
mod fixtures;
pub mod plan;
pub mod progress;
pub mod record;
pub mod report;
pub mod run;
pub mod schedule;
