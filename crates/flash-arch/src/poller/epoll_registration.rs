//! How a socket is registered with an epoll: as edges, for input first, and for room to send once a send has blocked.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::poller::Registered;

const INPUT: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// Registers a socket for at least what is needed.
///
/// A registration never shrinks: an edge that no step needs costs a wake-up at most, a change costs a system call.
///
/// # Errors
/// If the kernel refuses the registration. `registered` is then unchanged.
pub(crate) fn register(
    epoll: &OwnedFd,
    registered: &mut Registered,
    needed: Registered,
    socket: &OwnedFd,
    token: u64,
) -> io::Result<()> {
    let data = EventData::new_u64(token);
    match (*registered, needed) {
        (Registered::No, Registered::Bytes) => epoll::add(epoll, socket, data, INPUT)?,
        (Registered::No, Registered::Room) => epoll::add(epoll, socket, data, INPUT | EventFlags::OUT)?,
        (Registered::Bytes, Registered::Room) => {
            epoll::modify(epoll, socket, data, INPUT | EventFlags::OUT)?;
        }
        (_, Registered::No) | (Registered::Bytes | Registered::Room, _) => return Ok(()),
    }
    *registered = needed;
    Ok(())
}
