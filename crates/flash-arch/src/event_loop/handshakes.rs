//! Tests of handshakes in a loop: one step between two rounds of events, in the order of arrival.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use flash_core::connection::transport::CertificatesId;
use flash_core::record::Peer;
use flash_core::record::counters::Count;
use flash_http::Scheme;
use flash_tls::tickets::Tickets;
use flash_tls::{Certificate, Choices, Endpoint, authority};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tempfile::TempDir;

use super::*;
use crate::sped::Inline;
use crate::testing;
use crate::{Limits, ReadinessPoller};

const HANDSHAKES_MAX: usize = 3;

/// A loop, and clients whose first messages it has received.
struct Handshakes {
    event_loop: EventLoop<Inline, ReadinessPoller>,
    clients: Vec<UnixStream>,
    shared: Arc<ServerState>,
    _folder: TempDir,
}

impl Handshakes {
    fn begin(clients: usize) -> Self {
        let folder = TempDir::new().unwrap();
        let local = authority::local(folder.path()).unwrap();
        let certificates = vec![Certificate::read(&local.files, &flash_trust::open).unwrap()];
        let tickets = Arc::new(Tickets::new().unwrap());
        let choices = Choices { http2: true, early_data: false };
        let endpoint = Endpoint::new(CertificatesId(0), certificates, None, tickets, choices);
        let mut parts = testing::parts(folder.path(), 60_000);
        parts.tls.replace([&Arc::new(endpoint)]);
        parts.server.settings.certificates = Some(CertificatesId(0));
        let limits =
            Limits { connections_max: clients + 10, handshakes_max: HANDSHAKES_MAX, ..Limits::default() };
        let shared = ServerState::new(parts, limits);
        let completions = Arc::new(CompletionQueue::new().unwrap());
        let event_loop =
            EventLoop::new(Arc::clone(&shared), completions, Inline(Arc::clone(&shared))).unwrap();
        let mut begun = Self { event_loop, clients: Vec::new(), shared, _folder: folder };
        (0..clients).for_each(|_| begun.add());
        begun
    }

    /// A client that has sent its ClientHello.
    fn add(&mut self) {
        let config =
            ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let mut hello = Vec::new();
        ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut hello).unwrap();
        self.open(&hello);
    }

    /// A client that has sent these bytes.
    fn open(&mut self, bytes: &[u8]) {
        let (socket, mut client) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        client.write_all(bytes).unwrap();
        self.clients.push(client);
        let transport = TransportInfo { scheme: Scheme::Https, ..TransportInfo::plain(Peer::Unix) };
        let permit = self.shared.permit().unwrap();
        self.event_loop.open_connection(socket.into(), transport, permit);
    }

    /// Which clients have got something since they were last asked.
    fn answered(&mut self) -> Vec<usize> {
        let mut buffer = [0; 16 << 10];
        let got = |(number, client): (usize, &mut UnixStream)| match client.read(&mut buffer) {
            Ok(1..) => Some(number),
            _ => None,
        };
        self.clients.iter_mut().enumerate().filter_map(got).collect()
    }

    fn waiting(&self) -> u64 {
        self.shared.metrics.handshakes_waiting.get()
    }
}

#[test]
fn a_round_takes_one_step_and_the_first_comes_first() {
    let mut handshakes = Handshakes::begin(3);
    assert_eq!((handshakes.answered(), handshakes.waiting()), (vec![], 3));
    for number in 0..3 {
        assert_eq!(handshakes.event_loop.timeout(), Some(Duration::ZERO), "it does not sleep");
        handshakes.event_loop.run_handshake();
        assert_eq!((handshakes.answered(), handshakes.waiting()), (vec![number], 2 - number as u64));
    }
    assert_ne!(handshakes.event_loop.timeout(), Some(Duration::ZERO));
}

#[test]
fn a_handshake_that_waits_beyond_its_deadline_is_over_and_delays_no_other() {
    let mut handshakes = Handshakes::begin(2);
    let head_ms = handshakes.shared.configuration().server.settings.head_timeout_ms;
    let now_us = handshakes.event_loop.worker.clock.now.us;
    handshakes.event_loop.worker.clock.now.advance(now_us + head_ms * 1000 / 2);
    handshakes.add();
    handshakes.event_loop.worker.clock.now.advance(now_us + head_ms * 1000 + 2_000_000);
    handshakes.event_loop.expire();
    assert_eq!((handshakes.event_loop.slots.len(), handshakes.waiting()), (1, 1));
    assert_eq!(handshakes.shared.metrics.get(Count::HandshakesFailed), 2);
    handshakes.event_loop.run_handshake();
    assert_eq!(handshakes.answered(), [2], "the two before it have ended");
}

#[test]
fn beyond_the_limit_the_oldest_handshake_that_waits_for_its_client_is_closed() {
    // The first waits for the loop, and does not count.
    let mut handshakes = Handshakes::begin(1);
    for number in 0..HANDSHAKES_MAX + 2 {
        let now_us = handshakes.event_loop.worker.clock.now.us;
        handshakes.event_loop.worker.clock.now.advance(now_us + 1_000);
        // Some send a part of a message, and some nothing.
        handshakes.open(if number % 2 == 0 { &[22, 3, 1] } else { &[] });
    }
    let is_closed = |client: &mut UnixStream| !matches!(client.read(&mut [0; 1]), Err(error) if error.kind() == ErrorKind::WouldBlock);
    let closed: Vec<bool> = handshakes.clients.iter_mut().map(is_closed).collect();
    assert_eq!(closed, [false, true, true, false, false, false]);
    let metrics = Arc::clone(&handshakes.shared.metrics);
    assert_eq!((metrics.get(Count::HandshakesShed), metrics.handshakes_unfinished.get()), (2, 3));
    drop(handshakes);
    assert_eq!((metrics.handshakes_unfinished.get(), metrics.handshakes_waiting.get()), (0, 0));
}
