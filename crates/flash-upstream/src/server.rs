//! FastCGI and HTTP servers that run on their own, and the idle connections that are kept to them.
//!
//! The common case needs no other thread: an idle connection, or a new one that is made at once. Connections that take
//! time are finished by the [background thread](crate::background). What is sent over a connection is the request
//! path's business.

mod http2;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use flash_cgi::fastcgi::Encoder;
use flash_core::record::counters::ProgramCount;
use flash_core::record::program_times::ProgramTimes;
use flash_core::upstream::{
    Lease, OnOpened, Open, OpenError, Opened, ReleaseMode, Upstream, UpstreamFailure, UpstreamProtocol,
    UpstreamSession, UpstreamTls,
};
use flash_os::socket::NO_SIGNAL;
use flash_process::{LineLimiter, Reporter};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::address::Address;
use crate::background::{Command, CommandChannel, FullSocket, Maintained};
use crate::balance::Candidate;
use crate::circuit_breaker::CircuitBreaker;
use crate::connecting::Attempt;
use crate::connector::Connector;
use crate::counts::{Counted, ProgramCounter};
use crate::first_responses::{FirstResponses, Slot};
use crate::health::Health;
use crate::idle_connections::{IdleConnections, Kept};
use crate::log_limit::LogLimit;
use crate::multiplexer::Multiplexer;
use crate::resolver::{self, Named};
use crate::settings::{ServerConfig, Settings};

#[derive(Debug)]
pub(crate) struct Server {
    protocol: UpstreamProtocol,
    /// As the operator has written it.
    name: String,
    tls: Option<Arc<dyn UpstreamTls>>,
    /// The host and the port that are looked up, if it has a name.
    lookup: Option<String>,
    address: ArcSwap<Address>,
    /// What the connector knows it as.
    target: String,
    /// What connects in place of a server in its sandbox: that of the last configuration with this server.
    connector: ArcSwapOption<Connector>,
    /// Of a server of HTTP/2.
    http2: Option<Http2>,
    idle: IdleConnections,
    breaker: CircuitBreaker,
    /// New connections to a FastCGI server that have not answered yet.
    first_responses: FirstResponses,
    under_way: AtomicUsize,
    /// Its place among the others of its route.
    member: Terms,
    /// Of its name.
    hash: u64,
    health: Health,
    /// Those others, once they are known.
    group: OnceLock<Weak<dyn Group>>,
    is_being_checked: AtomicBool,
    /// How often the addresses have changed, or may have.
    moves: AtomicUsize,
    /// When they may have changed next: a server in its sandbox does not know where its connector connects.
    may_move_at: Mutex<Instant>,
    /// Connections that the background thread has to finish.
    dialing: AtomicUsize,
    dialing_max: usize,
    /// Of lines about requests that are refused.
    refusals: LogLimit,
    /// How long a connection may take.
    connect: Duration,
    background: Arc<CommandChannel>,
    reporter: Arc<Reporter>,
    counter: Arc<dyn ProgramCounter>,
}

/// What a server of HTTP/2 has besides.
#[derive(Debug)]
struct Http2 {
    multiplexer: Arc<Multiplexer>,
    /// How many connections take requests, at once or when they have room, or a little earlier.
    open: AtomicUsize,
    /// While a connection is being made: the requests that come meanwhile.
    connecting: Mutex<Option<Vec<Dial>>>,
    /// Of lines about what it does wrong.
    faults: LogLimit,
}

/// What servers share with each other.
pub(crate) struct Shared<'s> {
    pub(crate) settings: &'s Settings,
    pub(crate) background: &'s Arc<CommandChannel>,
    pub(crate) connector: Option<&'s Arc<Connector>>,
    /// Where a server speaks HTTP/2.
    pub(crate) multiplexer: Option<&'s Arc<Multiplexer>>,
    pub(crate) reporter: &'s Arc<Reporter>,
}

