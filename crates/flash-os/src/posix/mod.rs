//! What takes the place of calls that a system does not have, in the words of POSIX.

pub(crate) mod child_ends;
#[cfg(not(target_vendor = "apple"))]
pub(crate) mod cpu_clock;
pub(crate) mod descriptor_range;
#[cfg(not(target_vendor = "apple"))]
pub(crate) mod file_hints;
pub(crate) mod file_stat;
pub(crate) mod poller;
pub(crate) mod socket;
pub(crate) mod walk;
