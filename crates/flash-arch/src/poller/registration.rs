//! How a socket is registered with a poller: as edges, for input first, and for room to send once a send has blocked.

use std::io;
use std::os::fd::OwnedFd;

use flash_os::poller::{Interest, Poller};

use crate::poller::Registered;

/// Registers a socket for at least what is needed.
///
/// A registration never shrinks: an edge that no step needs costs a wake-up at most, a change costs a system call.
///
/// # Errors
/// If the kernel refuses the registration. `registered` is then unchanged.
pub(crate) fn register(
    poller: &Poller,
    registered: &mut Registered,
    needed: Registered,
    socket: &OwnedFd,
    token: u64,
) -> io::Result<()> {
    match (*registered, needed) {
        (Registered::No, Registered::Bytes) => poller.add(socket, token, Interest::INPUT.edge())?,
        (Registered::No, Registered::Room) => poller.add(socket, token, Interest::BOTH.edge())?,
        (Registered::Bytes, Registered::Room) => poller.modify(socket, token, Interest::BOTH.edge())?,
        (_, Registered::No) | (Registered::Bytes | Registered::Room, _) => return Ok(()),
    }
    *registered = needed;
    Ok(())
}
