//! FastCGI servers that somebody else keeps running, and the connections that are kept to them.
//!
//! The common case costs no thread's help: a kept connection, or a new one that is there at once. Connections that take
//! their time are the [`clerk`](crate::clerk)'s to finish. What is said over a connection is the request path's business.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flash_cgi::fastcgi::Encoder;
use flash_core::program::{Backend, Begin, Begun, Finish, Lease, Refusal, Reply, Talk};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::address::{Address, Dialed};
use crate::clerk::{Letter, Mail};
use crate::gate::Gate;
use crate::lines::Lines;
use crate::programs::{Hears, Settings};
use crate::shelf::Shelf;
use crate::waits::{Place, Waits};

#[derive(Debug)]
pub(crate) struct Server {
    address: Address,
    shelf: Shelf,
    gate: Gate,
    /// New connections that have not answered yet.
    firsts: Waits,
    /// Those that the clerk has to finish.
    dialing: AtomicUsize,
    dialing_max: usize,
    /// How long a connection may take.
    connect: Duration,
    clerk: Arc<Mail>,
    hears: Hears,
}

/// A request that waits for a connection.
pub(crate) struct Dial {
    pub(crate) server: Arc<Server>,
    /// Which of the server's addresses is tried.
    which: usize,
    pub(crate) give_up_at: Instant,
    name: Arc<str>,
    reply: Reply,
}

/// What became of one.
pub(crate) enum Attempt {
    Over(Begun),
    UnderWay { which: usize, stream: OwnedFd },
    Full,
}

/// While a new connection has waited for so long, connections that could be kept are closed: it may be waiting for the
/// process behind one of them. A slow program looks the same, and then requests cost a connection each for a while.
const FIRST_ANSWER: Duration = Duration::from_millis(100);
/// How long a connection is kept that nobody uses. It costs its server a process, and a new one costs next to nothing.
pub(crate) const KEPT_IDLE: Duration = Duration::from_secs(2);

impl Server {
    pub(crate) fn new(address: Address, settings: &Settings, clerk: Arc<Mail>, hears: Hears) -> Self {
        let now = Instant::now();
        Self {
            address,
            shelf: Shelf::new(settings.kept_max),
            gate: Gate::new(settings.connect, now),
            firsts: Waits::new(now),
            dialing: AtomicUsize::new(0),
            dialing_max: settings.queue_max,
            connect: settings.connect,
            clerk,
            hears,
        }
    }

    pub(crate) fn begin(self: &Arc<Self>, begin: Begin, reply: Reply) -> Option<Begun> {
        // Where one kept connection was closed, others may be about to be.
        if !begin.again
            && let Some(stream) = self.shelf.take()
        {
            return Some(self.lend(stream, begin.name, None, true));
        }
        let now = Instant::now();
        if !self.gate.admits(now) {
            return Some(Begun::Failed(Refusal::Busy));
        }
        let (which, stream) = match self.attempt(0, &begin.name) {
            Attempt::Over(begun) => return Some(begun),
            Attempt::UnderWay { which, stream } => (which, Some(stream)),
            Attempt::Full => (0, None),
        };
        if self.dialing.fetch_add(1, Ordering::Relaxed) >= self.dialing_max {
            self.dialing.fetch_sub(1, Ordering::Relaxed);
            return Some(Begun::Failed(Refusal::Busy));
        }
        let give_up_at = now + self.connect;
        let dial = Dial { server: Arc::clone(self), which, give_up_at, name: begin.name, reply };
        self.clerk.put(Letter::Dial(dial, stream));
        None
    }

    /// Tries the addresses from that one on.
    fn attempt(self: &Arc<Self>, from: usize, name: &Arc<str>) -> Attempt {
        let mut last = Errno::ADDRNOTAVAIL;
        for which in from..self.address.count() {
            match self.address.dial(which) {
                Ok(Dialed::Connected(stream)) => return Attempt::Over(self.connected(stream, name)),
                Ok(Dialed::UnderWay(stream)) => return Attempt::UnderWay { which, stream },
                Ok(Dialed::Full) => return Attempt::Full,
                Err(error) => last = error,
            }
        }
        Attempt::Over(Begun::Failed(self.failed(last)))
    }

