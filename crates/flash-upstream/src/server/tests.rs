//! A server at a port of this machine, and a clock that the test turns.

use std::net::TcpListener;

use super::*;
use crate::connector_process::tests::connector;
use crate::testing::{background, request, settings};

/// A server with that name, or with its address alone, and one connection to it that a request has.
struct World {
    server: Arc<Server>,
    first: Upstream,
    stream: OwnedFd,
    _listener: TcpListener,
}

impl World {
    fn new(name: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let lookup = name.map(|name| format!("{name}:{}", at.port()));
        let address = Address::Inet(vec![at]);
        let config = ServerConfig { name: "http://a".into(), address, lookup, tls: None, is_http2: false };
        let connector = Arc::new(connector(vec![config.clone()]));
        let reporter = Arc::new(Reporter { stderr_line: Box::new(|_, _| {}), log: Box::new(|_| {}) });
        let (background, settings) = (background(&reporter), settings(1, 1));
        let counter: Arc<dyn ProgramCounter> = Arc::new(());
        let shared = Shared {
            multiplexer: None,
            settings: &settings,
            background: &background,
            connector: Some(&connector),
            reporter: &reporter,
        };
        let server = Arc::new(Server::new(UpstreamProtocol::Http, config, Terms::ALONE, &counter, &shared));
        let (stream, first) = begin(&server);
        Self { server, first, stream, _listener: listener }
    }
}

fn begin(server: &Arc<Server>) -> (OwnedFd, Upstream) {
    let (told, tells) = std::sync::mpsc::channel();
    let reply: OnOpened = Box::new(move |opened| drop(told.send(opened)));
    let opened = server.begin(InFlight::new(server, 0), request(), Duration::ZERO, reply);
    match opened.unwrap_or_else(|| tells.recv().unwrap()) {
        Opened::Running(stream, upstream) => (stream, upstream),
        other => panic!("{other:?}"),
    }
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
