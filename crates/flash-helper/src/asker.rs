//! An asker: its connection, what it has asked, and the answers that it has not taken yet.
//!
//! An answer is sent at once if the socket has room, and waits otherwise. While many answers wait, no question is read, so
//! an asker that takes nothing stops only itself. Which answers there are is not known here.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use flash_os::poller::Interest;
use flash_os::socket::NO_SIGNAL;
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::answer::Outgoing;
use crate::closing::Closing;
use crate::settings::Quotas;

#[derive(Debug)]
pub(crate) struct Asker {
    socket: OwnedFd,
    /// No other asker has this number, now or later.
    pub(crate) number: u64,
    pub(crate) process: i32,
    pub(crate) closing: Arc<Closing>,
    /// Questions without an answer.
    pub(crate) questions: usize,
    /// Descriptors that came with these.
    pub(crate) descriptors: usize,
    /// Bytes of memory that are read for these.
    pub(crate) bytes: u64,
    waiting: VecDeque<Outgoing>,
    /// Since when the first answer waits, in the server's milliseconds.
    stalled_ms: Option<u64>,
    /// The descriptors on their way are too many for the kernel, which tells nobody when there are fewer.
    pub(crate) retries: bool,
    /// No more is read of it. It is disconnected when its answers are sent.
    pub(crate) is_leaving: bool,
    /// What the loop waits for on its connection.
    pub(crate) watched: Interest,
}

/// While so many answers wait, no question is read.
const WAITING_MAX: usize = 256;

/// Bytes of answers in the socket, with what the kernel adds to each: some 20 answers. Their descriptors count as those on their way,
/// of which all askers of a user together have some thousand.
const UNREAD_BYTES: usize = 16 << 10;

/// The connection has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl Asker {
    pub(crate) fn new(socket: OwnedFd, number: u64, process: i32, closing: Arc<Closing>) -> Self {
        // What it does not take has to wait here, where it counts.
        let _ = set_socket_send_buffer_size(&socket, UNREAD_BYTES);
        Self {
            socket,
            number,
            process,
            closing,
            questions: 0,
            descriptors: 0,
            bytes: 0,
            waiting: VecDeque::new(),
            stalled_ms: None,
            retries: false,
            is_leaving: false,
            watched: Interest::INPUT,
        }
    }

    /// Whether its quotas allow another question, with so many descriptors and bytes.
    pub(crate) fn may_ask(&self, quotas: &Quotas, descriptors: usize, bytes: u64) -> bool {
        let held = |outgoing: &&Outgoing| outgoing.attached.descriptor().is_some();
        let waiting = self.waiting.iter().filter(held).count();
        self.questions < quotas.questions_max
            && self.descriptors + waiting + descriptors <= quotas.descriptors_max
            && self.may_hold(quotas, bytes)
    }

    /// Whether its quotas allow so much more memory.
    pub(crate) fn may_hold(&self, quotas: &Quotas, bytes: u64) -> bool {
        let waiting: u64 = self.waiting.iter().map(|outgoing| outgoing.memory_bytes).sum();
        self.bytes + waiting + bytes <= quotas.bytes_max
    }

    pub(crate) fn may_be_read(&self) -> bool {
        !self.is_leaving && self.waiting.len() < WAITING_MAX
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether an answer has waited since before that time.
    pub(crate) fn is_stalled_since(&self, before_ms: u64) -> bool {
        self.stalled_ms.is_some_and(|since| since < before_ms)
    }

    pub(crate) fn send(&mut self, outgoing: Outgoing, now_ms: u64) -> Result<(), Gone> {
        self.waiting.push_back(outgoing);
        if self.waiting.len() == 1 { self.flush(now_ms) } else { Ok(()) }
    }

    /// Sends as many answers as there is room for.
    pub(crate) fn flush(&mut self, now_ms: u64) -> Result<(), Gone> {
        self.retries = false;
        let mut has_sent = false;
        while let Some(next) = self.waiting.front() {
            match send(self.socket.as_fd(), next) {
                Ok(()) => {
                    self.waiting.pop_front();
                    has_sent = true;
                }
                Err(Errno::AGAIN) => break,
                // As many as this user may have on their way are unread, perhaps by others.
                Err(Errno::TOOMANYREFS) => {
                    self.retries = true;
                    break;
                }
                Err(_) => return Err(Gone),
            }
        }
        // What others have not taken is no fault of this one.
        self.stalled_ms = match (self.waiting.is_empty() || self.retries, has_sent) {
            (true, _) => None,
            (false, true) => Some(now_ms),
            (false, false) => Some(self.stalled_ms.unwrap_or(now_ms)),
        };
        Ok(())
    }
}

fn send(to: BorrowedFd<'_>, Outgoing { bytes, attached, .. }: &Outgoing) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptor = attached.descriptor().map(|descriptor| [descriptor]);
    if let Some(descriptor) = &descriptor {
        control.push(SendAncillaryMessage::ScmRights(descriptor));
    }
    let flags = SendFlags::DONTWAIT | NO_SIGNAL;
    rustix::io::retry_on_intr(|| sendmsg(to, &[IoSlice::new(bytes)], &mut control, flags)).map(drop)
}

impl From<Asker> for OwnedFd {
    fn from(asker: Asker) -> Self {
        asker.socket
    }
}

impl AsFd for Asker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (Asker, OwnedFd) {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (Asker::new(ours, 1, 2, Closing::start().unwrap().into()), theirs)
    }

    fn outgoing(memory_bytes: u64) -> Outgoing {
        Outgoing { memory_bytes, ..Outgoing::message(vec![7; 1000]) }
    }

    #[test]
    fn an_asker_that_takes_nothing_is_read_no_more_and_counts_as_stalled() {
        let (mut asker, theirs) = pair();
        for _ in 0..2000 {
            assert_eq!(asker.send(outgoing(1), 5), Ok(()));
        }
        assert!(asker.has_waiting() && !asker.may_be_read());
        assert!(
            asker.waiting.len() > 1950,
            "{} answers are sent and count nowhere",
            2000 - asker.waiting.len()
        );
        assert!(asker.is_stalled_since(6) && !asker.is_stalled_since(5));
        let quotas = Quotas { questions_max: 9, descriptors_max: 9, bytes_max: 10 };
        assert!(!asker.may_ask(&quotas, 0, 0), "the memory of its answers counts");
        let mut taken = 0;
        while asker.has_waiting() {
            rustix::net::recv(&theirs, &mut [0; 2000][..], rustix::net::RecvFlags::empty()).unwrap();
            taken += 1;
            assert_eq!(asker.flush(9), Ok(()));
        }
        assert!(taken > 100 && !asker.is_stalled_since(u64::MAX) && asker.may_be_read());
        drop(theirs);
        assert_eq!(asker.send(outgoing(0), 9), Err(Gone));
    }

    #[test]
    fn each_quota_counts() {
        let (mut asker, _theirs) = pair();
        let quotas = Quotas { questions_max: 2, descriptors_max: 2, bytes_max: 100 };
        assert!(asker.may_ask(&quotas, 1, 100) && !asker.may_ask(&quotas, 0, 101));
        assert!(asker.may_ask(&quotas, 2, 0) && !asker.may_ask(&quotas, 3, 0));
        (asker.questions, asker.descriptors, asker.bytes) = (1, 1, 60);
        assert!(asker.may_ask(&quotas, 1, 40) && !asker.may_ask(&quotas, 2, 0));
        assert!(!asker.may_ask(&quotas, 0, 41));
        asker.questions = 2;
        assert!(!asker.may_ask(&quotas, 0, 0));
    }
}
