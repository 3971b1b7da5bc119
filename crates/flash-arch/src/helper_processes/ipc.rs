//! Messages between processes: bytes and descriptors, which arrive together and whole or not at all.
//!
//! What does not fit into one message of a socket goes in memory of its own, sealed, whose descriptor is the message.

use std::borrow::Cow;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use flash_disk::remote::{DESCRIPTORS_MAX, MESSAGE_BYTES_MAX};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

pub(super) struct Message<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    pub(super) descriptors: Vec<OwnedFd>,
    /// This process had no room for all descriptors that came along.
    pub(super) incomplete: bool,
}

/// What one message holds. Sockets take three times as much, unless somebody has told them otherwise.
const PACKET_BYTES_MAX: usize = 64 << 10;
const INLINE: u8 = 0;
const IN_MEMFD: u8 = 1;

/// What a message is received in.
pub(super) fn buffer() -> Box<[u8]> {
    vec![0; 1 + PACKET_BYTES_MAX].into_boxed_slice()
}

pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?)
}

pub(super) fn send(
    to: &OwnedFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    if bytes.len() <= PACKET_BYTES_MAX {
        return Ok(send_packet(to, INLINE, bytes, descriptors, flags)?);
    }
    let memfd = to_memfd(bytes)?;
    let mut descriptors = descriptors.to_vec();
    descriptors.push(memfd.as_fd());
    Ok(send_packet(to, IN_MEMFD, &[], &descriptors, flags)?)
}

pub(super) fn send_packet(
    to: &OwnedFd,
    kind: u8,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX + 1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::MSGSIZE);
    }
    let pieces = [IoSlice::new(std::slice::from_ref(&kind)), IoSlice::new(bytes)];
    loop {
        match rustix::net::sendmsg(to, &pieces, &mut control, flags | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result.map(drop),
        }
    }
}

/// Waits for a message; `None` when the other side is gone.
pub(super) fn receive<'a>(from: &OwnedFd, buffer: &'a mut [u8]) -> io::Result<Option<Message<'a>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let slices = &mut [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(from, slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            result => break result?,
        }
    };
    let mut descriptors = Vec::new();
    for rights in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = rights {
            descriptors.extend(passed);
        }
    }
    let incomplete = message.flags.contains(ReturnFlags::CTRUNC);
    let bytes = match buffer.get(..message.bytes) {
        Some([]) => return Ok(None),
        Some([INLINE, bytes @ ..]) if !message.flags.contains(ReturnFlags::TRUNC) => Cow::Borrowed(bytes),
        Some([IN_MEMFD]) if incomplete => Cow::default(),
        Some([IN_MEMFD]) => Cow::Owned(from_memfd(&descriptors.pop().ok_or(ErrorKind::InvalidData)?)?),
        _ => return Err(ErrorKind::InvalidData.into()),
    };
    Ok(Some(Message { bytes, descriptors, incomplete }))
}

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::WRITE);

fn to_memfd(mut bytes: &[u8]) -> io::Result<OwnedFd> {
    let memory = rustix::fs::memfd_create(c"flash-message", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&memory, bytes))?;
        bytes = &bytes[written..];
    }
    rustix::fs::fcntl_add_seals(&memory, SEALS)?;
    Ok(memory)
}

fn from_memfd(memory: &OwnedFd) -> io::Result<Vec<u8>> {
    // Only memory has seals: whoever sends a file or a pipe here would make us wait for it.
    let sealed = rustix::fs::fcntl_get_seals(memory).is_ok_and(|seals| seals.contains(SEALS));
    let size = usize::try_from(rustix::fs::fstat(memory)?.st_size).unwrap_or(usize::MAX);
    if !sealed || size > MESSAGE_BYTES_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; size];
    let mut filled = 0;
    while filled < size {
        let rest = &mut bytes[filled..];
        match rustix::io::retry_on_intr(|| rustix::io::pread(memory, &mut *rest, filled as u64))? {
            0 => return Err(ErrorKind::InvalidData.into()),
            count => filled += count,
        }
    }
    Ok(bytes)
}