/// Servers that answer the same.
pub(crate) trait Group: Send + Sync + fmt::Debug {
    /// A request of one of them is over.
    fn has_room(self: Arc<Self>);

    /// Whether a request that one has not answered may be sent to another.
    fn may_retry(&self) -> bool;
}

/// What a server is among others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) weight: u32,
    pub(crate) is_backup: bool,
    pub(crate) requests_max: usize,
    pub(crate) slow_start: Duration,
}

impl Terms {
    /// Of the only server.
    pub(crate) const ALONE: Self =
        Self { weight: 1, is_backup: false, requests_max: usize::MAX, slow_start: Duration::ZERO };
}

/// A request's place among those that a server has.
#[derive(Debug)]
pub(crate) struct InFlight {
    server: Arc<Server>,
    /// Among the servers of its route.
    number: usize,
}

impl InFlight {
    /// One more, even if it is one too many.
    pub(crate) fn new(server: &Arc<Server>, number: usize) -> Self {
        server.under_way.fetch_add(1, Ordering::Relaxed);
        Self { server: Arc::clone(server), number }
    }

    pub(crate) fn within_limit(server: &Arc<Server>, number: usize) -> Option<Self> {
        let add = |count: usize| (count < server.member.requests_max).then(|| count + 1);
        let added = server.under_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.is_ok().then(|| Self { server: Arc::clone(server), number })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.server.under_way.fetch_sub(1, Ordering::Relaxed);
        if self.server.is_limited()
            && let Some(group) = self.server.group()
        {
            group.has_room();
        }
    }
}

/// A request on its way to a connection.
struct Asking {
    in_flight: InFlight,
    /// The request, for the logs.
    name: Arc<str>,
    queued: Duration,
}

/// A request that waits for a connection.
struct Dial {
    server: Arc<Server>,
    asking: Asking,
    give_up_at: Instant,
    reply: OnOpened,
    _counted: Counted,
}

/// If a new connection has waited for this long, returning connections are closed, because it may wait for the process of one
/// of them. A slow program looks the same. Then each request costs a connection for a while.
const FIRST_ANSWER: Duration = Duration::from_millis(100);
/// How long an idle connection is kept. It costs its server a process, and a new one costs next to nothing.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(2);
/// The same for a request that cannot be sent again, if the server closes the connection at the same time. Those that close early do so
/// after two seconds.
const UNREPEATABLE_IDLE_MAX: Duration = Duration::from_secs(1);

impl Server {
    pub(crate) fn new(
        protocol: UpstreamProtocol,
        config: ServerConfig,
        member: Terms,
        counter: &Arc<dyn ProgramCounter>,
        shared: &Shared<'_>,
    ) -> Self {
        let target = config.target();
        let ServerConfig { name, address, lookup, tls, is_http2 } = config;
        let Shared { settings, background, connector, multiplexer, reporter } = shared;
        let now = Instant::now();
        let http2 = multiplexer.filter(|_| is_http2).map(|multiplexer| Http2::new(multiplexer, now));
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self {
            protocol,
            name,
            tls: tls.map(|tls| tls.client),
            lookup,
            address: ArcSwap::from_pointee(address),
            target,
            connector: ArcSwapOption::new(connector.cloned()),
            http2,
            idle: IdleConnections::new(settings.kept_max, Arc::clone(counter)),
            breaker: CircuitBreaker::new(settings.connect, Arc::clone(counter), now),
            first_responses: FirstResponses::new(now),
            under_way: AtomicUsize::new(0),
            member,
            hash: hasher.finish(),
            health: Health::new(member.slow_start, Arc::clone(counter), now),
            group: OnceLock::new(),
            is_being_checked: AtomicBool::new(false),
            moves: AtomicUsize::new(0),
            may_move_at: Mutex::new(now + resolver::EVERY),
            dialing: AtomicUsize::new(0),
            dialing_max: settings.queue_max,
            refusals: LogLimit::new(now),
            connect: settings.connect,
            background: Arc::clone(background),
            reporter: Arc::clone(reporter),
            counter: Arc::clone(counter),
        }
    }

