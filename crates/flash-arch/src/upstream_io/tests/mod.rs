//! Programs over real sockets, in every way that there is to wait for them: threads stand in for processes.

mod scripted;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flash_core::cache::memory_budget::Budget;
use flash_core::site::hosts::Hosts;
use flash_core::site::routes::{Route, RouteMatch, Routes};
use flash_core::site::{Site, SiteSettings};
use flash_core::upstream::UpstreamProtocol;
use flash_core::{Connection, Evictable};
use flash_disk::Spool;
use flash_os::socket::Waits;
use rustix::net::sockopt::set_socket_linger;
use tempfile::TempDir;

use self::scripted::{Fates, ScriptedUpstreams};
use crate::amped::Asymmetric;
use crate::blocking::{Arrival, Blocking, ServedClient, Source};
use crate::completion_queue::CompletionQueue;
use crate::connections::listener::{Listener, Listeners};
use crate::dispatch::Dispatch;
use crate::event_loop::EventLoop;
use crate::helpers::{HelperLimits, Helpers};
use crate::poller::Poller;
use crate::poller::readiness::ReadinessPoller;
use crate::server_state::ServerState;
use crate::uring::{self, RingPoller};
use crate::{Limits, pipelined, sped, testing};

/// Longer than anything takes that goes well, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(120);
const FLOOD_BYTES: usize = 24 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A loop that does jobs itself.
    ReadinessPoller,
    /// Loops with helpers.
    Helped,
    Ring,
    Blocking,
    Pipelined,
}

const HELPERS: HelperLimits = HelperLimits { helpers_max: 1, queue_max: 100 };

struct Server {
    address: SocketAddr,
    shared: Arc<ServerState>,
    fates: Arc<Fates>,
    completions: Arc<CompletionQueue>,
    threads: Vec<JoinHandle<()>>,
    pool: Option<pipelined::Pool>,
    _folder: TempDir,
}

/// The first listener's connections, each served to its end by one worker, until the server drains.
struct NeverParks(Arc<ServerState>, Arc<Listeners>);

