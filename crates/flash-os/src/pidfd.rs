//! Processes by descriptors (pidfd_open(2)): a name for a process that is never another one's, whoever has it.
//!
//! Where there are none, a process is known by its number, and to its parent alone: the number is its own until the parent has waited
//! for it, and no other process waits. Nobody else sends it signals, and it is not handed on.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::system;
use crate::system_calls::{Call, has};

/// Whether children that are [spawned](crate::spawn) have such descriptors.
pub fn are_there() -> bool {
    has(Call::PidfdOpen)
}

/// The number of the process, until it was waited for.
pub fn number_of(pidfd: BorrowedFd<'_>) -> Option<i32> {
    system::pidfd::number_of(pidfd)
}

/// Sends a signal to the process group that this process leads or has led. A process with the same number is never meant.
///
/// # Errors
/// InvalidInput before Linux 6.9. Otherwise as kill(2) fails.
pub fn send_to_group(leader: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    system::pidfd::send_to_group(leader, signal)
}

/// The descriptor of this process, if there are any.
///
/// # Errors
/// If the process cannot have a descriptor more.
pub fn of_this_process() -> io::Result<Option<OwnedFd>> {
    of_child(rustix::process::getpid().as_raw_pid())
}

/// The descriptor of a child that nobody has waited for, if there are any.
pub(crate) fn of_child(pid: i32) -> io::Result<Option<OwnedFd>> {
    are_there().then(|| system::pidfd::open(pid)).transpose()
}
