//! A loop that ends before its server does.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use flash_core::job::Job;
use flash_core::record::Peer;
use tempfile::TempDir;

use super::*;
use crate::poller::readiness::ReadinessPoller;
use crate::service::upgrade::UpgradeQueue;
use crate::{Limits, testing};

/// Panics outside the turn of a connection.
struct Panics;

impl Dispatch for Panics {
    fn dispatch(
        &mut self,
        _: Job,
        _: u64,
        _: ExchangeId,
        _: ClientNetwork,
        _: &LoopMetrics,
    ) -> Option<Outcome> {
        panic!("a fault");
    }
}

#[test]
fn a_loop_that_panics_stops_its_server_and_closes_its_connections() {
    let folder = TempDir::new().unwrap();
    let limits = Limits { connections_max: 9, handshakes_max: 9, ..Limits::default() };
    let shared = testing::shared(folder.path(), limits, 1_000);
    let _ = shared.upgrades.set(UpgradeQueue::new().unwrap());
    let completions = Arc::new(CompletionQueue::new().unwrap());
    let mut event_loop =
        EventLoop::<_, ReadinessPoller>::new(Arc::clone(&shared), completions, Panics).unwrap();
    let (socket, mut client) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    let permit = shared.permit().unwrap();
    event_loop.open_connection(socket.into(), TransportInfo::plain(Peer::Unix), permit);
    let thread = event_loop.spawn(0).unwrap();
    assert_eq!(shared.failure(), None);
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    // Closed, or reset because the loop had not read everything.
    let asked = Instant::now();
    let _ = client.read(&mut [0; 9]);
    assert!(asked.elapsed() < Duration::from_secs(20), "the connection hangs");
    thread.join().expect("the loop says how it ends");
    assert_eq!(shared.failure(), Some("loop-0 has ended (internal error: a fault), so the server stops"));
    // What waits for signals is woken.
    let upgrades = shared.upgrades.get().unwrap();
    assert_eq!(rustix::io::read(upgrades.waker(), &mut [0; 8][..]), Ok(8));
}