impl Source for NeverParks {
    fn next(&mut self) -> Option<Arrival> {
        while !self.0.is_draining() {
            match self.1[0].as_ref()?.accept(Waits::Yes) {
                Ok((socket, peer)) => return Some(Arrival::New(socket, peer)),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
        None
    }

    fn may_wait(&self) -> bool {
        true
    }

    fn take_step(&self, _: Duration, step: &mut dyn FnMut()) -> bool {
        step();
        true
    }

    fn begin_login(&mut self) -> bool {
        true
    }

    fn end_login(&mut self) {}

    fn parks(&self, _: &Connection, _: &crate::connections::transport::Transport) -> bool {
        false
    }

    fn park(&mut self, _: Box<ServedClient>) {}

    fn take_victim(&mut self) -> Option<Box<ServedClient>> {
        None
    }

    fn lacks_places(&self) -> bool {
        false
    }

    fn gives_way(&mut self, _: Option<Evictable>) -> bool {
        false
    }

    fn goes_on(&mut self) {}

    fn take_oldest_handshake(&mut self) -> Option<Box<ServedClient>> {
        None
    }
}

impl Server {
    fn start(way: Way) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("hot.txt"), "hot").unwrap();
        let limits = Limits { connections_max: 100, handshakes_max: 100, ..Limits::default() };
        let upstreams = ScriptedUpstreams::default();
        let fates = Arc::clone(&upstreams.fates);
        let mut parts = testing::parts(folder.path(), 10_000);
        let route = |path: &[u8], protocol, number| Route {
            matches: RouteMatch::Prefix(path.into()),
            protocol,
            direct: false,
            number,
            proxy: None,
        };
        let routes =
            vec![route(b"/cgi", UpstreamProtocol::Cgi, 0), route(b"/app", UpstreamProtocol::FastCgi, 1)];
        let settings = SiteSettings { body_bytes_max: 64 << 20, ..SiteSettings::default() };
        let routes = Routes::new(routes, b"Flash", b"/srv", Budget::new(64 << 20));
        let routes = Some(Arc::new(routes.opened_by(Arc::new(upstreams))));
        parts.server.hosts = Hosts::one(Site { settings: settings.into(), routes, ..Site::default() });
        parts.disk.keep_bodies_in(Spool::open(folder.path()).unwrap());
        if matches!(way, Way::Helped | Way::Ring | Way::Pipelined) {
            parts.disk.close_elsewhere().unwrap();
        }
        let shared = ServerState::new(parts, limits);
        let listener = Listener::inet("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.to_string();
        let address = address.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        listener.set_nonblocking().unwrap();
        shared.listeners.store(Arc::new(vec![Some(Arc::new(listener))]));
        let completions = Arc::new(CompletionQueue::new().unwrap());
        let mut threads = Vec::new();
        let mut pool = None;
        match way {
            Way::ReadinessPoller => {
                let dispatch = sped::Inline(Arc::clone(&shared));
                threads.push(spawn_with::<ReadinessPoller, _>(&shared, &completions, dispatch));
            }
            Way::Helped => threads.push(spawn_helped::<ReadinessPoller>(&shared, &completions)),
            Way::Ring => threads.push(spawn_helped::<RingPoller>(&shared, &completions)),
            Way::Blocking => {
                for _ in 0..3 {
                    let (shared, listeners) = (Arc::clone(&shared), shared.listeners.load_full());
                    threads.push(thread::spawn(move || {
                        Blocking::new(Arc::clone(&shared), NeverParks(shared, listeners)).run();
                    }));
                }
            }
            Way::Pipelined => {
                pool = Some(pipelined::Pool::start(0, HELPERS, &shared).unwrap());
            }
        }
        Self { address, shared, fates, completions, threads, pool, _folder: folder }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Waits until a number is as it should be.
    fn await_count(&self, of: impl Fn(&Fates) -> &AtomicUsize, expected: usize) {
        let give_up = Instant::now() + PATIENCE;
        while of(&self.fates).load(Ordering::SeqCst) != expected {
            assert!(Instant::now() < give_up, "{:?}", self.fates);
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.drain();
        self.shared.close_listeners();
        self.completions.wake();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Some(pool) = self.pool.take() {
            pool.waker()();
            pool.join();
        }
    }
}

fn spawn_helped<P: Poller>(shared: &Arc<ServerState>, completions: &Arc<CompletionQueue>) -> JoinHandle<()> {
    let helpers = Helpers::start(HELPERS, Arc::clone(shared)).unwrap();
    let (shared_too, inbox_too) = (Arc::clone(shared), Arc::clone(completions));
    let dispatch = Asymmetric { shared: shared_too, helpers, completions: inbox_too };
    spawn_with::<P, _>(shared, completions, dispatch)
}

fn spawn_with<P: Poller, D: Dispatch + Send + 'static>(
    shared: &Arc<ServerState>,
    completions: &Arc<CompletionQueue>,
    dispatch: D,
) -> JoinHandle<()> {
    EventLoop::<D, P>::new(Arc::clone(shared), Arc::clone(completions), dispatch).unwrap().spawn(0).unwrap()
}

/// One response: its head, and its body without chunks.
fn read_response(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap();
    let field = |name: &str| head.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
    let mut body = Vec::new();
    if let Some(length) = field("Content-Length:") {
        body.resize(length.parse().unwrap(), 0);
        stream.read_exact(&mut body).unwrap();
        return (head, body);
    }
    assert_eq!(field("Transfer-Encoding:").as_deref(), Some("chunked"), "{head}");
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
        let start = body.len();
        body.resize(start + size + 2, 0);
        stream.read_exact(&mut body[start..]).unwrap();
        assert_eq!(body.split_off(start + size), b"\r\n");
        if size == 0 {
            return (head, body);
        }
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn everywhere(test: impl Fn(Way, &Server)) {
    for way in [Way::ReadinessPoller, Way::Helped, Way::Ring, Way::Blocking, Way::Pipelined] {
        match (way, uring::probe()) {
            (Way::Ring, Err(why)) => eprintln!("not tried with a ring: {why}"),
            _ => {
                println!("{way:?}");
                test(way, &Server::start(way));
            }
        }
    }
}

#[test]
fn requests_follow_one_another_on_a_connection() {
    everywhere(|_, server| {
        let mut stream = server.connect();
        for path in ["/cgi/a", "/hot.txt", "/app/a", "/cgi/b", "/cgi/busy", "/app/b", "/app/c"] {
            stream.write_all(get(path).as_bytes()).unwrap();
            let (head, body) = read_response(&mut stream);
            match path {
                "/hot.txt" => assert_eq!(body, b"hot"),
                "/cgi/busy" => assert!(head.starts_with("HTTP/1.1 503 ")),
                _ => assert_eq!(body, b"the end", "{head}"),
            }
        }
        server.await_count(|fates| &fates.reusable, 3);
        server.await_count(|fates| &fates.ended, 2);
        // All at once.
        let paths = ["/cgi/a", "/app/a", "/hot.txt", "/cgi/a"];
        stream.write_all(paths.map(get).concat().as_bytes()).unwrap();
        let bodies: Vec<Vec<u8>> = paths.iter().map(|_| read_response(&mut stream).1).collect();
        assert_eq!(bodies, [&b"the end"[..], b"the end", b"hot", b"the end"]);
    });
}

#[test]
fn a_large_body_goes_through_and_comes_back() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 31 + at / 251) as u8).collect();
    everywhere(|_, server| {
        for path in ["/cgi/echo", "/app/echo"] {
            let mut stream = server.connect();
            let by_length = format!("Content-Length: {}", body.len());
            for framing in [by_length.as_str(), "Transfer-Encoding: chunked", &by_length] {
                let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
                let mut writer = stream.try_clone().unwrap();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        writer.write_all(head.as_bytes()).unwrap();
                        if framing == by_length {
                            return writer.write_all(&body).unwrap();
                        }
                        for chunk in body.chunks(100_000) {
                            writer.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).unwrap();
                            writer.write_all(&[chunk, b"\r\n"].concat()).unwrap();
                        }
                        writer.write_all(b"0\r\n\r\n").unwrap();
                    });
                    let (_, got) = read_response(&mut stream);
                    assert!(got.strip_suffix(b"the end") == Some(&*body), "{path}: {} bytes", got.len());
                });
            }
        }
    });
}

