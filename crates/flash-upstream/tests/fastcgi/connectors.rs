//! Servers in a sandbox, whose connections a connector makes.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use flash_cgi::Variables;
use flash_core::upstream::ReleaseMode;
use flash_process::ipc;
use flash_upstream::{
    Connector, CountedUpstream, RouteUpstreams, ServerConfig, UpstreamConfig, run_connector,
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
        thread::spawn(move || run_connector(&theirs, servers.iter(), || Ok(())));
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
    let (reporter, _) = reporter();
    RouteUpstreams::start(services(server), None, Some(connector), &settings(), reporter, log_detached())
        .unwrap()
}

#[track_caller]
fn assert_connects(upstreams: &RouteUpstreams, listener: &UnixListener) {
    Asked::of(upstreams, Variables::default(), true).answer().finish(ReleaseMode::Ended);
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
