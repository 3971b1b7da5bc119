//! Servers at ports of this machine, and a clock that the test turns.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use flash_core::upstream::UpstreamProtocol;

use super::*;
use crate::address::Address;
use crate::counts::ProgramCounter;
use crate::server::{Shared, Terms};
use crate::settings::{Balance, ServerConfig};
use crate::testing::{PATIENCE, background, request, settings};

const QUEUE_WAIT: Duration = Duration::from_secs(30);

struct World {
    servers: Arc<HttpServers>,
    listener: TcpListener,
    said: Arc<Mutex<Vec<String>>>,
}

impl World {
    /// One server, which may have one request at a time.
    fn new(check: Option<Check>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Inet(vec![listener.local_addr().unwrap()]);
        let server =
            ServerConfig { name: "http://a".into(), address, lookup: None, tls: None, is_http2: false };
        let said = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&said);
        let reporter = Arc::new(Reporter {
            stderr_line: Box::new(|_, _| {}),
            log: Box::new(move |what| log.lock().unwrap().push(what.to_string())),
        });
        let (background, settings) = (background(&reporter), settings(0, 10));
        let counter: Arc<dyn ProgramCounter> = Arc::new(());
        let shared = Shared {
            settings: &settings,
            background: &background,
            connector: None,
            multiplexer: None,
            reporter: &reporter,
        };
        let terms = Terms { requests_max: 1, ..Terms::ALONE };
        let server = Arc::new(Server::new(UpstreamProtocol::Http, server, terms, &counter, &shared));
        let config = settings::HttpServers {
            name: Some("app".into()),
            servers: Vec::new(),
            balance: Balance::LeastRequests,
            connect: PATIENCE,
            slow_start: Duration::ZERO,
            check,
            queue_max: 1,
            queue_wait: QUEUE_WAIT,
        };
        let servers = HttpServers::new(vec![server], config, (&background, &reporter));
        Self { servers, listener, said }
    }

    /// What comes at once, and what comes later.
    fn ask(&self) -> (Option<Opened>, Receiver<Opened>) {
        let (reply, later) = channel();
        let now = self.servers.begin(request(), Box::new(move |opened| drop(reply.send(opened))));
        (now, later)
    }

    fn wait_for_queue(&self, count: usize) {
        while self.servers.waiting().len() != count {
            thread::yield_now();
        }
    }
}

fn is_running(opened: Option<&Opened>) -> bool {
    matches!(opened, Some(Opened::Running(..)))
}

fn is_busy(opened: &Opened) -> bool {
    matches!(opened, Opened::Failed(OpenError::Busy))
}

#[test]
fn one_waits_and_is_served_when_there_is_room() {
    let world = World::new(None);
    let (first, _) = world.ask();
    assert!(is_running(first.as_ref()));
    let (none, later) = world.ask();
    assert!(none.is_none());
    world.wait_for_queue(1);
    let (refused, _) = world.ask();
    assert!(refused.as_ref().is_some_and(is_busy), "as many wait as may");
    assert!(world.ask().0.as_ref().is_some_and(is_busy));
    assert_eq!(world.said.lock().unwrap().len(), 1, "it is said once");
    drop(first);
    let Ok(Opened::Running(_, upstream)) = later.recv_timeout(PATIENCE) else { panic!("it is served") };
    assert!(upstream.queued > Duration::ZERO);
    drop(upstream);
    assert!(is_running(world.ask().0.as_ref()));
}

#[test]
fn one_that_waits_for_too_long_is_refused() {
    let world = World::new(None);
    let begun = Instant::now();
    let (_first, _) = world.ask();
    let (_, later) = world.ask();
    world.wait_for_queue(1);
    assert!(Arc::clone(&world.servers).expire_idle(begun + QUEUE_WAIT - Duration::from_secs(1)));
    assert!(later.try_recv().is_err());
    assert!(!Arc::clone(&world.servers).expire_idle(Instant::now() + QUEUE_WAIT));
    assert!(later.try_recv().as_ref().is_ok_and(is_busy));
    let said = world.said.lock().unwrap().concat();
    assert_eq!(said, "upstream app: no server had room for 30s: requests get 503");
    assert_eq!(world.servers.waiting_count.load(Ordering::Relaxed), 0);
}

#[test]
fn servers_are_checked_when_it_is_time_and_one_at_a_time() {
    let every = Duration::from_secs(1000);
    let world = World::new(Some(Check { path: "/healthz".into(), host: None, every }));
    let begun = Instant::now();
    let answer = |status: &str| {
        let (mut stream, _) = world.listener.accept().unwrap();
        let mut buffer = [0; 1000];
        let count = stream.read(&mut buffer).unwrap();
        assert!(buffer[..count].starts_with(b"GET /healthz HTTP/1.1\r\nHost: a\r\n"));
        stream.write_all(format!("HTTP/1.1 {status} X\r\n\r\n").as_bytes()).unwrap();
    };
    let server = &world.servers.servers()[0];
    let mut now = begun;
    for (status, is_well) in [("500", true), ("503", false), ("200", true)] {
        for _ in 0..3 {
            assert!(Arc::clone(&world.servers).expire_idle(now));
        }
        answer(status);
        // Of a check, nothing else can be seen from here than that it is over.
        while !server.begin_check() {
            thread::yield_now();
        }
        server.end_check();
        assert_eq!(server.is_well(now), is_well, "{status}");
        now += every;
    }
    world.listener.set_nonblocking(true).unwrap();
    assert!(world.listener.accept().is_err(), "no more often");
}
