//! What is Linux's own.

pub(crate) mod cachestat;
pub(crate) mod child_ends;
pub(crate) mod cpu_clock;
pub(crate) mod descriptor;
pub(crate) mod descriptor_range;
pub(crate) mod file_hints;
pub(crate) mod file_stat;
pub(crate) mod folder_entries;
pub(crate) mod memory_file;
pub(crate) mod mounts;
pub mod namespace;
pub mod perf_event;
pub(crate) mod pidfd;
#[cfg(not(all(test, feature = "libkqueue")))]
pub(crate) mod poller;
pub(crate) mod preload;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod read_at;
pub(crate) mod ring;
pub(crate) mod sandbox;
pub(crate) mod sched;
pub(crate) mod semaphore;
pub(crate) mod send_file;
pub(crate) mod socket;
pub(crate) mod tcp;
pub(crate) mod user;
pub(crate) mod vfork;
pub(crate) mod waker;
pub(crate) mod walk;
