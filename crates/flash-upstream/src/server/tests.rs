//! A server at a port of this machine, and a clock that the test turns.

use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use rustix::net::RecvFlags;

use super::*;
use crate::connector_process::tests::connector;
use crate::testing::{PATIENCE, background, request, settings};

/// A server with that name, or with its address alone, and one connection to it that a request has.
struct World {
    server: Arc<Server>,
    first: Upstream,
    stream: OwnedFd,
    _listener: TcpListener,
}

impl World {
    fn new(name: Option<&str>) -> Self {
        let (server, listener) = server(name, None);
        let (stream, first) = begin(&server);
        Self { server, first, stream, _listener: listener }
    }
}

/// Of HTTP/2, if it has a multiplexer, at the port of that listener.
fn server(name: Option<&str>, multiplexer: Option<&Arc<Multiplexer>>) -> (Arc<Server>, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let lookup = name.map(|name| format!("{name}:{}", at.port()));
    let address = Address::Inet(vec![at]);
    let config =
        ServerConfig { name: "http://a".into(), address, lookup, tls: None, is_http2: multiplexer.is_some() };
    let connector = Arc::new(connector(vec![config.clone()]));
    let reporter = Arc::new(Reporter { stderr_line: Box::new(|_, _| {}), log: Box::new(|_| {}) });
    let (background, settings) = (background(&reporter), settings(1, 100));
    let counter: Arc<dyn ProgramCounter> = Arc::new(());
    let shared = Shared {
        multiplexer,
        settings: &settings,
        background: &background,
        connector: Some(&connector),
        reporter: &reporter,
    };
    let server = Arc::new(Server::new(UpstreamProtocol::Http, config, Terms::ALONE, &counter, &shared));
    (server, listener)
}

fn begin(server: &Arc<Server>) -> (OwnedFd, Upstream) {
    match ask(server).recv().unwrap() {
        Opened::Running(stream, upstream) => (stream, upstream),
        other => panic!("{other:?}"),
    }
}

/// What comes of a request.
fn ask(server: &Arc<Server>) -> Receiver<Opened> {
    let (told, tells) = channel();
    let later = told.clone();
    let reply: OnOpened = Box::new(move |opened| drop(later.send(opened)));
    let opened = server.begin(InFlight::new(server, 0), request(), Duration::ZERO, reply);
    opened.into_iter().for_each(|opened| told.send(opened).unwrap());
    tells
}

/// How many connections it has got by now.
fn connections(listener: &TcpListener) -> Vec<TcpStream> {
    listener.set_nonblocking(true).unwrap();
    std::iter::from_fn(|| listener.accept().ok()).map(|(stream, _)| stream).collect()
}

#[test]
fn requests_that_come_at_once_share_the_first_connection() {
    let multiplexer = Arc::new(Multiplexer::start().unwrap());
    // A connector takes its time.
    for name in [None, Some("localhost")] {
        let (server, listener) = server(name, Some(&multiplexer));
        let asked: Vec<_> = (0..50).map(|_| ask(&server)).collect();
        let is_open = |asked: &Receiver<Opened>| matches!(asked.recv().unwrap(), Opened::Running(..));
        assert!(asked.iter().all(is_open));
        // So do those that come before it says how many it allows.
        begin(&server);
        assert_eq!(connections(&listener).len(), 1);
    }
    multiplexer.close();
}

#[test]
fn requests_that_wait_for_a_connection_learn_alike_that_there_is_none() {
    let multiplexer = Arc::new(Multiplexer::start().unwrap());
    let (server, listener) = server(Some("localhost"), Some(&multiplexer));
    drop(listener);
    for asked in (0..50).map(|_| ask(&server)).collect::<Vec<_>>() {
        assert!(matches!(asked.recv().unwrap(), Opened::Failed(OpenError::Broken)));
    }
    assert_eq!(server.dialing.load(Ordering::Relaxed), 0);
    multiplexer.close();
}

/// A server that has a connection closes it, before it says that it allows requests.
#[test]
fn a_server_that_hangs_up_is_not_connected_to_again_at_once() {
    let multiplexer = Arc::new(Multiplexer::start().unwrap());
    let (server, listener) = server(None, Some(&multiplexer));
    let start = Instant::now();
    let (stream, _upstream) = begin(&server);
    rustix::net::send(&stream, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", SendFlags::empty()).unwrap();
    drop(listener.accept().unwrap());
    rustix::io::ioctl_fionbio(&stream, false).unwrap();
    let (_, count) = rustix::net::recv(&stream, &mut [0; 1][..], RecvFlags::empty()).unwrap();
    assert_eq!(count, 0, "it is not answered");
    assert!(!server.is_well(start) && connections(&listener).is_empty());
    multiplexer.close();
}

/// The thread that looks does so without idle connections of HTTP/1.
#[test]
fn shared_connections_to_a_name_are_left_as_well() {
    let multiplexer = Arc::new(Multiplexer::start().unwrap());
    let (server, _listener) = server(Some("localhost"), Some(&multiplexer));
    let maintained: Arc<dyn Maintained> = Arc::clone(&server) as _;
    server.background.send(Command::Maintain(vec![Arc::downgrade(&maintained)]));
    begin(&server);
    let end = Instant::now() + PATIENCE;
    let wait_until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(Instant::now() < end, "it does not come");
            std::thread::yield_now();
        }
    };
    wait_until(&|| server.background.is_ticking());
    assert!(Arc::clone(&server).expire_idle(Instant::now()));
    Arc::clone(&server).expire_idle(Instant::now() + resolver::EVERY);
    wait_until(&|| !Arc::clone(&server).expire_idle(Instant::now()));
    multiplexer.close();
}

/// The connector does not say where it connects: a server in its sandbox cannot tell when a name has moved.
#[test]
fn a_connection_to_a_name_is_not_kept_for_longer_than_its_address_holds() {
    for (name, later, is_kept) in [
        (Some("localhost"), resolver::EVERY, false),
        (Some("localhost"), resolver::EVERY / 2, true),
        (None, resolver::EVERY, true),
    ] {
        let World { server, first, stream, _listener } = World::new(name);
        Arc::clone(&server).expire_idle(Instant::now() + later);
        first.lease.finish(stream, ReleaseMode::Reusable);
        assert_eq!(begin(&server).1.used, is_kept, "{name:?} after {later:?}");
    }
}
