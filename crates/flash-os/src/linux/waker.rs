//! eventfd.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Result;

pub(crate) fn counter() -> Result<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}