    /// Gives it a request, which may have been `queued` for it.
    pub(crate) fn begin(
        self: &Arc<Self>,
        in_flight: InFlight,
        begin: Open,
        queued: Duration,
        reply: OnOpened,
    ) -> Option<Opened> {
        let now = Instant::now();
        let asking = Asking { in_flight, name: begin.name, queued };
        let idle_max = if begin.may_be_repeated { IDLE_MAX } else { UNREPEATABLE_IDLE_MAX };
        if let Some(http2) = &self.http2 {
            return self.begin_shared(http2, asking, reply, now);
        }
        // Where one idle connection was closed, others may be about to be.
        if !begin.again
            && let Some(kept) = self.idle.take(idle_max, now)
        {
            return Some(self.lend(kept, asking, None, true));
        }
        if !self.breaker.allow(now) {
            return Some(match self.protocol {
                // Clients are told the same as by the attempt that failed: 502.
                UpstreamProtocol::Http => Opened::Failed(OpenError::Broken),
                _ => self.refuse(),
            });
        }
        let attempt = match self.attempt(now + self.connect) {
            Attempt::Done(result) => return Some(self.opened(result, asking)),
            attempt => attempt,
        };
        match self.dial(asking, reply, now) {
            Ok(dial) => dial.go_on(attempt),
            Err(refused) => return Some(refused),
        }
        None
    }

    /// Has a request wait for a connection, if there is room.
    fn dial(self: &Arc<Self>, asking: Asking, reply: OnOpened, now: Instant) -> Result<Dial, Opened> {
        if self.dialing.fetch_add(1, Ordering::Relaxed) >= self.dialing_max {
            self.dialing.fetch_sub(1, Ordering::Relaxed);
            if self.refusals.is_due(now) {
                let name = &self.name;
                self.reporter
                    .log(format_args!("{name}: as many wait for a connection as may: requests get 503"));
            }
            return Err(self.refuse());
        }
        let (give_up_at, counted) = (now + self.connect, Counted::one(&self.counter, ProgramCount::Waiting));
        Ok(Dial { server: Arc::clone(self), asking, give_up_at, reply, _counted: counted })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The host that it is asked for if nothing else is said, with its port.
    pub(crate) fn authority(&self) -> &str {
        self.name.split_once("://").map_or("localhost", |(_, authority)| authority)
    }

    /// The others with which it answers the same.
    pub(crate) fn belongs_to(&self, group: Weak<dyn Group>) {
        let _ = self.group.set(group);
    }

    fn group(&self) -> Option<Arc<dyn Group>> {
        self.group.get()?.upgrade()
    }

    pub(crate) fn is_backup(&self) -> bool {
        self.member.is_backup
    }

    /// Whether it may have only so many requests at a time.
    pub(crate) fn is_limited(&self) -> bool {
        self.member.requests_max < usize::MAX
    }

    pub(crate) fn has_room(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) < self.member.requests_max
    }

    /// Whether it passes its checks, and could be reached when that was tried last.
    pub(crate) fn is_well(&self, now: Instant) -> bool {
        !self.health.is_failing() && !self.breaker.is_open(now)
    }

    pub(crate) fn candidate(&self, number: usize, now: Instant) -> Candidate {
        let weight = u64::from(self.member.weight) * self.health.part(now);
        Candidate { number, weight, under_way: self.under_way.load(Ordering::Relaxed), hash: self.hash }
    }

    pub(crate) fn count(&self, what: ProgramCount) {
        self.counter.add(what, 1);
    }

    pub(crate) fn counted(&self, what: ProgramCount) -> Counted {
        Counted::one(&self.counter, what)
    }

    /// Whether no other check is under way.
    pub(crate) fn begin_check(&self) -> bool {
        !self.is_being_checked.swap(true, Ordering::Relaxed)
    }

