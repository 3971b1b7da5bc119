//! There are none: `Call::PidfdOpen` is missing, and nobody comes here.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

pub(crate) fn open(_pid: i32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn number_of(_pidfd: BorrowedFd<'_>) -> Option<i32> {
    None
}

pub(crate) fn send_to_group(_leader: BorrowedFd<'_>, _signal: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
