//! IPC between the server and its fork helper: SEQPACKET messages of bytes and descriptors, which arrive together and
//! whole.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// No socket takes more in one piece, unless its system was told otherwise.
pub(crate) const MESSAGE_BYTES_MAX: usize = 200 << 10;
pub(crate) const DESCRIPTORS_MAX: usize = 16;

pub(crate) enum Received<'a> {
    Message {
        bytes: &'a [u8],
        descriptors: Vec<OwnedFd>,
    },
    /// There was no room in this process for the descriptors that came with it.
    Incomplete {
        bytes: &'a [u8],
    },
    Nothing,
    /// The peer has closed the socket.
    Gone,
}

pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?)
}

/// What messages are received in.
pub(crate) fn buffer() -> Box<[u8]> {
    vec![0; MESSAGE_BYTES_MAX].into_boxed_slice()
}

/// Sends a message without waiting for room.
pub(crate) fn send(to: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(Errno::MSGSIZE);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::MSGSIZE);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(to.as_fd(), &[IoSlice::new(bytes)], &mut control, flags)
    });
    match sent {
        // So many descriptors are on their way that it has to wait until some have arrived.
        Err(Errno::TOOMANYREFS) => Err(Errno::AGAIN),
        sent => sent.map(drop),
    }
}

/// Receives a message, if there is one.
pub(crate) fn receive(from: impl AsFd, buffer: &mut [u8]) -> Result<Received<'_>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = loop {
        match rustix::net::recvmsg(from.as_fd(), &mut [IoSliceMut::new(buffer)], &mut control, flags) {
            // The peer went without having read everything: the kernel reports that once, before what the peer had
            // sent.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            received => break received?,
        }
    };
    let rights = control.drain().filter_map(|ancillary| match ancillary {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let descriptors = rights.flatten().collect();
    let bytes = buffer.get(..message.bytes).unwrap_or_default();
    Ok(match () {
        // No message of ours is empty.
        () if bytes.is_empty() => Received::Gone,
        () if message.flags.contains(ReturnFlags::CTRUNC) => Received::Incomplete { bytes },
        () => Received::Message { bytes, descriptors },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_arrives_though_the_sender_has_gone_without_reading() {
        let (ours, theirs) = pair().unwrap();
        send(&ours, b"never read", &[]).unwrap();
        send(&theirs, b"last words", &[std::io::stdin().as_fd()]).unwrap();
        drop(theirs);
        let mut buffer = buffer();
        let received = receive(&ours, &mut buffer).unwrap();
        assert!(
            matches!(received, Received::Message { bytes: b"last words", descriptors } if descriptors.len() == 1)
        );
        assert!(matches!(receive(&ours, &mut buffer), Ok(Received::Gone)));
    }
}