    /// The result of a check.
    pub(crate) fn checked(&self, result: Result<(), String>, now: Instant) {
        match result {
            Ok(()) if self.health.passed(now) => {
                self.reporter.log(format_args!("{}: passes its check again", self.name));
            }
            Err(why) if self.health.failed() => {
                self.reporter.log(format_args!("{}: fails its check: {why}; it gets no requests", self.name));
            }
            _ => {}
        }
        self.end_check();
    }

    /// From now on it can be checked again.
    pub(crate) fn end_check(&self) {
        self.is_being_checked.store(false, Ordering::Relaxed);
    }

    pub(crate) fn begin_tls(&self) -> Option<Box<dyn UpstreamSession>> {
        self.tls.as_ref().map(|tls| tls.begin())
    }

    fn refuse(&self) -> Opened {
        self.counter.add(ProgramCount::Refused, 1);
        Opened::Failed(OpenError::Busy)
    }

    /// Whether only its connector learns where its name leads.
    fn has_hidden_address(&self) -> bool {
        self.lookup.is_some() && self.connector.load().is_some()
    }

    pub(crate) fn attempt(&self, until: Instant) -> Attempt {
        match self.connector() {
            Some(connector) => {
                let patience = until.saturating_duration_since(Instant::now());
                Attempt::by_connector(connector.connect(&self.target, patience))
            }
            None => Attempt::begin(&self.address.load_full(), 0),
        }
    }

    fn connector(&self) -> Option<Arc<Connector>> {
        self.connector.load_full()
    }

    /// Starts another connector if the last one was killed. Returns whether it can be asked, now or soon, where it has to be. On the
    /// background thread.
    pub(crate) fn has_connector_if_needed(&self, now: Instant) -> bool {
        self.connector().is_none_or(|connector| connector.restart_if_gone(now, &self.reporter))
    }

    /// Keeps no connection that leads to the last address.
    fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
        self.idle.clear();
        if let Some(http2) = &self.http2 {
            http2.multiplexer.moved(self);
        }
    }

    /// From now on this one connects.
    pub(crate) fn use_connector(&self, connector: Option<&Arc<Connector>>) {
        self.connector.store(connector.cloned());
    }

    fn opened(self: &Arc<Self>, result: Result<OwnedFd, Errno>, asking: Asking) -> Opened {
        let result = result.map_err(|error| self.failed(error));
        match &self.http2 {
            Some(http2) => self.share_if(http2, self.connected_shared(http2, result), asking),
            None => result.map_or_else(Opened::Failed, |stream| self.connected(stream, asking)),
        }
    }

    /// It could be reached.
    fn is_there(&self, now: Instant) {
        if self.breaker.succeeded() {
            self.health.recovered(now);
            self.reporter.log(format_args!("{}: can be reached again", self.name));
        }
        self.count(ProgramCount::Started);
    }

    fn connected(self: &Arc<Self>, stream: OwnedFd, asking: Asking) -> Opened {
        let now = Instant::now();
        self.is_there(now);
        let is_fastcgi = self.protocol == UpstreamProtocol::FastCgi;
        let slot = is_fastcgi.then(|| self.first_responses.begin(now)).flatten();
        self.lend((stream, self.begin_tls()), asking, slot, false)
    }

    fn failed(&self, error: Errno) -> OpenError {
        // There is no background thread any more, or as many wait there as may.
        if matches!(error, Errno::CANCELED | Errno::AGAIN) {
            return OpenError::Busy;
        }
        self.counter.add(ProgramCount::Failed, 1);
        if matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) {
            // The fault is on this side.
            self.reporter.log(format_args!("{}: {error}", self.name));
            return OpenError::Busy;
        }
        self.trip(&error);
        if error == Errno::TIMEDOUT { OpenError::Late } else { OpenError::Broken }
    }

    fn trip(&self, why: &dyn fmt::Display) {
        let pause = self.breaker.failed(Instant::now());
        self.reporter.log(format_args!("{}: {why}; not tried again for {pause:?}", self.name));
    }

    fn lend(self: &Arc<Self>, (stream, tls): Kept, asking: Asking, slot: Option<Slot>, used: bool) -> Opened {
        let counted = self.counted(ProgramCount::Busy);
        self.count(ProgramCount::Requests);
        let Asking { in_flight, name, queued, .. } = asking;
        let number = in_flight.number;
        let (server, lines) = (Arc::clone(self), LineLimiter::default());
        let moves = self.moves.load(Ordering::Relaxed);
        let lease = Box::new(ConnectionLease {
            server,
            name,
            slot,
            lines,
            tls: None,
            moves,
            _counted: (counted, in_flight),
        });
        let upstream = Upstream::new(self.protocol, lease);
        Opened::Running(stream, Upstream { used, tls, server: number, queued, ..upstream })
    }
}

