//! One thread's part of a group: what its clients ask next, when, and on which connection.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_h2::Client;
use flash_traffic::{Ask, Catalogue, File, FileId, Part, Sequence};
use rustix::io::Errno;
use rustls::client::UnbufferedClientConnection;

use super::connection::Pending;
use super::share::share;
use crate::load::{ClientOptions, Keep, Method, Protocol};
use crate::pace::Due;
use crate::reply::{Asked, StreamedReply};
use crate::request::{Extras, RequestTemplate, method};
use crate::tls::Connector;
use crate::verify::{Look, Originals};
use crate::{Body, ClientGroup, Load, Pace};

/// No session has more requests.
const SESSION_MAX: usize = 64;

pub(super) struct ClientShard<'a> {
    pub(super) pace: Pace,
    pub(super) options: &'a ClientOptions,
    catalogue: Arc<Catalogue>,
    template: RequestTemplate,
    /// Of a server that speaks TLS.
    connector: Option<Connector>,
    /// Where its classes begin among all.
    first_class: usize,
    sequence: Box<dyn Sequence>,
    /// The rest of the clients' sessions, in a closed loop whose workload has sessions.
    sessions: Vec<VecDeque<Ask>>,
    /// No more is asked: the workload has come to its end, or the number of requests has.
    exhausted: bool,
    /// Its connections.
    pub(super) places: Range<usize>,
    /// Clients of a closed loop that have not begun.
    pub(super) unstarted: Range<usize>,
    next: Next,
    /// Requests that are due and have no connection yet.
    queue: VecDeque<(Ask, Instant)>,
    /// Those of them that are known to wait because all connections are busy.
    waiting: usize,
    /// Connections that have room for a request; the one that was busy last is on top, so that no more are opened than needed.
    idle: Vec<usize>,
    /// Requests queued or pending.
    pub(super) under_way: usize,
    /// Fields of conditional requests, by file.
    validators: HashMap<FileId, Box<str>>,
}

/// When the next request of an open loop is due.
enum Next {
    /// A closed loop's clients know themselves.
    Never,
    Due(Due),
    Recorded {
        ask: Option<Ask>,
        speed_up: f64,
    },
}

