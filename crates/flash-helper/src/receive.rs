//! Receiving a message of an asker, with the descriptor that may come along.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use flash_os::socket::OWN_DESCRIPTORS;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use crate::protocol::{PATH_BYTES_MAX, QUESTION_BYTES};

pub(crate) enum Received {
    Message {
        bytes: usize,
        descriptor: Option<OwnedFd>,
    },
    /// Longer than any question, or with more descriptors than one.
    TooMuch {
        descriptors: Vec<OwnedFd>,
    },
    /// A descriptor came that this process has no room for.
    NoRoom {
        bytes: usize,
        descriptors: Vec<OwnedFd>,
    },
    Nothing,
    /// It has ended, or sent an empty message. Only descriptors tell these apart.
    Gone {
        descriptors: Vec<OwnedFd>,
    },
}

/// A question's length, and a byte more, by which a longer one is known.
pub(crate) const BUFFER_BYTES: usize = QUESTION_BYTES + PATH_BYTES_MAX + 1;
/// One descriptor is allowed. More are received only to be closed. What there is no room for the kernel would close here, which may
/// wait. So there is room for all that a message can have.
const DESCRIPTORS_MAX: usize = 253;

pub(crate) fn receive(from: impl AsFd, buffer: &mut [u8; BUFFER_BYTES]) -> Received {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | OWN_DESCRIPTORS;
    let packet = loop {
        match recvmsg(from.as_fd(), &mut [IoSliceMut::new(buffer)], &mut control, flags) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Received::Nothing,
            Err(_) => return Received::Gone { descriptors: Vec::new() },
            Ok(packet) => break packet,
        }
    };
    let rights = control.drain().filter_map(|ancillary| match ancillary {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let mut descriptors: Vec<OwnedFd> = rights.flatten().collect();
    // With more descriptors than the space holds, the kernel says the same as without room for them.
    let is_cut = packet.flags.contains(ReturnFlags::CTRUNC);
    if packet.bytes == 0 {
        return Received::Gone { descriptors };
    }
    if packet.bytes == BUFFER_BYTES || packet.flags.contains(ReturnFlags::TRUNC) || descriptors.len() > 1 {
        return Received::TooMuch { descriptors };
    }
    match is_cut {
        true => Received::NoRoom { bytes: packet.bytes, descriptors },
        false => Received::Message { bytes: packet.bytes, descriptor: descriptors.pop() },
    }
}
