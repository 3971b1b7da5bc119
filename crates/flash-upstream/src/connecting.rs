//! A connection to a server that may take time. If an address of its name does not answer for a moment, the next one is tried beside it, and
//! the first connection serves (RFC 8305).

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flash_os::poller::Interest;
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::address::{Address, Dialed, connect_result};
use crate::background::{Command, CommandChannel, PendingIo};
use crate::connector;

/// Takes the connection, or why there is none: `CANCELED` when the background thread ends, `AGAIN` when a listen queue was full or the
/// connector was killed.
pub(crate) type OnConnected = Box<dyn FnOnce(Result<OwnedFd, Errno>) + Send>;

/// What became of an attempt to connect.
pub(crate) enum Attempt {
    Done(Result<OwnedFd, Errno>),
    InProgress(InProgress),
    /// The [connector](crate::connector) connects.
    Asked(OwnedFd),
    /// The listen queue of a Unix socket is full.
    Full,
}

/// A connection to one of the addresses that the kernel has begun.
pub(crate) struct InProgress {
    address: Arc<Address>,
    which: usize,
    stream: OwnedFd,
}

/// Connections to the addresses of one name, of which one is wanted.
struct Race {
    address: Arc<Address>,
    background: Arc<CommandChannel>,
    until: Instant,
    state: Mutex<RaceState>,
}

struct RaceState {
    /// The address that is tried next.
    next: usize,
    under_way: Vec<Arc<OwnedFd>>,
    /// `None` once it has been called.
    then: Option<OnConnected>,
}

/// One of them, which the background thread waits for.
struct Connecting {
    race: Arc<Race>,
    stream: Arc<OwnedFd>,
    /// Until then no other address is tried, and after that it is given up.
    give_up_at: Instant,
    /// Once it is known.
    result: Option<Result<(), Errno>>,
}

/// A reply that has not come yet.
struct Asked {
    reply: OwnedFd,
    give_up_at: Instant,
    result: Option<Result<OwnedFd, Errno>>,
    then: OnConnected,
}

/// How finely deadlines of connections are kept.
const CONNECT_SLACK: Duration = Duration::from_millis(100);
/// How long an address has no other beside it (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

impl Attempt {
    /// Tries the addresses from that one on.
    pub(crate) fn begin(address: &Arc<Address>, from: usize) -> Self {
        let mut last = Errno::ADDRNOTAVAIL;
        for which in from..address.count() {
            match address.dial(which) {
                Ok(Dialed::Connected(stream)) => return Self::Done(Ok(stream)),
                Ok(Dialed::InProgress(stream)) => {
                    return Self::InProgress(InProgress { address: Arc::clone(address), which, stream });
                }
                Ok(Dialed::Full) => return Self::Full,
                Err(error) => last = error,
            }
        }
        Self::Done(Err(last))
    }

    /// Of a connector that was asked.
    pub(crate) fn by_connector(reply: Result<OwnedFd, Errno>) -> Self {
        match reply {
            Ok(reply) => Self::Asked(reply),
            // As when a listen queue is full, it is tried again in a moment.
            Err(Errno::AGAIN) => Self::Full,
            Err(error) => Self::Done(Err(error)),
        }
    }

    /// The result, of one that is known at once.
    pub(crate) fn done(self) -> Result<OwnedFd, Errno> {
        match self {
            Self::Done(result) => result,
            Self::Full | Self::InProgress(_) | Self::Asked(_) => Err(Errno::AGAIN),
        }
    }

    /// Has the background thread wait until the result is known, or the time is over.
    pub(crate) fn wait(self, until: Instant, background: &Arc<CommandChannel>, then: OnConnected) {
        let pending: Box<dyn PendingIo> = match self {
            Self::Done(result) => return then(result),
            Self::Full => return then(Err(Errno::AGAIN)),
            Self::Asked(reply) => Box::new(Asked::new(reply, until + connector::LATENESS_MAX, then)),
            Self::InProgress(InProgress { address, which, stream }) => {
                let state = RaceState { next: which + 1, under_way: Vec::new(), then: Some(then) };
                let background = Arc::clone(background);
                let race = Arc::new(Race { address, background, until, state: state.into() });
                return race.wait_for(stream);
            }
        };
        background.send(Command::Wait(pending));
    }
}

