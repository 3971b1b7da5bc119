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

use self::connection::Connection;
use self::exchange::{Exchange, Place};
pub(crate) use self::origin::{Made, Origin};
use self::response::Fields;

enum Command {
    Request(Arc<dyn Origin>, OwnedFd),
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
/// How long a connection is kept without a request.
const IDLE_MAX: Duration = Duration::from_secs(60);

impl Multiplexer {
    /// # Errors
    /// When the process cannot have another thread, or a descriptor more.
    pub(crate) fn start() -> io::Result<Self> {
        let channel = Arc::new(Channel::new()?);
        let poller = Poller::new()?;
        poller.add_waker(channel.waker(), COMMANDS)?;
        let mut worker = Worker {
            channel: Arc::clone(&channel),
            poller,
            tokens: COMMANDS,
            connections: HashMap::new(),
            exchanges: HashMap::new(),
            waiting: VecDeque::new(),
            connecting: HashSet::new(),
            buffer: vec![0; BUFFER_BYTES],
            start: Instant::now(),
        };
        let thread = thread::Builder::new().name("http2".into()).spawn(move || worker.run())?;
        Ok(Self { channel, thread: Mutex::new(Some(thread)) })
    }

    /// The end of a pair that speaks HTTP/1.1 with this server, for one request.
    ///
    /// # Errors
    /// When the process cannot have a descriptor more.
    pub(crate) fn open(&self, origin: Arc<dyn Origin>) -> io::Result<OwnedFd> {
        let (ours, theirs) = socket::pair(SocketType::STREAM)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        rustix::io::ioctl_fionbio(&theirs, true)?;
        self.channel.send(Command::Request(origin, theirs));
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

/// What tells servers apart.
fn key(origin: &Arc<dyn Origin>) -> usize {
    Arc::as_ptr(origin).cast::<()>() as usize
}

impl Worker {
    fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            if self.poller.wait(&mut events, self.timeout()).is_err() {
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
                    Command::Request(origin, stream) => self.begin(origin, stream),
                    Command::Connected(origin, made) => self.connected(&origin, made),
                    Command::Moved(key) => self.retire_all(key),
                    Command::Close => return,
                }
            }
            self.expire_idle(Instant::now());
        }
    }

