//! Many requests on a connection, and servers that refuse, leave, lie and flood.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use flash_h2::frame::{self, FLAGS_AT, FrameHeader, flag, kind};
use flash_h2::hpack::encoder;
use flash_h2::request::HeadLimits;
use flash_h2::session::Limits;
use flash_h2::{Event, Scratch, Session};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(7_200);

struct Server {
    multiplexer: OnceLock<Arc<Multiplexer>>,
    made: Mutex<Sender<UnixStream>>,
    /// Connections that it refuses.
    refused: AtomicUsize,
    open: AtomicUsize,
    faults: Mutex<Vec<String>>,
}

impl Origin for Server {
    fn scheme(&self) -> &'static str {
        "http"
    }

    fn connect_time(&self) -> Duration {
        CONNECT
    }

    fn connect(self: Arc<Self>) {
        let refuse = |left: usize| left.checked_sub(1);
        let is_refused = self.refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, refuse).is_ok();
        let made = (!is_refused).then(|| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            theirs.set_read_timeout(Some(PATIENCE)).unwrap();
            self.made.lock().unwrap().send(theirs).unwrap();
            (ours.into(), None)
        });
        let origin: Arc<Self> = Arc::clone(&self);
        self.multiplexer.get().unwrap().connected(origin, made);
    }

    fn set_open(&self, connections: usize) {
        self.open.store(connections, Ordering::SeqCst);
    }

    fn is_served(&self) {}

    fn is_useless(&self, why: &str) {
        self.report(why);
    }

    fn report(&self, why: &str) {
        self.faults.lock().unwrap().push(why.into());
    }
}

struct World {
    server: Arc<Server>,
    made: Receiver<UnixStream>,
}

impl World {
    fn new() -> Self {
        let (sender, made) = channel();
        let server = Server {
            multiplexer: OnceLock::new(),
            made: Mutex::new(sender),
            refused: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            faults: Mutex::default(),
        };
        server.multiplexer.set(Arc::new(Multiplexer::start().unwrap())).unwrap();
        Self { server: Arc::new(server), made }
    }

    /// What the request path sends.
    fn ask(&self, text: &str) -> UnixStream {
        let origin: Arc<Server> = Arc::clone(&self.server);
        let mut stream = UnixStream::from(self.server.multiplexer.get().unwrap().open(origin).unwrap());
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    fn get(&self, path: &str) -> UnixStream {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
    }

    /// The server's end of a connection that was made, which allows so many streams.
    fn peer(&self, streams_max: u32) -> Peer {
        self.peer_that_adds(streams_max, &[])
    }

    /// The same. These frames follow its settings at once.
    fn peer_that_adds(&self, streams_max: u32, frames: &[u8]) -> Peer {
        let stream = self.made.recv_timeout(PATIENCE).unwrap();
        let head = HeadLimits { bytes_max: 8_000, fields_max: 40 };
        let limits = Limits { streams_max, head, resets: (100, 1), idle_frames: (1_000, 1) };
        let (session, scratch, input) = (Session::new(limits), Scratch::default(), Vec::new());
        let mut peer = Peer { stream, session, scratch, input };
        // Its settings.
        peer.send(frames);
        peer
    }

    fn faults(&self) -> Vec<String> {
        self.server.faults.lock().unwrap().clone()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.multiplexer.get().unwrap().close();
    }
}

struct Peer {
    stream: UnixStream,
    session: Session<()>,
    scratch: Scratch,
    input: Vec<u8>,
}

impl Peer {
    fn send(&mut self, bytes: &[u8]) {
        let mut all = Vec::new();
        self.session.take_control(&mut all);
        all.extend_from_slice(bytes);
        self.stream.write_all(&all).unwrap();
    }