impl Race {
    fn state(&self) -> MutexGuard<'_, RaceState> {
        // Every change leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(self: &Arc<Self>, stream: OwnedFd) {
        let (race, stream) = (Arc::clone(self), Arc::new(stream));
        let mut state = self.state();
        state.under_way.push(Arc::clone(&stream));
        let give_up_at = match state.next < self.address.count() {
            true => self.until.min(Instant::now() + ATTEMPT_DELAY),
            false => self.until,
        };
        drop(state);
        self.background.send(Command::Wait(Box::new(Connecting { race, stream, give_up_at, result: None })));
    }

    /// Tries the next address. `last` is why the last one has failed, if it has.
    fn go_on(self: &Arc<Self>, last: Errno) {
        let mut state = self.state();
        if state.then.is_none() {
            return;
        }
        let from = std::mem::replace(&mut state.next, self.address.count());
        let attempt = match from < self.address.count() {
            true => Attempt::begin(&self.address, from),
            false => Attempt::Done(Err(last)),
        };
        match attempt {
            Attempt::InProgress(InProgress { which, stream, .. }) => {
                state.next = which + 1;
                drop(state);
                self.wait_for(stream);
            }
            attempt => {
                let result = attempt.done();
                if result.is_ok() || state.under_way.is_empty() {
                    Self::end(state, result);
                }
            }
        }
    }

    /// This connection was made, or will not be.
    fn ended(self: &Arc<Self>, stream: Arc<OwnedFd>, result: Result<(), Errno>) {
        let mut state = self.state();
        state.under_way.retain(|other| !Arc::ptr_eq(other, &stream));
        match result {
            Ok(()) => Self::end(state, Arc::try_unwrap(stream).map_err(|_| Errno::IO)),
            Err(error) => {
                drop(state);
                self.go_on(error);
            }
        }
    }

    /// What comes of it is known.
    fn end(mut state: MutexGuard<'_, RaceState>, result: Result<OwnedFd, Errno>) {
        let (then, others) = (state.then.take(), std::mem::take(&mut state.under_way));
        drop(state);
        for other in others {
            // The kernel ends an attempt so, and the background thread learns of it by an event.
            let _ = rustix::net::shutdown(&other, Shutdown::Both);
        }
        if let Some(then) = then {
            then(result);
        }
    }
}

impl Asked {
    fn new(reply: OwnedFd, give_up_at: Instant, then: OnConnected) -> Self {
        Self { reply, give_up_at, result: None, then }
    }
}

impl PendingIo for Asked {
    fn stream(&self) -> &OwnedFd {
        &self.reply
    }

    fn interest(&self) -> Interest {
        Interest::INPUT
    }

    fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    fn deadline_slack(&self) -> Duration {
        CONNECT_SLACK
    }

    fn advance(&mut self) -> bool {
        let result = connector::result(&self.reply);
        let again = |error| if error == connector::KILLED { Errno::AGAIN } else { error };
        self.result = result.map(|result| result.map_err(again));
        self.result.is_some()
    }

    fn finish(self: Box<Self>) {
        (self.then)(self.result.unwrap_or(Err(Errno::IO)));
    }

    fn give_up(self: Box<Self>) {
        (self.then)(Err(Errno::TIMEDOUT));
    }

    fn close(self: Box<Self>) {
        (self.then)(Err(Errno::CANCELED));
    }
}

impl PendingIo for Connecting {
    fn stream(&self) -> &OwnedFd {
        &self.stream
    }

    fn interest(&self) -> Interest {
        Interest::ROOM
    }

    fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    fn deadline_slack(&self) -> Duration {
        CONNECT_SLACK
    }

    fn advance(&mut self) -> bool {
        self.result = connect_result(&self.stream);
        self.result.is_some()
    }

    fn finish(self: Box<Self>) {
        let Self { race, stream, result, .. } = *self;
        race.ended(stream, result.unwrap_or(Err(Errno::INPROGRESS)));
    }

