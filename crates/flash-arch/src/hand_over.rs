//! Idle connections that go to the server which takes this one's place. It goes on with them as kept connections.
//!
//! Both servers have an end of a socket. First the successor says how many connections it takes. Then this server sends each idle
//! connection in a message: its descriptor, the time here, and the [state](IdleState) that the processes of mp exchange too. If
//! the successor takes no more, the connections stay here. Which connections are idle, and when, the architectures know.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use flash_core::IdleState;
use flash_os::shared_array::SharedBytes;
use flash_process::ipc::{self, Received};
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::clock::server_us;

/// What a successor says before the number of connections that it takes. One that expects other messages says something else.
const TAKES: &[u8] = b"takes 1: ";
/// How long a successor may take to say that.
const BEGIN_PATIENCE: Duration = Duration::from_secs(5);
/// A server that is replaced soon after it has replaced another one takes connections for so long at least.
pub(crate) const TAKES_AT_LEAST: Duration = Duration::from_secs(5);
/// A successor that reads nothing for so long takes no more.
const FULL_MS_MAX: u64 = 1_000;
/// While a successor has no room, it is tried again after this time.
pub(crate) const RETRY_MS: u64 = 2;
/// How many connections are given between two rounds of other work.
pub(crate) const GIVEN_PER_TURN: usize = 64;

/// The way to a successor.
pub(crate) struct HandOver {
    socket: OwnedFd,
    /// Not 0 once the successor takes no more. The workers of mp see it, too.
    is_over: SharedBytes,
    /// How many more the successor takes.
    left: AtomicUsize,
    /// Until then connections may become idle. Then those that are left get their last responses in time.
    until: Option<Instant>,
    /// Since when it has read nothing, in the server's milliseconds. 0 while it reads.
    full_since_ms: AtomicU64,
}

/// A successor that has not said yet how many connections it takes.
pub(crate) struct Offer {
    socket: OwnedFd,
    /// When the successor has had its time.
    until: Instant,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Yes,
    /// The successor has no room at the moment.
    Later,
    No,
}

impl Offer {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, until: Instant::now() + BEGIN_PATIENCE }
    }

    /// It is over then, also if the successor says nothing.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// What the successor has said: `None` in the result if it takes no connections. Never waits. `drain` is the time in which all
    /// connections leave.
    ///
    /// # Errors
    /// The offer itself, while the successor may still say something.
    pub(crate) fn take(self, drain: Duration) -> Result<Option<HandOver>, Self> {
        let mut buffer = ipc::buffer();
        match ipc::try_receive(&self.socket, &mut buffer) {
            Ok(Received::Message(message)) => Ok(HandOver::of(&message.bytes, self.socket, drain)),
            Ok(Received::Nothing) if Instant::now() < self.until => Err(self),
            Ok(Received::Nothing | Received::Gone) | Err(_) => Ok(None),
        }
    }
}