impl Maintained for Server {
    fn expire_idle(self: Arc<Self>, now: Instant) -> bool {
        let has_hidden_address = self.has_hidden_address();
        if has_hidden_address {
            let mut may_move_at = self.may_move_at.lock().unwrap_or_else(PoisonError::into_inner);
            if now >= *may_move_at {
                *may_move_at = now + resolver::EVERY;
                self.moved();
            }
        }
        let is_shared = self.http2.as_ref().is_some_and(Http2::is_open);
        self.idle.expire_idle(IDLE_MAX, now) || has_hidden_address && is_shared
    }

    /// Requests that wait for a connection are closed by themselves.
    fn close(&self) {}
}

impl Named for Server {
    fn lookup(&self) -> Option<&str> {
        self.lookup.as_deref()
    }

    fn has_address(&self) -> bool {
        self.address.load().count() > 0
    }

    fn looked_up(&self, found: Option<Address>) {
        if let Some(address) = found
            && !self.address.load().is_same(&address)
        {
            self.address.store(Arc::new(address));
            self.moved();
        }
    }
}

impl Http2 {
    fn new(multiplexer: &Arc<Multiplexer>, now: Instant) -> Self {
        Self {
            multiplexer: Arc::clone(multiplexer),
            open: AtomicUsize::new(0),
            connecting: Mutex::default(),
            faults: LogLimit::new(now),
        }
    }

    /// Whether any connection takes requests.
    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    fn connecting(&self) -> MutexGuard<'_, Option<Vec<Dial>>> {
        // Every change leaves it whole.
        self.connecting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether no connection was being made.
    fn begin_connecting(&self) -> bool {
        let mut connecting = self.connecting();
        let is_first = connecting.is_none();
        connecting.get_or_insert_default();
        is_first
    }

    /// Has a request wait for the connection that is being made. Returns it if there is none: its own is the first.
    fn join(&self, dial: Dial) -> Option<Dial> {
        let mut connecting = self.connecting();
        match &mut *connecting {
            Some(joined) => joined.push(dial),
            None => {
                *connecting = Some(Vec::new());
                return Some(dial);
            }
        }
        None
    }
}

impl Dial {
    /// Answers the request, or has the background thread wait.
    fn go_on(self, attempt: Attempt) {
        let (until, background) = (self.give_up_at, Arc::clone(&self.server.background));
        attempt.wait(until, &background, Box::new(move |result| self.connected(result)));
    }

    fn connected(self, result: Result<OwnedFd, Errno>) {
        match result {
            Err(Errno::AGAIN) if Instant::now() < self.give_up_at => {
                let background = Arc::clone(&self.server.background);
                background.send(Command::Retry(Box::new(self)));
            }
            Err(Errno::AGAIN) => {
                let Server { name, connect, reporter, .. } = &*self.server;
                reporter.log(format_args!("{name}: as many wait there as may, for {connect:?}"));
                self.refuse();
            }
            result => {
                let server = Arc::clone(&self.server);
                self.answer(|asking| server.opened(result, asking));
            }
        }
    }

