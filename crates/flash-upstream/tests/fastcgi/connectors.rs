//! Servers in a sandbox, whose connections a connector makes.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_cgi::Variables;
use flash_core::upstream::{OpenError, ReleaseMode};
use flash_process::{Reporter, ipc};
use flash_upstream::{
    Connector, CountedUpstream, RouteUpstreams, ServerConfig, Settings, UpstreamConfig, run_connector,
};
use tempfile::TempDir;

use crate::bench::address_of;
use crate::exchange::{Asked, log_detached, reporter, settings};

/// One in a thread, which knows these servers.
fn connector(servers: &[&ServerConfig]) -> Arc<Connector> {
    let servers: Vec<ServerConfig> = servers.iter().copied().cloned().collect();
    let start = move || {
        let (ours, theirs) = ipc::pair()?;
        let servers = servers.clone();
        thread::spawn(move || run_connector(&theirs, servers.iter(), &[], || Ok(())));
        Ok(ours)
    };
    Arc::new(Connector::start(start).expect("it starts"))
}

fn server(socket: &Path) -> (ServerConfig, UnixListener) {
    let address = address_of(socket);
    let config = ServerConfig { name: address.to_string(), address, lookup: None, tls: None };
    (config, UnixListener::bind(socket).unwrap())
}

fn services(server: &ServerConfig) -> Vec<CountedUpstream> {
    vec![(UpstreamConfig::FastCgi(server.clone()), vec![Arc::new(())])]
}

fn start(server: &ServerConfig, connector: Arc<Connector>) -> RouteUpstreams {
    start_with(server, connector, &settings(), reporter().0)
}

fn start_with(
    server: &ServerConfig,
    connector: Arc<Connector>,
    settings: &Settings,
    reporter: Arc<Reporter>,
) -> RouteUpstreams {
    RouteUpstreams::start(services(server), None, Some(connector), settings, reporter, log_detached())
        .unwrap()
}

fn ask(upstreams: &RouteUpstreams) -> Asked {
    Asked::of(upstreams, Variables::default(), true)
}

#[track_caller]
fn assert_connects(upstreams: &RouteUpstreams, listener: &UnixListener) {
    ask(upstreams).answer().finish(ReleaseMode::Ended);
    listener.set_nonblocking(true).unwrap();
    listener.accept().expect("it was connected to this one");
}

/// Requests of the old configuration go on, and it stays whole if the new one is refused after its connector has started.
#[test]
fn the_servers_of_both_configurations_are_reached() {
    let folder = TempDir::new().unwrap();
    let (one, at_one) = server(&folder.path().join("one"));
    let (other, at_other) = server(&folder.path().join("other"));
    let before = start(&one, connector(&[&one]));
    let next = before.next(services(&other), Some(&connector(&[&other])), &settings()).unwrap();
    assert_connects(&before, &at_one);
    assert_connects(&next, &at_other);
    assert_connects(&before, &at_one);
}

#[test]
fn a_server_that_stays_gets_the_next_connector_and_the_last_one_ends() {
    let folder = TempDir::new().unwrap();
    let (one, listener) = server(&folder.path().join("one"));
    let first = connector(&[&one]);
    let last = Arc::downgrade(&first);
    let before = start(&one, first);
    let next = before.next(services(&one), Some(&connector(&[&one])), &settings()).unwrap();
    assert_connects(&next, &listener);
    assert!(last.upgrade().is_none(), "it has no user any more");
}

/// As without a connector: 503, and the server counts as one that can be reached.
#[test]
fn a_server_without_room_for_too_long_is_busy() {
    let folder = TempDir::new().unwrap();
    let (one, listener) = server(&folder.path().join("one"));
    rustix::net::listen(&listener, 0).unwrap();
    let (reporter, said) = reporter();
    let settings = Settings { connect: Duration::from_millis(300), ..settings() };
    let upstreams = start_with(&one, connector(&[&one]), &settings, reporter);
    ask(&upstreams).answer().finish(ReleaseMode::Ended);
    let all: Vec<Asked> = (0..50).map(|_| ask(&upstreams)).collect();
    for asked in all {
        assert_eq!(asked.refusal(), OpenError::Busy);
    }
    assert_eq!(said.lock().unwrap().len(), 50, "nothing else is said than why");
    listener.accept().unwrap();
    assert_connects(&upstreams, &listener);
}
