//! What the simulated clients ask for: the paper's six traces, synthesised, and logs of real sites. All of them are
//! [`flash_traffic::Workload`]s, so that the simulator cannot tell them apart; beside the order of requests it needs only the
//! state in which caches are found warm.

mod synthetic;
mod trace;

pub(crate) use synthetic::{Synthetic, SyntheticError, SyntheticFiles};
pub(crate) use trace::{PAPER_TRACES, PaperTrace};
