//! Servers of HTTP/2: a thread that has the connections to them, and many requests on each.
//!
//! To the request path, such a server is one of HTTP/1.1 at the other end of a pair of sockets, so loops share no connection and no lock.
//! The thread turns each [request](request) into a stream, and its [response](response) back. A slow reader at either side holds its
//! stream back, and no other: the thread reads no more of a request than the server has windows for, and the server sends no more of a
//! response than its reader takes. How a connection is made, and which of several servers is asked, others know.

mod connection;
mod exchange;
mod origin;
mod request;
mod response;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flash_h2::{ClientEvent, ConnectionError, ErrorCode};
use flash_os::channel::Channel;
use flash_os::poller::{Interest, Poller};
use flash_os::socket;
use rustix::net::SocketType;

use self::connection::{Connection, Retired};
use self::exchange::{Exchange, Place};
pub(crate) use self::origin::{Made, Origin};
use self::response::Fields;

enum Command {
    Request(Arc<dyn Origin>, OwnedFd),
    /// Over this connection, which no other request gets.
    Alone(Arc<dyn Origin>, OwnedFd, Made),
    Connected(Arc<dyn Origin>, Option<Made>),
    /// Of the server with this key.
    Moved(usize),
    Close,
}

/// The way to the thread.
#[derive(Debug)]
pub(crate) struct Multiplexer {
    channel: Arc<Channel<Command>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Worker {
    channel: Arc<Channel<Command>>,
    poller: Poller,
    /// The last token.
    tokens: u64,
    connections: HashMap<u64, Connection>,
    exchanges: HashMap<u64, Exchange>,
    /// Exchanges for which no connection has room, in their order.
    waiting: VecDeque<u64>,
    /// Servers to which a connection is being made.
    connecting: HashSet<usize>,
    buffer: Vec<u8>,
    start: Instant,
}

const COMMANDS: u64 = 0;
const EVENTS_MAX: usize = 256;
const BUFFER_BYTES: usize = 64 << 10;
/// More connections than this no server has.
const CONNECTIONS_MAX: usize = 128;

impl Multiplexer {
    /// # Errors
    /// When the process cannot have another thread, or a descriptor more.
    pub(crate) fn start() -> io::Result<Self> {
        let mut worker = Worker::new()?;
        let channel = Arc::clone(&worker.channel);
        let thread = thread::Builder::new().name("http2".into()).spawn(move || worker.run())?;
        Ok(Self { channel, thread: Mutex::new(Some(thread)) })
    }

    /// The end of a pair that speaks HTTP/1.1 with this server, for one request.
    ///
    /// # Errors
    /// When the process cannot have a descriptor more.
    pub(crate) fn open(&self, origin: Arc<dyn Origin>) -> io::Result<OwnedFd> {
        let (ours, theirs) = pair()?;
        self.channel.send(Command::Request(origin, theirs));
        Ok(ours)
    }

    /// The same, over this connection, which no other request gets.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn open_alone(&self, origin: Arc<dyn Origin>, made: Made) -> io::Result<OwnedFd> {
        let (ours, theirs) = pair()?;
        self.channel.send(Command::Alone(origin, theirs, made));
        Ok(ours)
    }

    /// A connection was made, or `None` could be.
    pub(crate) fn connected(&self, origin: Arc<dyn Origin>, made: Option<Made>) {
        self.channel.send(Command::Connected(origin, made));
    }

    /// The connections to this server lead to another address by now. They take no more requests.
    pub(crate) fn moved<O: Origin>(&self, origin: &O) {
        self.channel.send(Command::Moved(std::ptr::from_ref(origin) as usize));
    }

    /// Ends the thread, and all exchanges.
    pub(crate) fn close(&self) {
        self.channel.send(Command::Close);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socket::pair(SocketType::STREAM)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    rustix::io::ioctl_fionbio(&theirs, true)?;
    Ok((ours, theirs))
}

/// What tells servers apart.
fn key(origin: &Arc<dyn Origin>) -> usize {
    Arc::as_ptr(origin).cast::<()>() as usize
}

impl Worker {
    fn new() -> io::Result<Self> {
        let channel = Arc::new(Channel::new()?);
        let poller = Poller::new()?;
        poller.add_waker(channel.waker(), COMMANDS)?;
        Ok(Self {
            channel,
            poller,
            tokens: COMMANDS,
            connections: HashMap::new(),
            exchanges: HashMap::new(),
            waiting: VecDeque::new(),
            connecting: HashSet::new(),
            buffer: vec![0; BUFFER_BYTES],
            start: Instant::now(),
        })
    }

    fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            if self.poller.wait(&mut events, self.timeout(Instant::now())).is_err() {
                return;
            }
            for event in &events {
                match event.token {
                    token if self.connections.contains_key(&token) => self.connection_ready(token),
                    token if event.ready.is_gone() => self.cancel(token),
                    token => self.exchange_ready(token),
                }
            }
            let channel = Arc::clone(&self.channel);
            for command in channel.drain() {
                match command {
                    Command::Request(origin, stream) => self.begin(Exchange::new(origin, stream)),
                    Command::Alone(origin, stream, made) => self.begin_alone(origin, stream, made),
                    Command::Connected(origin, made) => self.connected(&origin, made),
                    Command::Moved(key) => self.retire_all(key),
                    Command::Close => return,
                }
            }
            self.expire(Instant::now());
        }
    }

    /// Until the next connection expires.
    fn timeout(&self, now: Instant) -> Option<Duration> {
        let first = self.connections.values().filter_map(Connection::expires_at).min()?;
        Some(first.saturating_duration_since(now) + Duration::from_millis(1))
    }

    /// Ends connections that were idle for long enough, and those to servers that say nothing.
    fn expire(&mut self, now: Instant) {
        let is_late = |of: &Connection| of.expires_at().is_some_and(|at| now >= at);
        let late = self.connections.iter().filter(|(_, of)| is_late(of));
        let ends: Vec<(u64, bool)> = late.map(|(token, of)| (*token, of.has_settings())).collect();
        for (token, has_settings) in ends {
            let why = (!has_settings).then(|| "has not sent its settings in time".to_owned());
            self.end_connection(token, why);
        }
    }

    fn token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    /// An exchange is over: the request path sees the end of its stream.
    fn forget(&mut self, token: u64) -> Option<Exchange> {
        let exchange = self.exchanges.remove(&token)?;
        self.poller.disarm(&exchange.stream);
        Some(exchange)
    }

    fn begin(&mut self, exchange: Exchange) {
        let token = self.token();
        if self.poller.add(&exchange.stream, token, Interest::INPUT).is_ok() {
            self.exchanges.insert(token, exchange);
            // The request may be there already.
            self.exchange_ready(token);
        }
    }

    fn begin_alone(&mut self, origin: Arc<dyn Origin>, stream: OwnedFd, made: Made) {
        let mut connection = Connection::new(Arc::clone(&origin), made);
        connection.is_shared = false;
        let Some(number) = self.add(connection) else { return };
        let mut exchange = Exchange::new(origin, stream);
        exchange.own = Some(number);
        self.begin(exchange);
        self.flush(number);
    }

    fn add(&mut self, connection: Connection) -> Option<u64> {
        let token = self.token();
        self.poller.add(&connection.stream, token, Interest::INPUT).ok()?;
        self.connections.insert(token, connection);
        Some(token)
    }

    fn connected(&mut self, origin: &Arc<dyn Origin>, made: Option<Made>) {
        self.connecting.remove(&key(origin));
        match made.and_then(|made| self.add(Connection::new(Arc::clone(origin), made))) {
            Some(number) => {
                self.tell(origin);
                self.flush(number);
            }
            None => {
                self.tell(origin);
                self.fail_waiting(origin);
            }
        }
    }

    /// The connections to a server that serve any request.
    fn open<'w>(&'w self, origin: &Arc<dyn Origin>) -> impl Iterator<Item = &'w Connection> + use<'w> {
        let wanted = key(origin);
        self.connections.values().filter(move |of| key(&of.origin) == wanted && of.is_open())
    }

    fn tell(&self, origin: &Arc<dyn Origin>) {
        origin.set_open(self.open(origin).count());
    }

    fn is_waiting_for(&self, token: u64, origin: &Arc<dyn Origin>) -> bool {
        self.exchanges.get(&token).is_some_and(|of| key(&of.origin) == key(origin) && of.own.is_none())
    }

    /// Without a connection, nothing is worth waiting for. Those that wait go on waiting for the connections that there are.
    fn fail_waiting(&mut self, origin: &Arc<dyn Origin>) {
        if self.open(origin).next().is_some() {
            return;
        }
        for token in std::mem::take(&mut self.waiting) {
            match self.is_waiting_for(token, origin) {
                true => _ = self.forget(token),
                false => self.waiting.push_back(token),
            }
        }
    }

    /// Gives those that wait a stream, as far as there is room.
    fn serve_waiting(&mut self) {
        let mut full = HashSet::new();
        for token in std::mem::take(&mut self.waiting) {
            let Some(exchange) = self.exchanges.get(&token) else { continue };
            let (server, is_alone) = (key(&exchange.origin), exchange.own.is_some());
            if !is_alone && full.contains(&server) {
                self.waiting.push_back(token);
            } else if !self.place(token) && !is_alone {
                full.insert(server);
            }
        }
    }

    /// Gives a request a stream, or has it wait. Returns whether there was room.
    fn place(&mut self, token: u64) -> bool {
        let Some(exchange) = self.exchanges.get_mut(&token) else { return true };
        let (origin, own) = (Arc::clone(&exchange.origin), exchange.own);
        let is_of = |number: u64, of: &Connection| match own {
            Some(own) => number == own,
            None => of.is_shared && key(&of.origin) == key(&origin),
        };
        // The first that has room: the others may end.
        let found = self.connections.iter_mut().filter(|(number, of)| is_of(**number, of) && of.has_room());
        let Some((&number, connection)) = found.min_by_key(|(number, _)| **number) else {
            exchange.place = Place::Waiting;
            self.waiting.push_back(token);
            if own.is_none() {
                self.connect(origin);
            }
            return false;
        };
        let is_first = connection.is_shared && !connection.has_served;
        exchange.open(number, connection, token);
        if is_first {
            origin.is_served();
        }
        self.send_body(token);
        self.flush(number);
        true
    }

    /// Has one more connection made, if none is on its way.
    fn connect(&mut self, origin: Arc<dyn Origin>) {
        let wanted = key(&origin);
        if self.connecting.contains(&wanted) {
            return;
        }
        let all = self.connections.values().filter(|of| key(&of.origin) == wanted && of.is_counted());
        let mut count = 0;
        for connection in all {
            if connection.is_open() && !connection.has_settings() {
                return;
            }
            count += 1;
        }
        if count < CONNECTIONS_MAX {
            self.connecting.insert(wanted);
            origin.connect();
        }
    }

    /// Passes on what has come of a request's body.
    fn send_body(&mut self, token: u64) {
        let Some(exchange) = self.exchanges.get_mut(&token) else { return };
        if let Place::On { connection, stream } = exchange.place
            && let Some(connection) = self.connections.get_mut(&connection)
        {
            exchange.send_body(connection, stream);
        }
        self.settle(token);
    }

    /// The same, of all requests of a connection.
    fn send_bodies(&mut self, number: u64) {
        let Some(connection) = self.connections.get(&number) else { return };
        let tokens: Vec<u64> = connection.streams.values().copied().collect();
        tokens.into_iter().for_each(|token| self.send_body(token));
    }

    /// Tells the poller what an exchange waits for.
    fn settle(&mut self, token: u64) {
        let Some(exchange) = self.exchanges.get_mut(&token) else { return };
        let interest = exchange.wanted();
        if exchange.interest != interest && self.poller.modify(&exchange.stream, token, interest).is_ok() {
            exchange.interest = interest;
        }
    }

    /// The request path has written something, has room, or is gone.
    fn exchange_ready(&mut self, token: u64) {
        let Some(exchange) = self.exchanges.get_mut(&token) else { return };
        if exchange.read(&mut self.buffer).is_none() {
            return self.cancel(token);
        }
        let is_new = matches!(exchange.place, Place::Head) && exchange.request.has_head();
        let before = exchange.place;
        self.write_response(token);
        match self.exchanges.get(&token).map(|exchange| exchange.place) {
            Some(_) if is_new => _ = self.place(token),
            Some(Place::On { connection, .. }) => {
                self.send_body(token);
                self.flush(connection);
            }
            Some(Place::Head | Place::Waiting) => self.settle(token),
            None => {
                // Its stream is free, and its connection may be over.
                if let Place::On { connection, .. } = before {
                    self.flush(connection);
                }
                self.serve_waiting();
            }
        }
    }

    /// The request path has given a request up.
    fn cancel(&mut self, token: u64) {
        let Some(exchange) = self.forget(token) else { return };
        if let Place::On { connection: number, stream } = exchange.place
            && let Some(connection) = self.connections.get_mut(&number)
        {
            connection.cancel(stream, Instant::now());
            self.flush(number);
            self.tell(&exchange.origin);
            self.serve_waiting();
            return;
        }
        self.waiting.retain(|other| *other != token);
        if let Some(number) = exchange.own {
            self.end_connection(number, None);
        }
    }

    /// Passes on what has come of a response. With its last byte, the exchange is over.
    fn write_response(&mut self, token: u64) {
        let Some(exchange) = self.exchanges.get_mut(&token) else { return };
        if !exchange.write() {
            return self.cancel(token);
        }
        let Place::On { connection: number, stream } = exchange.place else { return };
        let is_written = exchange.response.unwritten().is_empty();
        let is_done = is_written && exchange.response.is_complete();
        // The server may have ended it meanwhile.
        if let Some(connection) = self.connections.get_mut(&number) {
            if is_written {
                connection.client.consumed(stream, std::mem::take(&mut exchange.response.body_bytes));
            }
            if is_done {
                connection.finish(stream, exchange.is_sent);
            }
        }
        match is_done {
            true => _ = self.forget(token),
            false => self.settle(token),
        }
    }

    fn connection_ready(&mut self, number: u64) {
        let state = |of: &Connection| (of.is_open(), of.has_room());
        let (before, waiting) = (self.connections.get(&number).map(state), self.waiting.len());
        if let Err(why) = self.receive(number) {
            return self.end_connection(number, why);
        }
        let Some(connection) = self.connections.get(&number) else { return };
        if connection.allows_nothing() {
            return self.end_connection(number, None);
        }
        let (now, origin) = (Some(state(connection)), Arc::clone(&connection.origin));
        self.flush(number);
        // Only what has changed may serve them.
        if now != before || self.waiting.len() > waiting {
            self.tell(&origin);
            self.serve_waiting();
        }
    }

    /// Reads what the server has sent. Fails if the connection ends, with a reason if that is the server's fault.
    fn receive(&mut self, number: u64) -> Result<(), Option<String>> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let received = self.receive_into(number, &mut buffer);
        self.buffer = buffer;
        received
    }

    fn receive_into(&mut self, number: u64, buffer: &mut [u8]) -> Result<(), Option<String>> {
        let now_ms = self.start.elapsed().as_millis() as u64;
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        let mut plain = Vec::new();
        let mut input = connection.receive(buffer, &mut plain)?;
        while let Some(connection) = self.connections.get_mut(&number) {
            let mut fields = Fields::default();
            let event = connection.client.next(&mut input, now_ms, |_, name, value| fields.put(name, value));
            let why = |error: ConnectionError| Some(error.reason.to_owned());
            match event.map_err(why)? {
                Some(event) => self.take(number, event, fields),
                None => break,
            }
        }
        Ok(())
    }

    fn take(&mut self, number: u64, event: ClientEvent<'_>, fields: Fields) {
        match event {
            ClientEvent::Fields { stream, ends } => self.respond(number, stream, |exchange| {
                exchange.response.fields(fields, ends, exchange.request.is_head())
            }),
            ClientEvent::Data { stream, bytes, ends } => {
                self.respond(number, stream, |exchange| exchange.response.data(bytes, ends));
            }
            ClientEvent::Reset { stream, code } => {
                self.report(number, "has reset a stream", code);
                self.reset(number, stream, code == ErrorCode::REFUSED_STREAM);
            }
            ClientEvent::Goaway { last_stream, code } => {
                self.report(number, "has sent GOAWAY", code);
                let Some(connection) = self.connections.get(&number) else { return };
                let refused = connection.streams.keys().copied().filter(|stream| *stream > last_stream);
                refused.collect::<Vec<_>>().into_iter().for_each(|stream| self.reset(number, stream, true));
            }
            ClientEvent::Window { stream: 0 } => self.send_bodies(number),
            ClientEvent::Window { stream } => {
                let Some(connection) = self.connections.get(&number) else { return };
                if let Some(&token) = connection.streams.get(&stream) {
                    self.send_body(token);
                }
            }
        }
    }

    /// The server has ended something with this code, which may say that something is wrong.
    fn report(&self, number: u64, what: &str, code: ErrorCode) {
        let is_usual = matches!(code, ErrorCode::NO_ERROR | ErrorCode::CANCEL | ErrorCode::REFUSED_STREAM);
        if let Some(connection) = self.connections.get(&number).filter(|_| !is_usual) {
            connection.origin.report(&format!("{what}: {code}"));
        }
    }

    /// A part of a response has come.
    fn respond(
        &mut self,
        number: u64,
        stream: u32,
        take: impl FnOnce(&mut Exchange) -> Result<(), &'static str>,
    ) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Some(&token) = connection.streams.get(&stream) else { return };
        let Some(exchange) = self.exchanges.get_mut(&token) else { return };
        (exchange.has_answer, connection.has_answered) = (true, true);
        if let Err(why) = take(exchange) {
            connection.origin.report(why);
            connection.finish(stream, false);
            self.forget(token);
            return;
        }
        self.write_response(token);
    }

    /// The server has ended a stream. A request that it has not looked at gets another one.
    fn reset(&mut self, number: u64, stream: u32, is_refused: bool) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Some(token) = connection.streams.remove(&stream) else { return };
        connection.client.forget(stream);
        self.lose(token, |_| is_refused);
    }

    /// An exchange has no stream any more. A complete response is still its reader's, and the request may get another one.
    fn lose(&mut self, token: u64, may_move: impl FnOnce(&Exchange) -> bool) {
        let Some(exchange) = self.exchanges.get_mut(&token) else { return };
        if exchange.response.is_complete() {
            exchange.is_sent = true;
        } else if may_move(exchange) && exchange.may_move() {
            self.waiting.push_back(token);
        } else {
            self.forget(token);
        }
    }

    /// Sends what waits for the server.
    fn flush(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let had_backlog = connection.has_backlog();
        let Some(interest) = connection.flush() else { return self.end_connection(number, None) };
        if connection.interest != interest && self.poller.modify(&connection.stream, number, interest).is_ok()
        {
            connection.interest = interest;
        }
        if had_backlog && !connection.has_backlog() {
            self.send_bodies(number);
            // What that has written may be the beginning of the next backlog.
            return self.flush(number);
        }
        if connection.is_over() {
            self.end_connection(number, None);
        }
    }

    fn retire_all(&mut self, of: usize) {
        let all = self.connections.iter().filter(|(_, connection)| key(&connection.origin) == of);
        let all: Vec<u64> = all.map(|(token, _)| *token).collect();
        for number in all {
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.retired = Some(Retired::Moved);
            }
            self.flush(number);
        }
        let some = self.connections.values().find(|connection| key(&connection.origin) == of);
        if let Some(connection) = some {
            self.tell(&connection.origin);
        }
    }

    fn end_connection(&mut self, number: u64, why: Option<String>) {
        let Some(connection) = self.connections.remove(&number) else { return };
        let origin = &connection.origin;
        let is_wanted = self.waiting.iter().any(|token| self.is_waiting_for(*token, origin));
        let is_unused = connection.is_shared && connection.retired.is_none() && !connection.has_served;
        let is_useless = is_unused && (is_wanted || !connection.has_settings());
        match why {
            why if is_useless => origin.is_useless(why.as_deref().unwrap_or("has allowed no request")),
            Some(why) => origin.report(&why),
            None => {}
        }
        self.poller.disarm(&connection.stream);
        for token in connection.streams.values() {
            // The server may have closed a used connection before it saw the request.
            self.lose(*token, |exchange| {
                connection.has_answered && !exchange.has_answer && exchange.request.is_repeatable()
            });
        }
        let alone = self.exchanges.iter().find(|(_, of)| of.own == Some(number));
        if let Some((&token, _)) = alone {
            self.lose(token, |_| false);
        }
        self.tell(origin);
        if is_useless {
            self.fail_waiting(origin);
        }
        self.serve_waiting();
    }
}

#[cfg(test)]
mod tests;