    fn give_up(mut self: Box<Self>) {
        let race = Arc::clone(&self.race);
        if self.give_up_at < race.until {
            self.give_up_at = race.until;
            race.background.send(Command::Wait(self));
            race.go_on(Errno::TIMEDOUT);
        } else {
            let Self { race, stream, .. } = *self;
            race.ended(stream, Err(Errno::TIMEDOUT));
        }
    }

    fn close(self: Box<Self>) {
        Race::end(self.race.state(), Err(Errno::CANCELED));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::os::fd::AsFd;
    use std::sync::mpsc::{Receiver, channel};

    use flash_os::poller::Poller;
    use rustix::net::{AddressFamily, SocketType, bind, getpeername, getsockname, listen, socket};

    use super::*;

    /// One that answers nobody any more: its listen queue is full.
    fn silent() -> (OwnedFd, SocketAddr, Vec<OwnedFd>) {
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        listen(&listener, 0).unwrap();
        let address: SocketAddr = getsockname(&listener).unwrap().try_into().unwrap();
        let mut queued = Vec::new();
        loop {
            match Address::Inet(vec![address]).dial(0).unwrap() {
                Dialed::Connected(stream) => queued.push(stream),
                Dialed::InProgress(stream) => match connect_result(&stream) {
                    Some(Ok(())) => queued.push(stream),
                    _ => return (listener, address, queued),
                },
                Dialed::Full => unreachable!("it is no Unix socket"),
            }
        }
    }

    fn begin(
        all: Vec<SocketAddr>,
        until: Instant,
    ) -> (Arc<CommandChannel>, Receiver<Result<OwnedFd, Errno>>) {
        let background = Arc::new(CommandChannel::new().unwrap());
        let (sender, receiver) = channel();
        let then: OnConnected = Box::new(move |result| sender.send(result).unwrap());
        Attempt::begin(&Arc::new(Address::Inet(all)), 0).wait(until, &background, then);
        (background, receiver)
    }

    #[test]
    fn an_address_that_does_not_answer_has_the_next_one_beside_it() {
        let (_listener, silent, _queued) = silent();
        let there = TcpListener::bind("127.0.0.1:0").unwrap();
        let until = Instant::now() + Duration::from_secs(3600);
        let (background, connected) = begin(vec![silent, there.local_addr().unwrap()], until);
        let first = background.pending().pop().expect("it is waited for");
        assert!(first.give_up_at() <= Instant::now() + ATTEMPT_DELAY && connected.try_recv().is_err());
        first.give_up();
        let stream = connected.try_recv().expect("there is a result").expect("the other one is there");
        let peer: SocketAddr = getpeername(stream.as_fd()).unwrap().unwrap().try_into().unwrap();
        assert_eq!(peer, there.local_addr().unwrap());
        // The first attempt is over by then.
        let mut first = background.pending().pop().expect("it is waited for again");
        assert!(first.give_up_at() == until && first.advance());
        first.finish();
        assert!(background.pending().is_empty() && connected.try_recv().is_err());
    }

    #[test]
    fn one_that_answers_late_serves_if_no_other_does() {
        let (listener, silent, queued) = silent();
        let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let until = Instant::now() + Duration::from_secs(3600);
        let (background, connected) = begin(vec![silent, refused], until);
        background.pending().pop().expect("it is waited for").give_up();
        assert!(connected.try_recv().is_err(), "the other one is not there, and the first one may be");
        // The queue has room by now, and the kernel knocks again.
        let listener = TcpListener::from(listener);
        queued.iter().for_each(|_| drop(listener.accept().unwrap()));
        let mut first = background.pending().pop().expect("it is waited for again");
        assert_eq!(first.give_up_at(), until);
        let poller = Poller::new().unwrap();
        poller.add(first.stream(), 0, first.interest()).unwrap();
        let mut events = Vec::with_capacity(1);
        while !first.advance() {
            poller.wait(&mut events, None).unwrap();
        }
        first.finish();
        let stream = connected.try_recv().expect("there is a result").expect("it serves");
        let peer: SocketAddr = getpeername(stream.as_fd()).unwrap().unwrap().try_into().unwrap();
        assert_eq!(peer, silent);
    }
}