#[test]
fn a_program_that_ends_early_is_heard() {
    let chunk = [b"186a0\r\n", &[b'x'; 100_000][..], b"\r\n"].concat();
    let head = b"POST /cgi/early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let request = [head, &chunk.repeat(30)[..], b"0\r\n\r\n"].concat();
    everywhere(|way, server| {
        let mut stream = server.connect();
        for _ in 0..20 {
            stream.write_all(&request).unwrap();
            assert_eq!(read_response(&mut stream).1, b"early", "{way:?}");
        }
    });
}

#[test]
fn a_flood_reaches_a_slow_client_and_others_do_not_wait() {
    everywhere(|way, server| {
        let mut slow = server.connect();
        slow.write_all(get("/cgi/flood").as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(50));
        // The program is stopped by now, because nobody reads.
        let mut hot = server.connect();
        let start = Instant::now();
        for _ in 0..20 {
            hot.write_all(get("/hot.txt").as_bytes()).unwrap();
            assert_eq!(read_response(&mut hot).1, b"hot");
        }
        assert!(start.elapsed() < PATIENCE / 3, "{way:?}: {:?}", start.elapsed());
        assert_eq!(read_response(&mut slow).1.len(), FLOOD_BYTES / (1 << 16) * (1 << 16));
        server.await_count(|fates| &fates.ended, 1);
    });
}

#[test]
fn a_program_that_sleeps_does_not_hold_up_others() {
    everywhere(|_, server| {
        let mut slow = server.connect();
        slow.write_all(get("/cgi/sleep").as_bytes()).unwrap();
        let mut other = server.connect();
        other.write_all(get("/cgi/a").as_bytes()).unwrap();
        assert_eq!(read_response(&mut other).1, b"the end");
        assert_eq!(read_response(&mut slow).1, b"the end");
    });
}

#[test]
fn a_client_that_has_closed_its_side_gets_its_answer() {
    everywhere(|way, server| {
        for path in ["/cgi/sleep", "/cgi/a", "/app/a"] {
            let mut stream = server.connect();
            stream.write_all(get(path).as_bytes()).unwrap();
            // Some of them are heard of at once, and some while their program runs.
            if path == "/cgi/sleep" {
                thread::sleep(Duration::from_millis(100));
            }
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_response(&mut stream).1, b"the end", "{way:?}: {path}");
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{way:?}: {path}: and the connection ends");
        }
        assert_eq!(server.fates.broken_off.load(Ordering::SeqCst), 0, "{way:?}");
    });
}