    /// Until a connection has been idle for long enough.
    fn timeout(&self) -> Option<Duration> {
        let ends = self.connections.values().filter(|connection| connection.streams.is_empty());
        let first = ends.map(|connection| connection.idle_since + IDLE_MAX).min()?;
        Some(first.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
    }

    fn expire_idle(&mut self, now: Instant) {
        let is_idle = |of: &Connection| of.streams.is_empty() && now >= of.idle_since + IDLE_MAX;
        let ends: Vec<u64> =
            self.connections.iter().filter(|(_, of)| is_idle(of)).map(|(token, _)| *token).collect();
        ends.into_iter().for_each(|token| self.end_connection(token, None));
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

    fn begin(&mut self, origin: Arc<dyn Origin>, stream: OwnedFd) {
        let token = self.token();
        if self.poller.add(&stream, token, Interest::INPUT).is_ok() {
            self.exchanges.insert(token, Exchange::new(origin, stream));
            // The request may be there already.
            self.exchange_ready(token);
        }
    }

    fn connected(&mut self, origin: &Arc<dyn Origin>, made: Option<Made>) {
        self.connecting.remove(&key(origin));
        let token = self.token();
        if let Some((stream, tls)) = made
            && self.poller.add(&stream, token, Interest::INPUT).is_ok()
        {
            self.connections.insert(token, Connection::new(Arc::clone(origin), (stream, tls)));
            self.flush(token);
            self.serve_waiting();
        } else {
            // Those that wait go on waiting for the connections that there are.
            self.fail_waiting(origin);
        }
    }

    /// Without a connection, nothing is worth waiting for.
    fn fail_waiting(&mut self, origin: &Arc<dyn Origin>) {
        if self.connections.values().any(|connection| key(&connection.origin) == key(origin)) {
            return;
        }
        for token in std::mem::take(&mut self.waiting) {
            match self.exchanges.get(&token) {
                Some(exchange) if key(&exchange.origin) == key(origin) => _ = self.forget(token),
                _ => self.waiting.push_back(token),
            }
        }
    }

    /// Gives those that wait a stream, as far as there is room.
    fn serve_waiting(&mut self) {
        for token in std::mem::take(&mut self.waiting) {
            self.place(token);
        }
        self.tell_origins();
    }

    fn tell_origins(&self) {
        let mut open: HashMap<usize, (&Arc<dyn Origin>, usize)> = HashMap::new();
        for connection in self.connections.values() {
            let (_, count) = open.entry(key(&connection.origin)).or_insert((&connection.origin, 0));
            *count += usize::from(connection.has_room());
        }
        open.values().for_each(|(origin, count)| origin.set_open(*count));
    }

    /// Gives a request a stream, or has it wait.
    fn place(&mut self, token: u64) {
        let Some(exchange) = self.exchanges.get_mut(&token) else { return };
        let origin = Arc::clone(&exchange.origin);
        let is_of =
            |connection: &Connection| key(&connection.origin) == key(&origin) && connection.has_room();
        // The first that has room: the others may end.
        let found = self.connections.iter_mut().filter(|(_, of)| is_of(of)).min_by_key(|(token, _)| **token);
        let Some((number, connection)) = found else {
            exchange.place = Place::Waiting;
            self.waiting.push_back(token);
            let is_of = |connection: &Connection| key(&connection.origin) == key(&origin);
            let is_awaited = self.connections.values().any(|of| is_of(of) && !of.has_settings());
            if !is_awaited && self.connecting.insert(key(&origin)) {
                origin.connect();
            }
            return;
        };
        exchange.open(*number, connection, token);
        let number = *number;
        self.send_body(token);
        self.flush(number);
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
            Some(_) if is_new => {
                self.place(token);
                self.tell_origins();
            }
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
            connection.cancel(stream, exchange.received_before);
            self.flush(number);
            self.serve_waiting();
        }
    }

    /// Passes on what has come of a response. With its last byte, the exchange is over.
    fn write_response(&mut self, token: u64) {
        let Some(exchange) = self.exchanges.get_mut(&token) else { return };
        if !exchange.write() {
            return self.cancel(token);
        }
        let Place::On { connection: number, stream } = exchange.place else { return };
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if exchange.response.unwritten().is_empty() {
            connection.client.consumed(stream, std::mem::take(&mut exchange.response.body_bytes));
            if exchange.response.is_complete() {
                connection.finish(stream, exchange.is_sent);
                self.forget(token);
                return;
            }
        }
        self.settle(token);
    }

    fn connection_ready(&mut self, number: u64) {
        if let Err(why) = self.receive(number) {
            return self.end_connection(number, why);
        }
        self.flush(number);
        self.serve_waiting();
    }

    /// Reads what the server has sent. Fails if the connection ends, with a reason if that is the server's fault.
    fn receive(&mut self, number: u64) -> Result<(), Option<String>> {
        let now_ms = self.start.elapsed().as_millis() as u64;
        let mut buffer = std::mem::take(&mut self.buffer);
        let received = match self.connections.get_mut(&number) {
            Some(connection) => connection.receive(&mut buffer),
            None => Ok(Vec::new()),
        };
        self.buffer = buffer;
        let bytes = received?;
        let mut input = &bytes[..];
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
                self.reset(number, stream, code == ErrorCode::REFUSED_STREAM)
            }
            ClientEvent::Goaway { last_stream, .. } => {
                let Some(connection) = self.connections.get(&number) else { return };
                let refused = connection.streams.keys().copied().filter(|stream| *stream > last_stream);
                refused.collect::<Vec<_>>().into_iter().for_each(|stream| self.reset(number, stream, true));
            }
            ClientEvent::Window => {
                let Some(connection) = self.connections.get(&number) else { return };
                let tokens: Vec<u64> = connection.streams.values().copied().collect();
                tokens.into_iter().for_each(|token| self.send_body(token));
            }
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
        exchange.has_answer = true;
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
        match is_refused && self.exchanges.get_mut(&token).is_some_and(Exchange::may_move) {
            true => self.waiting.push_back(token),
            false => _ = self.forget(token),
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
            let tokens: Vec<u64> = connection.streams.values().copied().collect();
            tokens.into_iter().for_each(|token| self.send_body(token));
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
                connection.is_retired = true;
            }
            self.flush(number);
        }
        self.tell_origins();
    }

    fn end_connection(&mut self, number: u64, why: Option<String>) {
        let Some(connection) = self.connections.remove(&number) else { return };
        if let Some(why) = why {
            connection.origin.report(&why);
        }
        self.poller.disarm(&connection.stream);
        for token in connection.streams.values() {
            self.forget(*token);
        }
        connection.origin.set_open(0);
        if !connection.has_settings() {
            self.fail_waiting(&connection.origin);
        }
        self.serve_waiting();
    }
}

#[cfg(test)]
mod tests;