impl<'a> ClientShard<'a> {
    pub(super) fn new(
        load: &Load,
        group: &'a ClientGroup,
        part: Part,
        first_place: usize,
        first_class: usize,
        random: &mut fastrand::Rng,
    ) -> ClientShard<'a> {
        let connections = share(group.pace.connections_max().into(), part) as usize;
        let places = first_place..first_place + connections;
        let mut sequence = group.workload.sequence(part, load.seed);
        let next = match group.pace {
            Pace::Closed { .. } => Next::Never,
            Pace::Open { per_second, arrivals, .. } => {
                Next::Due(Due::new(per_second, arrivals, part.index, part.of, random))
            }
            Pace::Recorded { speed_up, .. } => Next::Recorded { ask: sequence.next(), speed_up },
        };
        let closed = matches!(next, Next::Never);
        let mut probe = group.workload.sequence(part, load.seed);
        let has_sessions = closed && (0..SESSION_MAX).any(|_| probe.next().is_some_and(|ask| ask.closes));
        ClientShard {
            pace: group.pace,
            options: &group.options,
            catalogue: group.workload.catalogue().clone(),
            template: RequestTemplate::new(&load.server, &group.options),
            connector: load
                .server
                .tls
                .as_ref()
                .map(|tls| Connector::new(tls, matches!(group.options.protocol, Protocol::Http2 { .. }))),
            first_class,
            sequence,
            sessions: vec![VecDeque::new(); if has_sessions { connections } else { 0 }],
            exhausted: connections == 0,
            unstarted: if closed { places.clone() } else { 0..0 },
            idle: if closed { Vec::new() } else { places.clone().rev().collect() },
            places,
            next,
            queue: VecDeque::new(),
            waiting: 0,
            under_way: 0,
            validators: HashMap::new(),
        }
    }

    pub(super) fn is_closed_loop(&self) -> bool {
        matches!(self.next, Next::Never)
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    pub(super) fn exhaust(&mut self) {
        self.exhausted = true;
    }

    pub(super) fn file(&self, file: FileId) -> &File {
        &self.catalogue.files[file as usize]
    }

    /// The place of a file's class among all classes of the run.
    pub(super) fn class(&self, file: FileId) -> usize {
        self.first_class + usize::from(self.file(file).class)
    }

    /// When the next request of an open loop is due.
    pub(super) fn next_due(&self, origin: Instant) -> Option<Instant> {
        if self.exhausted {
            return None;
        }
        match &self.next {
            Next::Never => None,
            Next::Due(due) => Some(origin + due.next()),
            Next::Recorded { ask, speed_up } => {
                let at = ask.as_ref()?.at.unwrap_or_default();
                Some(origin + at.div_f64(*speed_up))
            }
        }
    }

    /// Queues the request that is due.
    pub(super) fn queue(&mut self, due: Instant, random: &mut fastrand::Rng) {
        let ask = match &mut self.next {
            Next::Never => None,
            Next::Due(next) => {
                next.advance(random);
                self.sequence.next()
            }
            Next::Recorded { ask, .. } => std::mem::replace(ask, self.sequence.next()),
        };
        match ask {
            Some(ask) => {
                self.queue.push_back((ask, due));
                self.under_way += 1;
            }
            None => self.exhausted = true,
        }
        if let Next::Recorded { ask: None, .. } = self.next {
            self.exhausted = true;
        }
    }

    /// Takes a request out of the queue that has waited there for so long.
    pub(super) fn overdue(&mut self, now: Instant, timeout: Duration) -> Option<(Ask, Instant)> {
        let (_, due) = self.queue.front()?;
        if *due + timeout > now { None } else { self.dequeue() }
    }

    fn dequeue(&mut self) -> Option<(Ask, Instant)> {
        self.waiting = self.waiting.saturating_sub(1);
        self.queue.pop_front()
    }

    /// Requests that wait since the last call because all connections are busy.
    pub(super) fn newly_waiting(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.waiting, self.queue.len());
        (self.waiting - before) as u64
    }

    /// A connection for the request at the head of the queue, if there are both.
    pub(super) fn place_for_next(&mut self) -> Option<usize> {
        if self.queue.is_empty() { None } else { self.idle.pop() }
    }

    /// A connection of an open loop has room for a request.
    pub(super) fn put_idle(&mut self, place: usize) {
        self.idle.push(place);
    }

    /// What the client at a place, who may ask now, asks: what is due, or in a closed loop the next request of all.
    pub(super) fn take(&mut self, place: usize, now: Instant) -> Option<(Ask, Instant)> {
        if !self.is_closed_loop() {
            return self.dequeue();
        }
        if self.exhausted {
            return None;
        }
        let ask = match self.sessions.get_mut(place - self.places.start) {
            // A session is one client's, whole, and not dealt out to many.
            Some(session) => {
                while session.is_empty() || session.back().is_some_and(|ask| !ask.closes) {
                    let Some(ask) = self.sequence.next() else { break };
                    session.push_back(ask);
                    if session.len() == SESSION_MAX {
                        break;
                    }
                }
                session.pop_front()
            }
            None => self.sequence.next(),
        };
        self.exhausted = ask.is_none();
        self.under_way += usize::from(ask.is_some());
        ask.map(|ask| (ask, now))
    }

    /// Draws what the request has besides its target.
    pub(super) fn draw(&mut self, ask: Ask, due: Instant, random: &mut fastrand::Rng) -> Pending {
        let options = self.options;
        let chance = |part: f64, random: &mut fastrand::Rng| part > 0.0 && random.f64() < part;
        let conditional = chance(options.conditional, random) && self.validators.contains_key(&ask.file);
        let range = match self.file(ask.file).bytes {
            Some(bytes @ 1..)
                if !conditional && !self.file(ask.file).program && chance(options.ranges, random) =>
            {
                let first = random.u64(0..bytes);
                Some((first, random.u64(first..bytes)))
            }
            _ => None,
        };
        Pending {
            file: ask.file,
            due,
            range,
            conditional,
            encoding: self.encoding(random),
            message: ask.message,
            closes: ask.closes,
            retried: false,
            wrong: false,
            stream: 0,
            body: None,
            reply: StreamedReply::default(),
        }
    }

    fn encoding(&self, random: &mut fastrand::Rng) -> Option<u8> {
        if self.options.encodings.is_empty() {
            return None;
        }
        let mut left = random.f64();
        let found = self.options.encodings.iter().position(|(_, part)| {
            left -= part;
            left < 0.0
        });
        found.map(|place| place as u8)
    }

    /// What a request brings along.
    pub(super) fn body(&self, pending: &Pending) -> Option<Body> {
        match &pending.message {
            Some(message) => message.body.clone().map(Body::new),
            None => self.options.body.clone(),
        }
    }

    pub(super) fn method(&self, pending: &Pending) -> Method {
        method(self.options.method, pending.message.as_deref())
    }

    /// What was asked, for those that read the answer.
    pub(super) fn asked(&self, pending: &Pending) -> Asked {
        Asked {
            head_only: self.method(pending) == Method::Head,
            validator: self.wants_validator(pending.file),
        }
    }

    /// What looks at the body of an answer.
    pub(super) fn look<'p>(
        &'p self,
        file: FileId,
        range: Option<(u64, u64)>,
        originals: &'p mut Originals,
        wrong: &'p mut bool,
    ) -> Look<'p> {
        Look {
            verify: &self.options.verify,
            originals,
            file,
            target: &self.file(file).target,
            by_program: self.file(file).program,
            from: range.map_or(0, |(first, _)| first),
            wrong,
        }
    }

    /// Whether a request is its connection's last, where it is the `nth` on it.
    pub(super) fn is_last(&self, pending: &Pending, nth: u32) -> bool {
        pending.closes || matches!(self.options.keep, Keep::Requests(most) if nth >= most)
    }

    /// Writes a request's head.
    pub(super) fn write(&self, pending: &Pending, body: Option<&Body>, last: bool, out: &mut Vec<u8>) {
        self.template.write(&self.file(pending.file).target, self.extras(pending, body, last), out);
    }

    /// The same as a request of HTTP/2. Returns its stream.
    pub(super) fn open(
        &self,
        pending: &Pending,
        body: Option<&Body>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> u32 {
        self.template.open(&self.file(pending.file).target, self.extras(pending, body, false), client, out)
    }

    fn extras<'p>(&'p self, pending: &'p Pending, body: Option<&Body>, last: bool) -> Extras<'p> {
        let condition = if pending.conditional { self.validators.get(&pending.file) } else { None };
        Extras {
            range: pending.range,
            message: pending.message.as_deref(),
            body_bytes: body.map(Body::bytes),
            condition: condition.map(|condition| &**condition),
            encoding: pending.encoding,
            last,
        }
    }

    /// The TLS of a connection, if the server speaks it.
    pub(super) fn session(&mut self, place: usize) -> Result<Option<UnbufferedClientConnection>, Errno> {
        let Some(connector) = &mut self.connector else { return Ok(None) };
        connector.session(place).map(Some).map_err(|_| Errno::PROTO)
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self.options.protocol, Protocol::Http2 { .. })
    }

    /// Whether an answer's validator is wanted: there are conditional requests, and none is known of this file.
    pub(super) fn wants_validator(&self, file: FileId) -> bool {
        self.options.conditional > 0.0 && !self.validators.contains_key(&file)
    }

    pub(super) fn keep_validator(&mut self, file: FileId, validator: Box<str>) {
        self.validators.insert(file, validator);
    }
}