#[test]
fn a_client_that_is_gone_ends_its_program() {
    everywhere(|_, server| {
        let mut gone = 0;
        for (has_asked, closes_first) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut stream = server.connect();
            if has_asked {
                stream.write_all(get("/hot.txt").as_bytes()).unwrap();
                read_response(&mut stream);
            }
            stream.write_all(get("/cgi/stall").as_bytes()).unwrap();
            thread::sleep(Duration::from_millis(100));
            if closes_first {
                stream.shutdown(Shutdown::Write).unwrap();
                thread::sleep(Duration::from_millis(100));
            }
            assert_eq!(server.fates.broken_off.load(Ordering::SeqCst), gone);
            reset(stream);
            gone += 1;
            server.await_count(|fates| &fates.broken_off, gone);
        }
        // One that closes everything looks like one that waits, until its kernel refuses what is sent.
        let mut flooded = server.connect();
        flooded.write_all(get("/cgi/flood").as_bytes()).unwrap();
        flooded.read_exact(&mut [0; 100]).unwrap();
        drop(flooded);
        server.await_count(|fates| &fates.broken_off, gone + 1);
    });
}

/// It would take the end of its stream for the end of the body.
#[test]
fn a_program_that_opens_after_its_client_has_left_does_not_see_its_streams_end() {
    everywhere(|way, server| {
        let mut stream = server.connect();
        stream.write_all(b"POST /cgi/late HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345").unwrap();
        thread::sleep(Duration::from_millis(100));
        reset(stream);
        server.await_count(|fates| &fates.broken_off, 1);
        assert_eq!(server.fates.dropped.load(Ordering::SeqCst), 0, "{way:?}");
    });
}

/// A request of HTTP/2, as a frame with fields that are literals (RFC 7541 §6.2.2).
fn get_on_stream(stream: u8, path: &str) -> Vec<u8> {
    let fields = [&[0x82, 0x86, 0x04, path.len() as u8][..], path.as_bytes(), &[0x01, 1], b"a"].concat();
    [&[0, 0, fields.len() as u8, 1, 5, 0, 0, 0, stream][..], &fields].concat()
}

/// In *pipelined* another step has the connection then.
#[test]
fn a_program_opens_while_other_requests_of_its_connection_go_on() {
    everywhere(|way, server| {
        for _ in 0..5 {
            let mut stream = server.connect();
            stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
            stream.write_all(&get_on_stream(1, "/cgi/a")).unwrap();
            let numbers: Vec<u8> = (3..=121).step_by(2).collect();
            for number in &numbers {
                stream.write_all(&get_on_stream(*number, &format!("/none-{number}"))).unwrap();
                thread::sleep(Duration::from_micros(200));
            }
            let mut open: Vec<u8> = [vec![1], numbers].concat();
            while !open.is_empty() {
                let mut head = [0; 9];
                stream.read_exact(&mut head).unwrap_or_else(|error| panic!("{way:?}: {error}: {open:?}"));
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                stream.read_exact(&mut vec![0; length as usize]).unwrap();
                // DATA or HEADERS, with END_STREAM (RFC 9113 §6).
                if head[3] <= 1 && head[4] & 1 == 1 {
                    open.retain(|stream| *stream != head[8]);
                }
            }
        }
    });
}

#[test]
fn after_a_panic_no_client_gets_what_was_opened_for_another() {
    everywhere(|way, server| {
        for _ in 0..12 {
            let mut stream = server.connect();
            stream.write_all(get("/cgi/panic").as_bytes()).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "{way:?}: the connection ends");
        }
        for _ in 0..12 {
            let mut stream = server.connect();
            stream.write_all(get("/cgi/a").as_bytes()).unwrap();
            assert_eq!(read_response(&mut stream).1, b"the end", "{way:?}");
        }
    });
}

/// Leaves as one whose machine has no time for a farewell.
fn reset(stream: TcpStream) {
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}
