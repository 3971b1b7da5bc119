//! A connection to a server that may take time: each of its addresses is tried in turn, with its share of the time.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_os::poller::Interest;
use rustix::io::Errno;

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

/// One that the background thread waits for.
struct Connecting {
    begun: InProgress,
    background: Arc<CommandChannel>,
    give_up_at: Instant,
    /// For this and the addresses that follow.
    until: Instant,
    /// Once it is known.
    result: Option<Result<(), Errno>>,
    then: OnConnected,
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
            Self::InProgress(begun) => {
                let left = begun.address.count().saturating_sub(begun.which).max(1) as u32;
                let now = Instant::now();
                let give_up_at = now + until.saturating_duration_since(now) / left;
                let background = Arc::clone(background);
                Box::new(Connecting { begun, background, give_up_at, until, result: None, then })
            }
        };
        background.send(Command::Wait(pending));
    }
}

impl Connecting {
    /// The connection was made or refused: then the next address is tried.
    fn end(self, result: Result<(), Errno>) {
        let Self { begun: InProgress { address, which, stream }, background, until, then, .. } = self;
        match result {
            Ok(()) => then(Ok(stream)),
            Err(error) if which + 1 >= address.count() => then(Err(error)),
            Err(_) => Attempt::begin(&address, which + 1).wait(until, &background, then),
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
        &self.begun.stream
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
        self.result = connect_result(&self.begun.stream);
        self.result.is_some()
    }

    fn finish(mut self: Box<Self>) {
        let result = self.result.take().unwrap_or(Err(Errno::INPROGRESS));
        self.end(result);
    }

    fn give_up(self: Box<Self>) {
        self.end(Err(Errno::TIMEDOUT));
    }

    fn close(self: Box<Self>) {
        (self.then)(Err(Errno::CANCELED));
    }
}