    fn connected(self: &Arc<Self>, stream: OwnedFd, name: &Arc<str>) -> Begun {
        if self.gate.passed() {
            self.hears.say(format_args!("{}: can be reached again", self.address));
        }
        let place = self.firsts.begin(Instant::now());
        self.lend(stream, Arc::clone(name), place, false)
    }

    fn failed(&self, error: Errno) -> Refusal {
        if matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) {
            // Nobody's fault over there.
            self.hears.say(format_args!("{}: {error}", self.address));
            return Refusal::Busy;
        }
        let pause = self.gate.failed(Instant::now());
        self.hears.say(format_args!("{}: {error}; not tried again for {pause:?}", self.address));
        if error == Errno::TIMEDOUT { Refusal::Late } else { Refusal::Broken }
    }

    fn lend(self: &Arc<Self>, stream: OwnedFd, name: Arc<str>, place: Option<Place>, used: bool) -> Begun {
        let lease = Box::new(Loan { server: Arc::clone(self), name, place, lines: Lines::default() });
        Begun::Running(stream, Backend { talk: Talk::FastCgi, lease, used })
    }

    /// Closes connections that have been idle for long. Tells whether there are others.
    pub(crate) fn tidy(&self, now: Instant) -> bool {
        self.shelf.tidy(KEPT_IDLE, now)
    }
}

impl Dial {
    /// Once more, for a Unix socket that was full.
    pub(crate) fn again(self, now: Instant) -> Option<Self> {
        match self.server.attempt(0, &self.name) {
            Attempt::Full if now < self.give_up_at => Some(self),
            Attempt::Full => {
                self.server.hears.say(format_args!(
                    "{}: as many wait there as may, for {:?}",
                    self.server.address, self.server.connect
                ));
                self.end(Begun::Failed(Refusal::Busy));
                None
            }
            Attempt::UnderWay { .. } => unreachable!("a Unix socket connects at once or not at all"),
            Attempt::Over(begun) => {
                self.end(begun);
                None
            }
        }
    }

    /// It has been decided. Returns the next address's connection, if that takes its time too.
    pub(crate) fn decided(mut self, stream: OwnedFd, result: Result<(), Errno>) -> Option<(Self, OwnedFd)> {
        let attempt = match result {
            Ok(()) => Attempt::Over(self.server.connected(stream, &self.name)),
            Err(error) if self.which + 1 == self.server.address.count() => {
                Attempt::Over(Begun::Failed(self.server.failed(error)))
            }
            Err(_) => self.server.attempt(self.which + 1, &self.name),
        };
        match attempt {
            Attempt::UnderWay { which, stream } => {
                self.which = which;
                Some((self, stream))
            }
            Attempt::Over(begun) => {
                self.end(begun);
                None
            }
            Attempt::Full => unreachable!("only Unix sockets are full, and they have one address"),
        }
    }

    pub(crate) fn end(self, begun: Begun) {
        self.server.dialing.fetch_sub(1, Ordering::Relaxed);
        (self.reply)(begun);
    }
}

/// The right to a connection.
struct Loan {
    server: Arc<Server>,
    name: Arc<str>,
    place: Option<Place>,
    lines: Lines,
}

impl Loan {
    fn answered(&mut self) {
        if let Some(place) = self.place.take() {
            self.server.firsts.end(place);
        }
    }
}

impl Lease for Loan {
    fn stderr(&mut self, bytes: &[u8]) {
        self.lines.take(bytes, |line| self.server.hears.complaint(&self.name, line));
    }

    fn finish(mut self: Box<Self>, stream: OwnedFd, how: Finish) {
        let now = Instant::now();
        self.answered();
        let server = &self.server;
        match how {
            Finish::Reusable if !server.firsts.any_for(FIRST_ANSWER, now) => {
                if server.shelf.put(stream, now) {
                    server.clerk.tick();
                }
            }
            Finish::Reusable | Finish::Ended => {}
            Finish::Aborted => abort(&stream),
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.answered();
        self.lines.end(|line| self.server.hears.complaint(&self.name, line));
    }
}

/// FastCGI §5.4. Should there be no room for it, the connection's end says the same.
pub(crate) fn abort(stream: &OwnedFd) {
    let mut record = Vec::new();
    Encoder.abort(&mut record);
    let _ = rustix::net::send(stream, &record, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("name", &self.name).finish_non_exhaustive()
    }
}