    /// What comes next: a request's stream and path, a piece of its body, or a reset.
    fn next(&mut self) -> (u32, String) {
        loop {
            let (mut input, mut said) = (&*self.input, None);
            while said.is_none()
                && let Some(event) = self.session.next(&mut input, &mut self.scratch, 0).unwrap()
            {
                said = match event {
                    Event::Request { stream, priority, ends_stream } => {
                        self.session.open(stream, priority, ends_stream, ());
                        let text = String::from_utf8_lossy(&self.scratch.text);
                        Some((stream, text.split(' ').nth(1).unwrap().to_owned()))
                    }
                    Event::Data { stream, bytes, .. } => {
                        self.session.consumed(stream, bytes.len());
                        Some((stream, String::from_utf8_lossy(bytes).into_owned()))
                    }
                    Event::Reset(stream) => Some((stream.id, "reset".into())),
                    _ => None,
                };
            }
            let used = self.input.len() - input.len();
            self.input.drain(..used);
            self.send(&[]);
            if let Some(said) = said {
                return said;
            }
            let mut buffer = [0; 4096];
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the connection ends");
            self.input.extend_from_slice(&buffer[..count]);
        }
    }

    /// Returns once the other side has read all that was sent.
    fn is_read(&mut self) {
        let mut ping = Vec::new();
        frame::ping(&mut ping, b"all read", false);
        self.send(&ping);
        let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
        while !got.windows(8).any(|bytes| bytes == b"all read") {
            let count = self.stream.read(&mut buffer).expect("it is answered");
            assert!(count > 0, "the connection ends");
            got.extend_from_slice(&buffer[..count]);
        }
    }

    fn answer(&mut self, stream: u32, fields: &[(&str, &str)], body: &[u8], ends: bool) {
        let mut out = Vec::new();
        let start = frame::begin_headers(&mut out, stream);
        encoder::status(&mut out, 200);
        fields.iter().for_each(|(name, value)| encoder::field(&mut out, name.as_bytes(), value.as_bytes()));
        frame::end_headers(&mut out, start);
        assert_eq!(out[start + FLAGS_AT], flag::END_HEADERS);
        out.extend(data(stream, body, ends));
        self.send(&out);
        if ends {
            self.session.finish(stream, true);
        }
    }

    /// Answers the next request, which is for this path, without content.
    fn serve(&mut self, path: &str) {
        let (stream, asked) = self.next();
        assert_eq!(asked, path);
        self.answer(stream, &[], b"", true);
    }
}

fn data(stream: u32, body: &[u8], ends: bool) -> Vec<u8> {
    let flags = if ends { flag::END_STREAM } else { 0 };
    let header = FrameHeader { length: body.len() as u32, kind: kind::DATA, flags, stream };
    [&header.to_bytes()[..], body].concat()
}

/// Everything until its end.
fn said(mut stream: &UnixStream) -> String {
    let mut all = String::new();
    // One that was not read to its end is reset.
    let _ = stream.read_to_string(&mut all);
    all
}

fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it does not come");
        thread::yield_now();
    }
}

const OK: &str = "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n";
/// A response without content.
const EMPTY: &str = "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";

fn goaway(last: u32) -> Vec<u8> {
    let mut goaway = Vec::new();
    frame::goaway(&mut goaway, last, ErrorCode::NO_ERROR, "");
    goaway
}

#[test]
fn requests_share_a_connection_and_are_answered_in_any_order() {
    let world = World::new();
    let asked: Vec<UnixStream> = (0..20).map(|number| world.get(&format!("/{number}"))).collect();
    let mut peer = world.peer(100);
    let mut requests: Vec<(u32, String)> = asked.iter().map(|_| peer.next()).collect();
    requests.reverse();
    for (stream, path) in &requests {
        peer.answer(*stream, &[], path.as_bytes(), true);
    }
    for (number, stream) in asked.iter().enumerate() {
        let path = format!("/{number}");
        assert_eq!(said(stream), format!("{OK}{:x}\r\n{path}\r\n0\r\n\r\n", path.len()));
    }
    assert!(world.made.try_recv().is_err(), "one connection is enough");
    assert_eq!(world.server.open.load(Ordering::SeqCst), 1);
}

#[test]
fn a_request_waits_until_the_server_has_room() {
    let world = World::new();
    let first = world.get("/first");
    let mut peer = world.peer(1);
    let (stream, _) = peer.next();
    // There will be no other connection.
    world.server.refused.store(1, Ordering::SeqCst);
    let second = world.get("/second");
    wait_until(|| world.server.refused.load(Ordering::SeqCst) == 0);
    peer.answer(stream, &[], b"", true);
    assert_eq!(said(&first), EMPTY);
    peer.serve("/second");
    assert_eq!(said(&second), EMPTY);
}

