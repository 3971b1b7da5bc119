//! The admin socket with clients that are pairs of sockets, and times that tests give.

use std::cell::Cell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use flash_process::UpgradeRequest;

use super::history::Sample;
use super::snapshot::SiteSnapshot;
use super::*;
use crate::service::reply::Reply;

/// A server that counts what it is asked for.
#[derive(Default)]
struct Counting {
    snapshots: Cell<usize>,
    samples: Cell<usize>,
    sites: Cell<usize>,
    reloads: Vec<Reply>,
}

fn count(of: &Cell<usize>) {
    of.set(of.get() + 1);
}

impl Administered for Counting {
    fn snapshot(&self) -> Snapshot {
        count(&self.snapshots);
        Snapshot::default()
    }

    fn sample(&self) -> Sample {
        count(&self.samples);
        Sample::default()
    }

    fn changed_sites(&self) -> Vec<SiteSnapshot> {
        count(&self.sites);
        Vec::new()
    }

    fn is_draining(&self) -> bool {
        false
    }

    fn reload(&mut self, reply: Reply) {
        self.reloads.push(reply);
    }

    fn check(&mut self, _: std::path::PathBuf, _: Reply) {}

    fn reopen_logs(&mut self, _: Reply) {}

    fn log_counters(&mut self) {}

    fn upgrade(&mut self, _: UpgradeRequest, _: Reply) {}
}

/// A server whose administrators come by themselves.
fn admin() -> AdminServer {
    let listener = Listener::inet("127.0.0.1:0".parse().unwrap()).unwrap();
    let listeners = AdminListeners { read_only: Some(listener), ..AdminListeners::default() };
    AdminServer::new(listeners).unwrap()
}

/// Another client, which has sent these bytes.
fn client(admin: &mut AdminServer, bytes: &str, now: Instant) -> UnixStream {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(bytes.as_bytes()).unwrap();
    [&ours, &theirs].iter().for_each(|end| end.set_nonblocking(true).unwrap());
    watch(&admin.poller, &theirs).unwrap();
    let policy = Policy { access: Access::Full, ..admin.listeners[0].1.clone() };
    admin.clients.push(AdminClient::new(theirs.into(), policy, now));
    ours
}

fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// What has come.
fn received(client: &mut UnixStream) -> String {
    let mut text = Vec::new();
    // The error is that there is no more.
    let _ = client.read_to_end(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn a_server_that_nobody_watches_is_asked_for_a_few_counters_only() {
    let (mut admin, mut server, start) = (admin(), Counting::default(), Instant::now());
    let mut second = |number, admin: &mut AdminServer| admin.turn(&mut server, start + number * EVERY);
    (0..=1).for_each(|number| second(number, &mut admin));
    let mut watching = client(&mut admin, &request("GET", "/events"), start + EVERY);
    second(1, &mut admin);
    assert!(received(&mut watching).contains("\"sections\""), "the first event comes at once");
    (2..=3).for_each(|number| second(number, &mut admin));
    assert_eq!(received(&mut watching).matches("\"sections\"").count(), 2);
    admin.leave();
    assert_eq!(watching.read(&mut [0]).unwrap(), 0, "it is over");
    assert_eq!((server.samples.get(), server.snapshots.get(), server.sites.get()), (4, 3, 1));
}

#[test]
fn requests_come_in_pieces_and_slow_clients_are_given_up() {
    let (mut admin, mut server, start) = (admin(), Counting::default(), Instant::now());
    let mut asking = client(&mut admin, "GET /healthz HTT", start);
    let mut silent = client(&mut admin, "", start);
    admin.turn(&mut server, start);
    assert_eq!(received(&mut asking), "");
    asking.write_all(b"P/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    admin.turn(&mut server, start);
    assert!(received(&mut asking).ends_with("\r\n\r\nserving\n"));
    drop(asking);
    admin.turn(&mut server, start + Duration::from_secs(4));
    assert_eq!(admin.clients.len(), 1);
    admin.turn(&mut server, start + Duration::from_secs(6));
    assert_eq!((admin.clients.len(), silent.read(&mut [0]).unwrap()), (0, 0));
}

/// As a worker of mp has the socket that was forked meanwhile.
#[test]
fn a_connection_is_over_in_both_directions_if_another_process_has_it_too() {
    let (mut admin, mut server, start) = (admin(), Counting::default(), Instant::now());
    let mut silent = client(&mut admin, "", start);
    let _inherited = rustix::io::dup(&admin.clients[0]).unwrap();
    admin.turn(&mut server, start + Duration::from_secs(6));
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    assert_eq!(silent.write(b"GET").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_crowd_of_silent_clients_is_bounded() {
    let (mut admin, mut server, now) = (admin(), Counting::default(), Instant::now());
    let address = admin.listeners[0].0.address().unwrap();
    let mut crowd: Vec<_> = (0..200).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    // The kernel may keep a connection back until its client has sent something.
    crowd.iter_mut().for_each(|client| client.write_all(b"G").unwrap());
    for _ in 0..100 {
        admin.turn(&mut server, now);
    }
    assert_eq!(admin.clients.len(), CONNECTIONS_MAX + REFUSED_MAX);
    drop(crowd);
}

#[test]
fn an_outcome_comes_later_and_a_server_that_stops_says_so() {
    let (mut admin, mut server, now) = (admin(), Counting::default(), Instant::now());
    let reload = request("POST", "/reload");
    let mut first = client(&mut admin, &reload, now);
    admin.turn(&mut server, now);
    let mut second = client(&mut admin, &reload, now);
    admin.turn(&mut server, now);
    assert!(received(&mut second).contains("another reload is under way"));
    server.reloads.remove(0).send(Ok(7));
    admin.turn(&mut server, now);
    assert!(received(&mut first).ends_with("configuration 7 serves from now on\n"));
    let mut third = client(&mut admin, &reload, now);
    admin.turn(&mut server, now);
    assert_eq!(received(&mut third), "");
    server.reloads.clear();
    admin.turn(&mut server, now);
    let response = received(&mut third);
    assert!(response.starts_with("HTTP/1.1 422 ") && response.ends_with("the server is stopping\n"));
}
