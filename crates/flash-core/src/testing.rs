//! What the tests of the request path stand on: a disk in memory, a clock turned by hand, and a driver that performs
//! wants without a socket. None of it is in the server.

mod disk;
mod driver;
mod random;
mod reply;
mod upstream;

pub(crate) use disk::{Disk, Look};
pub(crate) use driver::{Client, Jobs, Socket, Waits, World};
pub(crate) use random::{Random, each_seed};
pub(crate) use reply::{Reply, replies};
pub(crate) use upstream::{BrokenOff, Manner, Program, STDERR, STDOUT, body_of, end_record, record};
