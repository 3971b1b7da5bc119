//! IPC between processes of one server: SEQPACKET messages of bytes and descriptors, which arrive together and whole or
//! not at all.
//!
//! A message that does not fit into a packet goes in memory of its own, sealed, whose descriptor is in the packet. What
//! messages say is not known here: each pair of processes has its own protocol on top.

use std::borrow::Cow;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use flash_os::memory_file;
use flash_os::socket::{NO_SIGNAL, OWN_DESCRIPTORS};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType,
};

#[derive(Debug)]
pub struct Message<'a> {
    pub bytes: Cow<'a, [u8]>,
    pub descriptors: Vec<OwnedFd>,
    /// This process had no room for all descriptors that came along.
    pub is_incomplete: bool,
}

#[derive(Debug)]
pub enum Received<'a> {
    Message(Message<'a>),
    Nothing,
    /// The peer has closed the socket.
    Gone,
}

/// The longest message. A small file with a compressed copy of it in each coding needs that much, and so does a configuration of
/// 40,000 sites.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Descriptors that a message may have: the pidfds of programs that start at the same time are the most.
pub const DESCRIPTORS_MAX: usize = 16;
/// The longest message in a packet. Sockets take three times as much, unless their system was told otherwise.
pub const PACKET_BYTES_MAX: usize = 64 << 10;
/// What a packet's first byte says.
const INLINE: u8 = 0;
const IN_MEMFD: u8 = 1;
/// A packet's descriptors: the message's, and its memory.
const ANCILLARY_BYTES: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX + 1));

/// The two ends of a connection.
///
/// # Errors
/// When the process cannot have two descriptors more.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(flash_os::socket::pair(SocketType::SEQPACKET)?)
}

/// What messages are received in.
#[must_use]
pub fn buffer() -> Box<[u8]> {
    vec![0; 1 + PACKET_BYTES_MAX].into_boxed_slice()
}

/// Sends a message, and waits for room if there is none.
///
/// # Errors
/// EPIPE and ECONNRESET if the peer has closed the socket, EMSGSIZE if the message is too long. Others pass.
pub fn send(to: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    send_message(to.as_fd(), bytes, descriptors, SendFlags::empty())
}

/// Sends a message, unless it had to wait for room.
///
/// # Errors
/// EAGAIN if there is no room; as [`send`] does otherwise.
pub fn try_send(to: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    match send_message(to.as_fd(), bytes, descriptors, SendFlags::DONTWAIT) {
        // So many descriptors are on their way that it has to wait until some have arrived.
        Err(Errno::TOOMANYREFS) => Err(Errno::AGAIN),
        sent => sent,
    }
}

fn send_message(
    to: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    if bytes.len() > MESSAGE_BYTES_MAX || descriptors.len() > DESCRIPTORS_MAX {
        return Err(Errno::MSGSIZE);
    }
    if bytes.len() <= PACKET_BYTES_MAX {
        return send_packet(to, INLINE, bytes, descriptors, flags);
    }
    let memory = memory_file::of("flash-message", bytes)?;
    let descriptors = [descriptors, &[memory.as_fd()]].concat();
    send_packet(to, IN_MEMFD, &[], &descriptors, flags)
}

fn send_packet(
    to: BorrowedFd<'_>,
    kind: u8,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::MSGSIZE);
    }
    let pieces = [IoSlice::new(std::slice::from_ref(&kind)), IoSlice::new(bytes)];
    let flags = flags | NO_SIGNAL;
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(to, &pieces, &mut control, flags)).map(drop)
}

/// Waits for a message. `None` if the peer has closed the socket.
///
/// # Errors
/// InvalidData if this is no message. Others pass.
pub fn receive(from: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<Message<'_>>> {
    match receive_message(from.as_fd(), buffer, RecvFlags::empty())? {
        Received::Message(message) => Ok(Some(message)),
        Received::Gone => Ok(None),
        Received::Nothing => Err(ErrorKind::WouldBlock.into()),
    }
}

/// Receives a message, if there is one.
///
/// # Errors
/// As [`receive`].
pub fn try_receive(from: impl AsFd, buffer: &mut [u8]) -> io::Result<Received<'_>> {
    receive_message(from.as_fd(), buffer, RecvFlags::DONTWAIT)
}

/// Whether the peer is there and has sent nothing that was not received.
pub fn is_idle(socket: impl AsFd) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    rustix::net::recv(socket, &mut [0; 1][..], flags).is_err_and(|error| error == Errno::AGAIN)
}

