//! Servers in a sandbox, whose connections a connector makes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

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
    let config =
        ServerConfig { name: address.to_string(), address, lookup: None, tls: None, is_http2: false };
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

/// One that was killed once it had started, and what is started in its place.
fn killed(next: impl Fn() -> io::Result<OwnedFd> + Send + Sync + 'static) -> Arc<Connector> {
    let (ours, theirs) = ipc::pair().unwrap();
    ipc::send(&theirs, b"", &[]).unwrap();
    let first = Mutex::new(Some(ours));
    let start = move || first.lock().unwrap().take().map_or_else(&next, Ok);
    Arc::new(Connector::start(start).expect("it starts"))
}

#[test]
fn a_connector_that_cannot_be_started_again_is_said_and_nobody_waits_for_it() {
    let folder = TempDir::new().unwrap();
    let (one, _listener) = server(&folder.path().join("one"));
    let (reporter, said) = reporter();
    let starts = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&starts);
    let connector = killed(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Err(io::Error::other("the supervisor has ended"))
    });
    let upstreams = start_with(&one, connector, &settings(), reporter);
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(ask(&upstreams).refusal(), OpenError::Busy);
    }
    let starts = starts.load(Ordering::Relaxed);
    assert!(starts <= 1 + begun.elapsed().as_secs(), "{starts} in {:?}", begun.elapsed());
    let said = said.lock().unwrap();
    assert!(said.len() as u64 == starts && said[0].contains("the supervisor has ended"), "{said:?}");
}

/// The background thread does not wait for it either.
#[test]
fn a_connector_that_takes_long_to_start_again_keeps_no_request_for_longer_than_a_connection() {
    let folder = TempDir::new().unwrap();
    let (one, _listener) = server(&folder.path().join("one"));
    let silent = Mutex::new(Vec::new());
    let connector = killed(move || {
        let (ours, theirs) = ipc::pair()?;
        silent.lock().unwrap().push(theirs);
        Ok(ours)
    });
    let settings = Settings { connect: Duration::from_millis(100), ..settings() };
    let upstreams = start_with(&one, connector, &settings, reporter().0);
    assert_eq!(ask(&upstreams).refusal(), OpenError::Late);
}

#[test]
fn a_connector_that_ends_without_an_answer_has_reached_nobody() {
    let folder = TempDir::new().unwrap();
    let (one, _listener) = server(&folder.path().join("one"));
    assert!(one.reach(Some(&connector(&[&one]))).is_ok());
    let start = || {
        let (ours, theirs) = ipc::pair()?;
        ipc::send(&theirs, b"", &[])?;
        thread::spawn(move || ipc::receive(&theirs, &mut ipc::buffer()).map(drop));
        Ok(ours)
    };
    assert!(one.reach(Some(&Connector::start(start).expect("it starts"))).is_err());
}
