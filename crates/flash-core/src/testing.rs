//! The base of the request path's tests: a disk in memory, a clock set by hand, and a driver without sockets. The server
//! contains none of it.

mod checks;
mod disk;
mod driver;
mod h2;
mod random;
mod reply;
mod upstream;

pub(crate) use disk::{Disk, Look};
pub(crate) use driver::{Client, Jobs, Socket, Waits, World};
pub(crate) use h2::{Answer, H2Client, raw};
pub(crate) use random::{Random, each_seed};
pub(crate) use reply::{Reply, replies};
pub(crate) use upstream::{BrokenOff, Manner, Program, STDERR, STDOUT, body_of, end_record, record};