#[test]
fn what_a_server_has_not_looked_at_goes_over_another_connection() {
    let world = World::new();
    let (first, second) = (world.get("/first"), world.get("/second"));
    let mut peer = world.peer(100);
    let (one, other) = (peer.next().0, peer.next().0);
    peer.send(&goaway(one.min(other)));
    let mut next = world.peer(100);
    let (stream, _) = next.next();
    // Refused, and then answered.
    let mut refusal = Vec::new();
    frame::rst_stream(&mut refusal, stream, ErrorCode::REFUSED_STREAM);
    next.send(&refusal);
    let (stream, _) = next.next();
    next.answer(stream, &[], b"", true);
    peer.answer(one.min(other), &[], b"", true);
    assert_eq!([said(&first), said(&second)], [EMPTY, EMPTY]);
    let mut end = [0];
    assert!(matches!(peer.stream.read(&mut end), Ok(0 | 1)), "it ends, as it was asked to");
}

#[test]
fn a_request_that_is_given_up_ends_its_stream() {
    let world = World::new();
    let first = world.get("/first");
    let mut peer = world.peer(100);
    peer.serve("/first");
    assert_eq!(said(&first), EMPTY);
    let request = world.ask("POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    assert_eq!((peer.next().1, peer.next().1), ("/up".to_owned(), "abc".to_owned()));
    drop(request);
    assert_eq!(peer.next().1, "reset");
    // Its connection has the next ones, even if the server never gets round to saying something.
    for _ in 0..20 {
        let request = world.get("/");
        assert_eq!(peer.next().1, "/");
        drop(request);
        assert_eq!(peer.next().1, "reset");
    }
    assert!(world.made.try_recv().is_err(), "one connection is enough");
}

#[test]
fn a_connection_is_given_up_if_its_server_is_silent_for_long() {
    let world = World::new();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let origin: Arc<dyn Origin> = Arc::<Server>::clone(&world.server);
    let mut connection = Connection::new(origin, (ours.into(), None));
    let asked_at = Instant::now();
    let is_retired_after = |connection: &mut Connection, seconds| {
        connection.cancel(1, asked_at + Duration::from_secs(seconds));
        connection.retired.is_some()
    };
    assert!(!is_retired_after(&mut connection, 3_600), "nothing was asked");
    connection.asked_at = Some(asked_at);
    theirs.write_all(b"x").unwrap();
    connection.receive(&mut [0; 8], &mut Vec::new()).unwrap();
    assert!(!is_retired_after(&mut connection, 3_600), "something has come");
    connection.asked_at = Some(asked_at);
    assert!(!is_retired_after(&mut connection, 1));
    assert!(is_retired_after(&mut connection, 60));
    assert!(connection.is_counted() && !connection.is_open());
}

#[test]
fn connections_that_are_given_up_count_and_those_to_a_former_address_do_not() {
    for (retired, is_another_made) in [(Retired::Silent, false), (Retired::Moved, true)] {
        let (world, mut worker) = (World::new(), Worker::new().unwrap());
        let origin: Arc<dyn Origin> = Arc::<Server>::clone(&world.server);
        for _ in 0..CONNECTIONS_MAX {
            let (ours, _) = UnixStream::pair().unwrap();
            let mut connection = Connection::new(Arc::clone(&origin), (ours.into(), None));
            connection.retired = Some(retired);
            worker.add(connection).unwrap();
        }
        worker.connect(origin);
        assert_eq!(world.made.try_recv().is_ok(), is_another_made, "{retired:?}");
    }
}

#[test]
fn a_reader_that_takes_nothing_holds_no_other_back() {
    let world = World::new();
    let (slow, other) = (world.get("/slow"), world.get("/other"));
    let mut peer = world.peer(100);
    let requests = [peer.next(), peer.next()];
    let of = |path: &str| requests.iter().find(|(_, of)| of == path).unwrap().0;
    // All that the window takes.
    peer.answer(of("/slow"), &[], b"", false);
    (0..16).for_each(|_| peer.send(&data(of("/slow"), &[b'x'; 16_384], false)));
    peer.answer(of("/other"), &[], b"here", true);
    assert_eq!(said(&other), format!("{OK}4\r\nhere\r\n0\r\n\r\n"));
    peer.send(&data(of("/slow"), b"", true));
    assert_eq!(said(&slow).matches('x').count(), 16 * 16_384);
}

/// The last byte of a response may be taken long after the server has sent it.
#[test]
fn a_connection_that_the_server_ends_is_there_until_the_last_reader_has_all() {
    let world = World::new();
    let slow = world.get("/slow");
    let mut peer = world.peer(100);
    let (stream, _) = peer.next();
    peer.send(&goaway(stream));
    peer.answer(stream, &[], b"", false);
    // More than the reader's socket takes.
    (0..15).for_each(|_| peer.send(&data(stream, &[b'x'; 16_384], false)));
    peer.send(&data(stream, b"", true));
    peer.is_read();
    assert_eq!(said(&slow).matches('x').count(), 15 * 16_384);
    while peer.stream.read(&mut [0; 4096]).expect("it ends then") > 0 {}
}

#[test]
fn a_response_that_is_complete_outlives_its_stream_and_its_connection() {
    for is_reset in [false, true] {
        let world = World::new();
        let slow = world.get("/slow");
        let mut peer = world.peer(100);
        let (stream, _) = peer.next();
        peer.answer(stream, &[], b"", false);
        // More than the reader's socket takes.
        (0..15).for_each(|_| peer.send(&data(stream, &[b'x'; 16_384], false)));
        peer.send(&data(stream, b"", true));
        if is_reset {
            let mut reset = Vec::new();
            frame::rst_stream(&mut reset, stream, ErrorCode::NO_ERROR);
            peer.send(&reset);
        }
        peer.is_read();
        if !is_reset {
            drop(peer);
            wait_until(|| world.server.open.load(Ordering::SeqCst) == 0);
        }
        let got = said(&slow);
        assert!(got.ends_with("\r\n0\r\n\r\n") && got.matches('x').count() == 15 * 16_384, "{is_reset}");
    }
}

#[test]
fn a_server_that_gives_no_stream_is_not_connected_to_again_for_those_that_wait() {
    for (streams_max, more) in [(0, Vec::new()), (100, goaway(0))] {
        let world = World::new();
        let asked = [world.get("/first"), world.get("/second")];
        let _peer = world.peer_that_adds(streams_max, &more);
        asked.iter().for_each(|stream| assert_eq!(said(stream), ""));
        assert!(world.made.try_recv().is_err(), "one connection is enough");
        assert_eq!(world.faults().len(), 1);
    }
}

/// The thread's work, with a clock that is turned by hand.
#[test]
fn a_server_that_says_nothing_has_as_long_as_a_connection_may_take() {
    let (world, mut worker) = (World::new(), Worker::new().unwrap());
    let origin: Arc<dyn Origin> = Arc::<Server>::clone(&world.server);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    worker.connected(&origin, Some((ours.into(), None)));
    let (request, mut client) = pair().map(|(ours, theirs)| (theirs, UnixStream::from(ours))).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    worker.begin(Exchange::new(Arc::clone(&origin), request));
    let now = Instant::now();
    let timeout = worker.timeout(now).expect("it does not wait for ever");
    assert!(timeout <= CONNECT + Duration::from_millis(1) && timeout > CONNECT / 2, "{timeout:?}");
    worker.expire(now);
    assert_eq!((worker.connections.len(), worker.waiting.len()), (1, 1));
    worker.expire(now + CONNECT);
    assert_eq!((worker.connections.len(), worker.exchanges.len()), (0, 0));
    assert_eq!(world.faults(), ["has not sent its settings in time"]);
    theirs.read_to_end(&mut Vec::new()).expect("it ends");
    // One that has said it is kept for as long as it serves requests, and for a while longer.
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    worker.connected(&origin, Some((ours.into(), None)));
    let mut settings = Vec::new();
    frame::settings(&mut settings, &[]);
    theirs.write_all(&settings).unwrap();
    let number = *worker.connections.keys().next().unwrap();
    worker.connection_ready(number);
    assert!(worker.timeout(Instant::now()).unwrap() < CONNECT / 2, "it is idle");
    worker.expire(Instant::now());
    assert_eq!(worker.connections.len(), 1);
    worker.expire(Instant::now() + CONNECT);
    assert_eq!((worker.connections.len(), world.faults().len()), (0, 1));
}

#[test]
fn a_server_has_so_many_connections_and_no_more() {
    let world = World::new();
    let (mut asked, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS_MAX {
        asked.push(world.get("/"));
        let mut peer = world.peer(1);
        let (stream, _) = peer.next();
        peers.push((peer, stream));
    }
    let last = world.get("/last");
    // It is placed by then.
    peers[1].0.is_read();
    assert!(world.made.try_recv().is_err(), "there are as many as may be");
    let (peer, stream) = &mut peers[0];
    peer.answer(*stream, &[], b"", true);
    peer.serve("/last");
    assert_eq!(said(&last), EMPTY);
}

/// The thread's work, step by step.
#[test]
fn those_that_wait_keep_their_order_and_those_that_are_given_up_are_forgotten() {
    let (world, mut worker) = (World::new(), Worker::new().unwrap());
    let origin: Arc<dyn Origin> = Arc::<Server>::clone(&world.server);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    worker.connected(&origin, Some((ours.into(), None)));
    let mut ask = || {
        let (theirs, ours) = pair().unwrap();
        let mut client = UnixStream::from(ours);
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        worker.begin(Exchange::new(Arc::clone(&origin), theirs));
        (client, worker.tokens)
    };
    let asked: Vec<(UnixStream, u64)> = (0..4).map(|_| ask()).collect();
    worker.cancel(asked[1].1);
    assert_eq!(worker.waiting, [asked[0].1, asked[2].1, asked[3].1]);
    worker.forget(asked[2].1);
    worker.serve_waiting();
    assert_eq!(worker.waiting, [asked[0].1, asked[3].1]);
}

#[test]
fn a_connection_that_cannot_be_made_is_not_tried_again_at_each_frame() {
    let world = World::new();
    let first = world.get("/first");
    let mut peer = world.peer(1);
    let (stream, _) = peer.next();
    world.server.refused.store(100, Ordering::SeqCst);
    let second = world.get("/second");
    wait_until(|| world.server.refused.load(Ordering::SeqCst) == 99);
    (0..5).for_each(|_| peer.is_read());
    assert_eq!(world.server.refused.load(Ordering::SeqCst), 99);
    peer.answer(stream, &[], b"", true);
    peer.serve("/second");
    assert_eq!([said(&first), said(&second)], [EMPTY, EMPTY]);
}

#[test]
fn a_request_that_a_used_connection_takes_along_is_sent_again_if_it_may_be() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    for (request, is_again) in [("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true), (post, false)] {
        let world = World::new();
        let first = world.get("/first");
        let mut peer = world.peer(100);
        peer.serve("/first");
        assert_eq!(said(&first), EMPTY);
        let second = world.ask(request);
        peer.next();
        drop(peer);
        if is_again {
            // A new one that ends shows that the request is to blame, or the server.
            let mut peer = world.peer(100);
            peer.next();
        }
        assert_eq!(said(&second), "");
        assert!(world.made.try_recv().is_err());
    }
}

/// As checks have them.
#[test]
fn a_request_alone_has_its_own_connection_which_ends_with_it() {
    let world = World::new();
    let first = world.get("/first");
    let mut peer = world.peer(100);
    let (stream, _) = peer.next();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let origin: Arc<Server> = Arc::clone(&world.server);
    let multiplexer = world.server.multiplexer.get().unwrap();
    let mut alone = UnixStream::from(multiplexer.open_alone(origin, (ours.into(), None)).unwrap());
    alone.write_all(b"GET /check HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    world.server.made.lock().unwrap().send(theirs).unwrap();
    let mut own = world.peer(100);
    let (check, path) = own.next();
    assert_eq!(path, "/check");
    let second = world.get("/second");
    let (other, path) = peer.next();
    assert_eq!((path.as_str(), world.server.open.load(Ordering::SeqCst)), ("/second", 1));
    own.answer(check, &[], b"", true);
    while own.stream.read(&mut [0; 4096]).expect("it ends then") > 0 {}
    [stream, other].iter().for_each(|stream| peer.answer(*stream, &[], b"", true));
    alone.set_nonblocking(false).unwrap();
    [&first, &second, &alone].iter().for_each(|stream| assert_eq!(said(stream), EMPTY));
    // One that is given up takes its connection along, whether it has got a stream or not.
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let origin: Arc<Server> = Arc::clone(&world.server);
    drop(multiplexer.open_alone(origin, (ours.into(), None)).unwrap());
    theirs.set_read_timeout(Some(PATIENCE)).unwrap();
    while theirs.read(&mut [0; 4096]).expect("it ends then") > 0 {}
}

/// An upload that never finds the socket empty.
#[test]
fn what_is_sent_is_not_kept() {
    let world = World::new();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let origin: Arc<Server> = Arc::clone(&world.server);
    let mut connection = Connection::new(origin, (ours.into(), None));
    let more = |_: &mut _, out: &mut Vec<u8>| out.extend_from_slice(&[0; 16_384]);
    while connection.flush() == Some(Interest::INPUT) {
        connection.put(more);
    }
    for _ in 0..100 {
        connection.put(more);
        assert_ne!(connection.flush(), Some(Interest::INPUT));
        theirs.read_exact(&mut [0; 16_384]).unwrap();
    }
    assert!(connection.out.len() < BUFFER_BYTES * 8, "{} bytes", connection.out.len());
}

#[test]
fn why_a_server_refuses_is_reported() {
    for (code, named) in [
        (ErrorCode::NO_ERROR, None),
        (ErrorCode::CANCEL, None),
        (ErrorCode::REFUSED_STREAM, None),
        (ErrorCode::HTTP_1_1_REQUIRED, Some("HTTP_1_1_REQUIRED")),
        (ErrorCode(0x99), Some("error 0x99")),
    ] {
        let world = World::new();
        let _request = world.get("/");
        let mut peer = world.peer(100);
        let (stream, _) = peer.next();
        let mut frames = Vec::new();
        frame::rst_stream(&mut frames, stream, code);
        frame::goaway(&mut frames, stream, code, "");
        peer.send(&frames);
        // The connection is over.
        while peer.stream.read(&mut [0; 4096]).expect("it ends then") > 0 {}
        let expected =
            ["has reset a stream", "has sent GOAWAY"].map(|what| named.map(|name| format!("{what}: {name}")));
        let expected: Vec<String> = expected.into_iter().flatten().collect();
        assert_eq!(world.faults(), expected);
    }
}

type Fault<'f> = &'f dyn Fn(&mut Peer, u32);

#[test]
fn a_server_that_lies_or_floods_is_reported() {
    let pings = |peer: &mut Peer, _| {
        let mut ping = Vec::new();
        frame::ping(&mut ping, &[0; 8], false);
        // The connection may end meanwhile.
        let _ = peer.stream.write_all(&ping.repeat(10_000));
    };
    let long = |peer: &mut Peer, stream| peer.answer(stream, &[("content-length", "3")], b"more", false);
    let split = |peer: &mut Peer, stream| peer.answer(stream, &[("a", "b\r\nc: d")], b"", true);
    let beyond = |peer: &mut Peer, stream| {
        peer.answer(stream, &[], b"", false);
        (0..100).for_each(|_| _ = peer.stream.write_all(&data(stream, &[b'x'; 16_384], false)));
    };
    let endless = |peer: &mut Peer, stream| {
        let header = FrameHeader { length: 16_384, kind: kind::HEADERS, flags: 0, stream };
        let _ = peer.stream.write_all(&[&header.to_bytes()[..], &[0; 16_384]].concat());
        for _ in 0..20 {
            let header = FrameHeader { kind: kind::CONTINUATION, ..header };
            let _ = peer.stream.write_all(&[&header.to_bytes()[..], &[0; 16_384]].concat());
        }
    };
    let no_http2 = |peer: &mut Peer, _| peer.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let faults: [(Fault<'_>, &str); 6] = [
        (&pings, "too many frames without use"),
        (&long, "more than the length that it had promised"),
        (&split, "a malformed field"),
        (&beyond, "more data than the window"),
        (&endless, ""),
        (&no_http2, ""),
    ];
    for (fault, reason) in faults {
        let world = World::new();
        let request = world.get("/");
        let mut peer = world.peer(100);
        let (stream, _) = peer.next();
        peer.send(&[]);
        fault(&mut peer, stream);
        let got = said(&request);
        assert!(!got.contains("\r\n0\r\n\r\n"), "it is not whole: {got}");
        let faults = world.faults();
        assert!(faults.len() == 1 && faults[0].contains(reason), "{reason}: {faults:?}");
    }
}
