//! The base of the request path's tests: a disk in memory, a clock set by hand, and a driver without sockets. The server
//! contains none of it.

mod checks;
mod disk;
mod driver;
mod h2;
mod random;
mod reply;
mod socket;
mod upstream;

use crate::cache::CacheLimits;

pub(crate) use disk::{Disk, Look};
pub(crate) use driver::{Client, Jobs, Waits, World};
pub(crate) use h2::{Answer, H2Client, raw};
pub(crate) use random::{Random, each_seed};
pub(crate) use reply::{Reply, replies};
pub(crate) use socket::Socket;
pub(crate) use upstream::{BrokenOff, Manner, Program, STDERR, STDOUT, body_of, end_record, record};

/// Room for all that a test requests.
pub(crate) const CACHE_LIMITS: CacheLimits = CacheLimits {
    entries_max: 1000,
    bytes_max: 64 << 20,
    descriptors_max: 1000,
    threads: 1,
    local_caches: 1,
};