fn receive_message<'b>(
    from: BorrowedFd<'_>,
    buffer: &'b mut [u8],
    flags: RecvFlags,
) -> io::Result<Received<'b>> {
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | OWN_DESCRIPTORS;
    let packet = loop {
        match rustix::net::recvmsg(from, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
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
    let mut descriptors: Vec<OwnedFd> = rights.flatten().collect();
    let is_incomplete = packet.flags.contains(ReturnFlags::CTRUNC);
    let bytes = match buffer.get(..packet.bytes) {
        // No packet of ours is empty.
        Some([]) => return Ok(Received::Gone),
        Some([INLINE, bytes @ ..]) if !packet.flags.contains(ReturnFlags::TRUNC) => Cow::Borrowed(bytes),
        Some([IN_MEMFD]) if is_incomplete => Cow::default(),
        Some([IN_MEMFD]) => Cow::Owned(from_memory(&descriptors.pop().ok_or(ErrorKind::InvalidData)?)?),
        _ => return Err(ErrorKind::InvalidData.into()),
    };
    Ok(Received::Message(Message { bytes, descriptors, is_incomplete }))
}

pub(crate) fn from_memory(memory: &OwnedFd) -> io::Result<Vec<u8>> {
    // A peer that sends a pipe, or a file of its own, would make this process wait for it.
    let sealed = memory_file::is_sealed(memory);
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn what_was_sent_arrives_though_the_sender_has_gone_without_reading() {
        let (ours, theirs) = pair().unwrap();
        try_send(&ours, b"never read", &[]).unwrap();
        try_send(&theirs, b"last words", &[std::io::stdin().as_fd()]).unwrap();
        drop(theirs);
        let mut buffer = buffer();
        let Ok(Received::Message(message)) = try_receive(&ours, &mut buffer) else { panic!("no message") };
        assert!(message.bytes[..] == *b"last words" && message.descriptors.len() == 1);
        assert!(matches!(try_receive(&ours, &mut buffer), Ok(Received::Gone)));
    }

    #[test]
    fn long_messages_arrive_whole_with_their_descriptors() {
        let (one, other) = pair().unwrap();
        for size in [0, 1, 65_535, 65_536, 65_537, 1 << 20] {
            let bytes: Vec<u8> = (0..size).map(|at| (at ^ (at >> 8)) as u8).collect();
            send(&one, &bytes, &[one.as_fd()]).unwrap();
            let mut buffer = buffer();
            let message = receive(&other, &mut buffer).unwrap().unwrap();
            assert!(
                *message.bytes == *bytes && message.descriptors.len() == 1 && !message.is_incomplete,
                "{size} bytes"
            );
        }
        assert!(is_idle(&other) && matches!(try_receive(&other, &mut buffer()), Ok(Received::Nothing)));
        drop(one);
        assert!(!is_idle(&other));
        assert!(receive(&other, &mut buffer()).unwrap().is_none(), "that was the last");
    }

    #[test]
    fn what_is_too_much_for_a_message_is_refused_by_the_sender() {
        let (one, other) = pair().unwrap();
        assert_eq!(send(&one, &vec![0; MESSAGE_BYTES_MAX + 1], &[]), Err(Errno::MSGSIZE));
        assert_eq!(send(&one, b"x", &[one.as_fd(); DESCRIPTORS_MAX + 1]), Err(Errno::MSGSIZE));
        let most = [one.as_fd(); DESCRIPTORS_MAX];
        send(&one, &[0; PACKET_BYTES_MAX + 1], &most).unwrap();
        let mut buffer = buffer();
        let message = receive(&other, &mut buffer).unwrap().unwrap();
        assert_eq!((message.bytes.len(), message.descriptors.len()), (PACKET_BYTES_MAX + 1, DESCRIPTORS_MAX));
    }

    #[test]
    fn a_full_socket_is_said_or_waited_for() {
        let (one, other) = pair().unwrap();
        let mut count = 0;
        while try_send(&one, &[7; 1000], &[]).is_ok() {
            count += 1;
        }
        assert_eq!(try_send(&one, &[7; 1000], &[]), Err(Errno::AGAIN));
        std::thread::scope(|scope| {
            scope.spawn(|| send(&one, b"last", &[]).unwrap());
            let mut buffer = buffer();
            for _ in 0..count {
                assert_eq!(receive(&other, &mut buffer).unwrap().unwrap().bytes.len(), 1000);
            }
            assert_eq!(*receive(&other, &mut buffer).unwrap().unwrap().bytes, *b"last");
        });
    }

    #[test]
    fn messages_of_other_kinds_are_not_read() {
        let file = File::open("/proc/self/exe").unwrap();
        // In a file, which may be on a disk that does not answer; in nothing; of no kind at all.
        for (bytes, descriptors) in [(&[1][..], vec![file.as_fd()]), (&[1], vec![]), (&[7, 7], vec![])] {
            let (one, other) = pair().unwrap();
            send_packet(one.as_fd(), bytes[0], &bytes[1..], &descriptors, SendFlags::empty()).unwrap();
            assert!(receive(&other, &mut buffer()).is_err(), "{bytes:?}");
        }
    }
}
