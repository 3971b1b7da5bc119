//! What tests of workloads have in common.

use crate::workload::{Ask, Part, Workload};

/// The first requests of a part, with seed 7.
pub(crate) fn asks(workload: &dyn Workload, part: Part, count: usize) -> Vec<Ask> {
    let mut sequence = workload.sequence(part, 7);
    std::iter::from_fn(|| sequence.next()).take(count).collect()
}

/// What these ask for.
pub(crate) fn targets(workload: &dyn Workload, part: Part, count: usize) -> Vec<String> {
    let files = &workload.catalogue().files;
    asks(workload, part, count).iter().map(|ask| files[ask.file as usize].target.to_string()).collect()
}