    fn answer(self, opened: impl FnOnce(Asking) -> Opened) {
        let Self { server, asking, reply, .. } = self;
        server.dialing.fetch_sub(1, Ordering::Relaxed);
        reply(opened(asking));
    }

    /// There will be no connection.
    fn end(self, why: OpenError) {
        if let Some(http2) = &self.server.http2 {
            _ = self.server.connected_shared(http2, Err(why));
        }
        self.answer(|_| Opened::Failed(why));
    }

    fn refuse(self) {
        self.server.count(ProgramCount::Refused);
        self.end(OpenError::Busy);
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").field("give_up_at", &self.give_up_at).finish_non_exhaustive()
    }
}

impl FullSocket for Dial {
    fn name(&self) -> &str {
        &self.server.name
    }

    fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    fn retry(self: Box<Self>, now: Instant) -> Option<Box<dyn FullSocket>> {
        if !self.server.has_connector_if_needed(now) {
            self.refuse();
            return None;
        }
        match self.server.attempt(self.give_up_at) {
            Attempt::Full if now < self.give_up_at => return Some(self),
            attempt => self.go_on(attempt),
        }
        None
    }

    fn close(self: Box<Self>) {
        self.end(OpenError::Busy);
    }
}

/// The lease of a connection, for one request.
struct ConnectionLease {
    server: Arc<Server>,
    name: Arc<str>,
    slot: Option<Slot>,
    lines: LineLimiter,
    /// For the next request.
    tls: Option<Box<dyn UpstreamSession>>,
    /// How often the server had moved when this began.
    moves: usize,
    _counted: (Counted, InFlight),
}

impl ConnectionLease {
    fn answered(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.server.first_responses.end(slot);
        }
    }
}

impl Lease for ConnectionLease {
    fn failed(&mut self, why: UpstreamFailure) {
        self.server.count(match why {
            UpstreamFailure::TimedOut => ProgramCount::TimedOut,
            UpstreamFailure::Broken => ProgramCount::Broken,
        });
    }

    fn may_retry(&mut self) -> bool {
        let may = self.server.group().is_some_and(|group| group.may_retry());
        if may {
            self.server.count(ProgramCount::Retries);
        }
        may
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.lines.push(bytes, |line| self.server.reporter.stderr_line(&self.name, line));
    }

    fn keep(&mut self, tls: Box<dyn UpstreamSession>) {
        self.tls = Some(tls);
    }

    fn took(&mut self, times: &ProgramTimes) {
        self.server.counter.took(times);
    }

    fn finish(mut self: Box<Self>, stream: OwnedFd, how: ReleaseMode) {
        let now = Instant::now();
        let tls = self.tls.take();
        self.answered();
        let server = &self.server;
        match how {
            // The end of a shared connection's stream.
            ReleaseMode::Reusable if server.http2.is_some() => {}
            ReleaseMode::Reusable if server.moves.load(Ordering::Relaxed) != self.moves => {}
            ReleaseMode::Reusable if !server.first_responses.any_waiting_for(FIRST_ANSWER, now) => {
                if server.idle.put((stream, tls), now) {
                    server.background.tick();
                }
            }
            ReleaseMode::Reusable | ReleaseMode::Ended => {}
            ReleaseMode::Aborted => abort(&stream),
        }
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        self.answered();
        self.lines.end(|line| self.server.reporter.stderr_line(&self.name, line));
    }
}

/// FastCGI §5.4. Should there be no room for it, the connection's end says the same.
pub(crate) fn abort(stream: &OwnedFd) {
    let mut record = Vec::new();
    Encoder.abort(&mut record);
    let _ = rustix::net::send(stream, &record, NO_SIGNAL | SendFlags::DONTWAIT);
}

impl fmt::Debug for ConnectionLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionLease").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
