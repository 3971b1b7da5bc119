//! Programs over real sockets, in every way that there is to wait for them: threads stand in for processes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flash_core::program::{Backend, Begin, Begun, Finish, Lease, Programs, Refusal, Reply, Talk};
use flash_core::routes::{Place, Route, Routes};
use flash_core::site::Settings;
use tempfile::TempDir;

use crate::accept::Listener;
use crate::blocking::Blocking;
use crate::epoll::Epoll;
use crate::event_loop::{Dispatch, EventLoop};
use crate::helpers::{HelperLimits, Offload};
use crate::inbox::Inbox;
use crate::port::Port;
use crate::shared::Shared;
use crate::uring::{self, Ringed};
use crate::{Limits, pipelined, sped, testing};

/// Longer than anything takes that goes well, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(30);
const FLOOD_BYTES: usize = 24 << 20;

/// What became of leases.
#[derive(Debug, Default)]
struct Fates {
    reusable: AtomicUsize,
    ended: AtomicUsize,
    broken_off: AtomicUsize,
}

/// Begins threads that behave as the path says.
#[derive(Debug, Default)]
struct Troupe {
    fates: Arc<Fates>,
    /// Kept streams to a FastCGI application.
    kept: Arc<Mutex<Vec<OwnedFd>>>,
    begun: AtomicUsize,
}

#[derive(Debug)]
struct Held {
    fates: Arc<Fates>,
    kept: Arc<Mutex<Vec<OwnedFd>>>,
    finished: bool,
}

impl Lease for Held {
    fn stderr(&mut self, _: &[u8]) {}

    fn finish(mut self: Box<Self>, stream: OwnedFd, how: Finish) {
        self.finished = true;
        match how {
            Finish::Reusable => {
                self.fates.reusable.fetch_add(1, Ordering::SeqCst);
                self.kept.lock().unwrap().push(stream);
            }
            Finish::Ended => drop(self.fates.ended.fetch_add(1, Ordering::SeqCst)),
            Finish::Aborted => drop(self.fates.broken_off.fetch_add(1, Ordering::SeqCst)),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.finished {
            self.fates.broken_off.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Programs for Troupe {
    fn begin(&self, begin: Begin, reply: Reply) -> Option<Begun> {
        let number = self.begun.fetch_add(1, Ordering::SeqCst);
        let path = String::from_utf8(begin.path.as_bytes().to_vec()).unwrap();
        if path.ends_with("/busy") {
            return Some(Begun::Failed(Refusal::Busy));
        }
        let talk = if begin.route == 1 { Talk::FastCgi } else { Talk::Cgi };
        let kept = if talk == Talk::FastCgi { self.kept.lock().unwrap().pop() } else { None };
        let used = kept.is_some();
        let stream = kept.unwrap_or_else(|| {
            let (here, there) = UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            thread::spawn(move || match talk {
                Talk::FastCgi => drop(serve_records(there)),
                _ => drop(act(&path, there)),
            });
            here.into()
        });
        let (fates, kept) = (Arc::clone(&self.fates), Arc::clone(&self.kept));
        let lease = Box::new(Held { fates, kept, finished: false });
        let begun = Begun::Running(Backend { stream, talk, lease, used });
        // Both ways to hear of it.
        if number.is_multiple_of(2) {
            return Some(begun);
        }
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(5));
            reply(begun);
        });
        None
    }
}

/// A CGI program.
fn act(path: &str, mut stream: UnixStream) -> std::io::Result<()> {
    if path.ends_with("/flood") {
        stream.write_all(b"Content-Type: a/b\n\n")?;
        let piece: Vec<u8> = (0..1 << 16).map(|at| (at % 251) as u8).collect();
        for _ in 0..FLOOD_BYTES / piece.len() {
            stream.write_all(&piece)?;
        }
        return Ok(());
    }
    if path.ends_with("/stall") {
        thread::sleep(PATIENCE);
        return Ok(());
    }
    if path.ends_with("/sleep") {
        thread::sleep(Duration::from_millis(700));
    }
    let mut body = Vec::new();
    stream.read_to_end(&mut body)?;
    stream.write_all(b"Content-Type: text/plain\nX-Program: yes\n\n")?;
    for piece in body.chunks(10_000) {
        stream.write_all(piece)?;
    }
    stream.write_all(b"the end")
}

/// A FastCGI application that answers one request after the other with its body.
fn serve_records(mut stream: UnixStream) -> std::io::Result<()> {
    loop {
        let mut body = Vec::new();
        loop {
            let mut head = [0; 8];
            stream.read_exact(&mut head)?;
            let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
            let mut content = vec![0; length];
            stream.read_exact(&mut content)?;
            match (head[1], length) {
                (5, 0) => break,
                (5, _) => body.extend(content),
                _ => {}
            }
        }
        let mut answer = b"Content-Type: text/plain\r\n\r\n".to_vec();
        answer.extend(body);
        answer.extend(b"the end");
        for piece in answer.chunks(30_000) {
            stream.write_all(&record(6, piece))?;
        }
        stream.write_all(&record(3, &[0; 8]))?;
    }
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Epoll,
    Ring,
    Blocking,
    Pipelined,
}

struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    fates: Arc<Fates>,
    inbox: Arc<Inbox>,
    listeners: Arc<Vec<Listener>>,
    threads: Vec<JoinHandle<()>>,
    pool: Option<pipelined::Pool>,
    _folder: TempDir,
}