impl HandOver {
    /// `None` if the successor takes no connections.
    fn of(said: &[u8], socket: OwnedFd, drain: Duration) -> Option<Self> {
        let left = u64::from_ne_bytes(said.strip_prefix(TAKES)?.try_into().ok()?);
        if left == 0 {
            return None;
        }
        let left = AtomicUsize::new(left.try_into().unwrap_or(usize::MAX));
        let is_over = SharedBytes::zeroed(1).ok()?;
        let until = Instant::now().checked_add(drain / 2);
        Some(Self { socket, is_over, left, until, full_since_ms: AtomicU64::new(0) })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over[0].load(Relaxed) != 0 || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Gives the successor an idle connection. Never waits. `now_ms` is the server's time.
    pub(crate) fn give(&self, state: IdleState, socket: impl AsFd, now_ms: u64) -> Given {
        if self.is_over() {
            return self.end();
        }
        let fewer = |left: usize| left.checked_sub(1);
        let Ok(left) = self.left.fetch_update(Relaxed, Relaxed, fewer) else { return self.end() };
        let message = [&now_ms.to_ne_bytes(), state.for_another_server().bytes()].concat();
        match ipc::try_send(&self.socket, &message, &[socket.as_fd()]) {
            Ok(()) => {
                self.full_since_ms.store(0, Relaxed);
                // From now on, responses say that their connections close.
                if left == 1 {
                    self.end();
                }
                Given::Yes
            }
            Err(Errno::AGAIN) => {
                self.left.fetch_add(1, Relaxed);
                let now_ms = now_ms.max(1);
                let since = self.full_since_ms.compare_exchange(0, now_ms, Relaxed, Relaxed).err();
                let is_too_long = since.is_some_and(|since| now_ms.saturating_sub(since) > FULL_MS_MAX);
                if is_too_long { self.end() } else { Given::Later }
            }
            Err(_) => self.end(),
        }
    }

    fn end(&self) -> Given {
        self.is_over[0].store(1, Relaxed);
        Given::No
    }
}

/// Readable when there is something to [take](Offer::take).
impl AsFd for Offer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsFd for HandOver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A connection that was idle in the predecessor.
#[derive(Debug)]
pub(crate) struct IdleConnection {
    pub(crate) socket: OwnedFd,
    /// As this server counts time.
    pub(crate) state: IdleState,
}

/// The way from a predecessor.
pub(crate) struct TakeOver {
    socket: OwnedFd,
    buffer: Box<[u8]>,
    since: Instant,
}

impl TakeOver {
    /// Tells the predecessor that this server takes so many connections.
    ///
    /// # Errors
    /// If the predecessor is gone.
    pub(crate) fn begin(socket: OwnedFd, connections_max: usize) -> io::Result<Self> {
        ipc::try_send(&socket, &[TAKES, &(connections_max as u64).to_ne_bytes()].concat(), &[])?;
        Ok(Self { socket, buffer: ipc::buffer(), since: Instant::now() })
    }

    /// Waits for a connection. `None` after the last one.
    pub(crate) fn next(&mut self) -> Option<IdleConnection> {
        loop {
            let message = ipc::receive(&self.socket, &mut self.buffer).ok()??;
            if let Some(idle) = idle(message) {
                return Some(idle);
            }
        }
    }