impl Server {
    fn start(way: Way) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("hot.txt"), "hot").unwrap();
        let limits = Limits { connections_max: 100, drain: Duration::ZERO };
        let troupe = Troupe::default();
        let fates = Arc::clone(&troupe.fates);
        let mut parts = testing::parts(folder.path(), 10_000);
        let route = |path: &[u8], talk, number| Route {
            place: Place::Prefix(path.into()),
            talk,
            direct: false,
            number,
        };
        let routes = vec![route(b"/cgi", Talk::Cgi, 0), route(b"/app", Talk::FastCgi, 1)];
        parts.site.routes = Some(Routes::new(routes, b"Flash", b"/srv", 64 << 20));
        parts.site.settings =
            Settings { finds_apart: way == Way::Pipelined, body_bytes_max: 64 << 20, ..parts.site.settings };
        parts.programs = Some(Arc::new(troupe));
        let shared = Shared::new(parts, limits);
        let listener = Listener::inet("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.to_string();
        let address = address.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        if way != Way::Blocking {
            listener.set_nonblocking().unwrap();
        }
        let listeners = Arc::new(vec![listener]);
        let inbox = Arc::new(Inbox::new().unwrap());
        let mut threads = Vec::new();
        let mut pool = None;
        match way {
            Way::Epoll => threads.push(spawn_loop::<Epoll>(&shared, &listeners, &inbox)),
            Way::Ring => threads.push(spawn_loop::<Ringed>(&shared, &listeners, &inbox)),
            Way::Blocking => {
                for _ in 0..3 {
                    let (shared, listeners) = (Arc::clone(&shared), Arc::clone(&listeners));
                    threads.push(thread::spawn(move || {
                        let mut blocking = Blocking::new(shared, &|| false);
                        blocking.run(&listeners[0], &|serve| serve());
                    }));
                }
            }
            Way::Pipelined => {
                let helpers = HelperLimits {
                    helpers_max: 1,
                    queue_max: 100,
                    single_flight: true,
                    offload: Offload::Needed,
                };
                pool = Some(pipelined::Pool::start(0, helpers, &shared, &listeners).unwrap());
            }
        }
        Self { address, shared, fates, inbox, listeners, threads, pool, _folder: folder }
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
        self.listeners.iter().for_each(Listener::shut);
        self.inbox.ring();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Some(pool) = self.pool.take() {
            pool.ring();
            pool.join();
        }
    }
}

fn spawn_loop<P: Port>(
    shared: &Arc<Shared>,
    listeners: &Arc<Vec<Listener>>,
    inbox: &Arc<Inbox>,
) -> JoinHandle<()> {
    let dispatch = sped::Inline(Arc::clone(shared));
    spawn_with::<P, _>(shared, listeners, inbox, dispatch)
}

fn spawn_with<P: Port, D: Dispatch + Send + 'static>(
    shared: &Arc<Shared>,
    listeners: &Arc<Vec<Listener>>,
    inbox: &Arc<Inbox>,
    dispatch: D,
) -> JoinHandle<()> {
    let (shared, listeners) = (Arc::clone(shared), Arc::clone(listeners));
    EventLoop::<D, P>::new(shared, listeners, Arc::clone(inbox), dispatch).unwrap().spawn(0).unwrap()
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
    for way in [Way::Epoll, Way::Ring, Way::Blocking, Way::Pipelined] {
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
            let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
            let mut writer = stream.try_clone().unwrap();
            thread::scope(|scope| {
                scope.spawn(|| {
                    writer.write_all(head.as_bytes()).unwrap();
                    writer.write_all(&body).unwrap();
                });
                let (_, got) = read_response(&mut stream);
                assert!(got.strip_suffix(b"the end") == Some(&*body), "{path}: {} bytes", got.len());
            });
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
fn a_client_that_leaves_ends_its_program() {
    everywhere(|_, server| {
        let mut stream = server.connect();
        stream.write_all(get("/cgi/stall").as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(100));
        assert_eq!(server.fates.broken_off.load(Ordering::SeqCst), 0);
        drop(stream);
        server.await_count(|fates| &fates.broken_off, 1);
        let mut flooded = server.connect();
        flooded.write_all(get("/cgi/flood").as_bytes()).unwrap();
        flooded.read_exact(&mut [0; 100]).unwrap();
        drop(flooded);
        server.await_count(|fates| &fates.broken_off, 2);
    });
}