    /// A connection that has come, if one has. [`TakeOver::stop`] makes the last one known.
    pub(crate) fn try_next(&mut self) -> io::Result<Option<IdleConnection>> {
        match ipc::try_receive(&self.socket, &mut self.buffer)? {
            Received::Message(message) => Ok(idle(message)),
            Received::Nothing => Ok(None),
            Received::Gone => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    /// Whether the predecessor has had little time to send its connections.
    pub(crate) fn is_new(&self) -> bool {
        self.since.elapsed() < TAKES_AT_LEAST
    }

    /// The predecessor sends no more. What it has sent comes all the same.
    pub(crate) fn stop(&self) {
        stop(&self.socket);
    }
}

impl AsFd for TakeOver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn idle(message: ipc::Message<'_>) -> Option<IdleConnection> {
    let (theirs_ms, state) = message.bytes.split_first_chunk()?;
    let state =
        IdleState::of(state)?.in_time(u64::from_ne_bytes(*theirs_ms), server_us(Instant::now()) / 1000);
    // Without room for its descriptor, the connection closes.
    let socket = message.descriptors.into_iter().next()?;
    Some(IdleConnection { socket, state })
}

pub(crate) fn stop(socket: &OwnedFd) {
    // It fails only if the predecessor is gone.
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use flash_core::record::Peer;
    use flash_core::{Connection, Now, TransportInfo};

    use super::*;
    use crate::{Limits, testing};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn both(connections_max: usize) -> (HandOver, TakeOver) {
        let (ours, theirs) = ipc::pair().unwrap();
        let to = TakeOver::begin(theirs, connections_max).unwrap();
        (begin(ours).ok().expect("it has said so").unwrap(), to)
    }

    fn begin(socket: OwnedFd) -> Result<Option<HandOver>, Offer> {
        Offer::new(socket).take(PATIENCE)
    }

    fn state(peer: Peer, now_ms: u64) -> IdleState {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { connections_max: 1, handshakes_max: 1, drain: Duration::ZERO };
        let shared = testing::shared(folder.path(), limits, 1_000);
        let now = Now::new(now_ms * 1000, 0);
        let settings = &shared.configuration().server.settings;
        Connection::new(TransportInfo::plain(peer), settings, &now).idle_state().unwrap()
    }

    #[test]
    fn a_connection_arrives_with_its_client_and_the_time_that_it_has_left() {
        let (from, mut to) = both(1);
        let peer = Peer::Inet("192.0.2.1:7".parse().unwrap());
        let (socket, _theirs) = UnixStream::pair().unwrap();
        let sent = state(peer, 1 << 40);
        assert_eq!(from.give(sent, &socket, 1 << 40), Given::Yes);
        let idle = to.next().unwrap();
        let left_ms = sent.deadline_ms() - (1 << 40);
        let now_ms = server_us(Instant::now()) / 1000;
        let expected = now_ms.saturating_sub(100) + left_ms..=now_ms + left_ms;
        assert!(expected.contains(&idle.state.deadline_ms()), "{expected:?} {:?}", idle.state);
    }

    #[test]
    fn a_successor_gets_no_more_than_it_takes() {
        let (from, _to) = both(2);
        let (socket, _theirs) = UnixStream::pair().unwrap();
        let state = state(Peer::Unix, 0);
        let give = || (from.give(state, &socket, 0), from.is_over());
        assert_eq!([give(), give(), give()], [(Given::Yes, false), (Given::Yes, true), (Given::No, true)]);
    }

    #[test]
    fn a_successor_that_reads_nothing_is_given_up() {
        let (from, mut to) = both(usize::MAX);
        let (socket, _theirs) = UnixStream::pair().unwrap();
        let state = state(Peer::Unix, 0);
        let fill = |now_ms| {
            std::iter::repeat_with(|| from.give(state, &socket, now_ms)).find(|given| *given != Given::Yes)
        };
        assert_eq!(fill(5), Some(Given::Later));
        assert_eq!(fill(5 + FULL_MS_MAX), Some(Given::Later));
        // It has read something, and so begins anew.
        for _ in 0..100 {
            to.next().unwrap();
        }
        assert_eq!(fill(6 + FULL_MS_MAX), Some(Given::Later));
        assert_eq!(fill(7 + 2 * FULL_MS_MAX), Some(Given::No));
        assert!(from.is_over());
    }

    #[test]
    fn what_was_sent_before_a_stop_arrives_and_nothing_is_sent_after_it() {
        let (from, mut to) = both(10);
        let (socket, _theirs) = UnixStream::pair().unwrap();
        let state = state(Peer::Unix, 0);
        assert_eq!(from.give(state, &socket, 0), Given::Yes);
        to.stop();
        assert_eq!(from.give(state, &socket, 0), Given::No);
        assert!(to.next().is_some() && to.next().is_none());
    }

    #[test]
    fn a_successor_that_says_something_else_or_nothing_takes_none() {
        for said in
            [Some(&b"takes 2: 12345678"[..]), Some(b"takes 1: 1"), Some(b"takes 1: \0\0\0\0\0\0\0\0"), None]
        {
            let (ours, theirs) = ipc::pair().unwrap();
            said.into_iter().for_each(|said| ipc::send(&theirs, said, &[]).unwrap());
            drop(theirs);
            assert!(begin(ours).is_ok_and(|hand_over| hand_over.is_none()), "{said:?}");
        }
    }

    /// Its thread has other work: the parent of mp reaps its workers, and answers administrators.
    #[test]
    fn a_successor_that_says_nothing_yet_is_not_waited_for() {
        let (ours, theirs) = ipc::pair().unwrap();
        let began = Instant::now();
        let offer = begin(ours).err().expect("it may still say something");
        let offer = offer.take(PATIENCE).err().expect("it may still say something");
        assert!(began.elapsed() < BEGIN_PATIENCE / 2);
        let _to = TakeOver::begin(theirs, 1).unwrap();
        assert!(offer.take(PATIENCE).is_ok_and(|hand_over| hand_over.is_some()));
    }

    #[test]
    fn a_successor_that_never_says_anything_takes_none() {
        let (ours, _theirs) = ipc::pair().unwrap();
        let offer = begin(ours).err().expect("it may still say something");
        std::thread::sleep(offer.until().saturating_duration_since(Instant::now()));
        assert!(offer.take(PATIENCE).is_ok_and(|hand_over| hand_over.is_none()));
    }
}
