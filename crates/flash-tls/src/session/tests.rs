//! Sessions with a client of rustls, in memory.

use std::io::{Read, Write};

use rustls::client::WantsClientCert;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, version};

use super::*;
use crate::authority::{self, Local};
use crate::certificates::Certificate;
use crate::client_certificates::ClientAuthorities;
use crate::endpoint::Choices;
use crate::tickets::Tickets;

mod resumption;
mod unfinished;

struct Peers {
    server: Session,
    client: ClientConnection,
    endpoint: Arc<Endpoint>,
    secured: Vec<(TlsInfo, HandshakeKind)>,
    received: Vec<u8>,
    /// What the client has decrypted.
    answered: Vec<u8>,
    ended: bool,
}

fn endpoint() -> (Arc<Endpoint>, Arc<ClientConfig>) {
    endpoint_of(&[&version::TLS13])
}

fn endpoint_of(versions: &[&'static rustls::SupportedProtocolVersion]) -> (Arc<Endpoint>, Arc<ClientConfig>) {
    endpoint_with(versions, false)
}

/// An endpoint, and a client without a certificate.
fn endpoint_with(
    versions: &[&'static rustls::SupportedProtocolVersion],
    requires_client: bool,
) -> (Arc<Endpoint>, Arc<ClientConfig>) {
    endpoint_for(versions, requires_client, false)
}

fn endpoint_for(
    versions: &[&'static rustls::SupportedProtocolVersion],
    requires_client: bool,
    early_data: bool,
) -> (Arc<Endpoint>, Arc<ClientConfig>) {
    let clients = |local: &Local| {
        requires_client.then(|| ClientAuthorities::read(&local.authority, true, &flash_trust::open).unwrap())
    };
    endpoint_asking(versions, early_data, clients, |builder| builder.with_no_client_auth())
}

/// An endpoint that asks clients for certificates of these authorities, and a client as `finish` makes it.
fn endpoint_asking(
    versions: &[&'static rustls::SupportedProtocolVersion],
    early_data: bool,
    clients: impl FnOnce(&Local) -> Option<ClientAuthorities>,
    finish: impl FnOnce(ConfigBuilder<ClientConfig, WantsClientCert>) -> ClientConfig,
) -> (Arc<Endpoint>, Arc<ClientConfig>) {
    let folder = tempfile::tempdir().unwrap();
    let local = authority::local(folder.path()).unwrap();
    let certificate = Certificate::read(&local.files, &flash_trust::open).unwrap();
    let tickets = Arc::new(Tickets::new().unwrap());
    let choices = Choices { http2: true, early_data };
    let (id, clients) = (CertificatesId(7), clients(&local));
    let endpoint = Arc::new(Endpoint::new(id, vec![certificate], clients, tickets, choices));
    let mut roots = RootCertStore::empty();
    use rustls::pki_types::pem::PemObject;
    roots.add(rustls::pki_types::CertificateDer::from_pem_file(&local.authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let mut config = finish(builder.with_root_certificates(roots));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.enable_early_data = true;
    (endpoint, Arc::new(config))
}

fn note(
    event: Event<'_>,
    secured: &mut Vec<(TlsInfo, HandshakeKind)>,
    received: &mut Vec<u8>,
    ended: &mut bool,
) {
    match event {
        Event::Secured(tls, kind, _) => secured.push((tls, kind)),
        Event::Early(tls, _) => secured.push((tls, HandshakeKind::Full)),
        Event::Confirmed(kind) => secured.last_mut().unwrap().1 = kind,
        Event::Plaintext(bytes) => received.extend_from_slice(bytes),
        Event::End => *ended = true,
    }
}

impl Peers {
    fn new(endpoint: &Arc<Endpoint>, config: &Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::clone(config), name).unwrap();
        client.set_buffer_limit(None);
        Self {
            server: Session::default(),
            client,
            endpoint: Arc::clone(endpoint),
            secured: Vec::new(),
            received: Vec::new(),
            answered: Vec::new(),
            ended: false,
        }
    }

    /// Moves bytes in pieces of this size until neither side has more.
    fn exchange(&mut self, piece: usize) {
        self.try_exchange(piece).unwrap();
    }

    /// Ends with the session, if it fails.
    fn try_exchange(&mut self, piece: usize) -> Result<(), Failure> {
        loop {
            let mut bytes = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut bytes).unwrap();
            }
            bytes.chunks(piece).try_for_each(|piece| self.serve(piece))?;
            let sent = self.server.outgoing().to_vec();
            self.server.sent(sent.len());
            self.deliver(&sent);
            if sent.is_empty() && !self.client.wants_write() {
                return Ok(());
            }
        }
    }

    fn serve(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.receive(bytes)?;
        let Self { server, secured, received, ended, .. } = self;
        server.step(|event| note(event, secured, received, ended))
    }

    /// Without a step of the handshake.
    fn receive(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Self { server, endpoint, secured, received, ended, .. } = self;
        let choose = |name: Option<&str>, _| {
            assert_eq!(name, Some("localhost"));
            Some(Arc::clone(endpoint))
        };
        server.receive(bytes, choose, |event| note(event, secured, received, ended))
    }

    fn deliver(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.client.read_tls(&mut bytes).unwrap();
            self.client.process_new_packets().unwrap();
            let mut piece = vec![0; 64 << 10];
            while let Ok(count @ 1..) = self.client.reader().read(&mut piece) {
                self.answered.extend_from_slice(&piece[..count]);
            }
        }
    }

    /// Sends plaintext through a socket that takes `room` bytes of each call.
    fn send(&mut self, mut plaintext: &[u8], room: usize) -> Vec<u8> {
        while !plaintext.is_empty() {
            let mut wire = Vec::new();
            // Two slices, as a head and a body are.
            let (head, body) = plaintext.split_at(plaintext.len().min(100));
            let slices = [IoSlice::new(head), IoSlice::new(body)];
            let sealed = self
                .server
                .seal(&slices, |records| {
                    let taken = records.len().min(room);
                    wire.extend_from_slice(&records[..taken]);
                    Some(taken)
                })
                .unwrap();
            plaintext = &plaintext[sealed..];
            wire.extend_from_slice(self.server.outgoing());
            self.server.sent(self.server.outgoing().len());
            self.deliver(&wire);
        }
        std::mem::take(&mut self.answered)
    }
}

#[test]
fn a_handshake_in_pieces_of_any_size_and_plaintext_in_both_directions() {
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        let (endpoint, config) = endpoint_of(versions);
        for piece in [1, 2, 5, 100, 1 << 20] {
            let mut peers = Peers::new(&endpoint, &config);
            peers.client.writer().write_all(b"GET /").unwrap();
            peers.exchange(piece);
            let [(tls, HandshakeKind::Full)] = peers.secured[..] else {
                // The first of a version is full, and the others resume it.
                let [(_, HandshakeKind::Resumed)] = peers.secured[..] else { panic!("{:?}", peers.secured) };
                continue;
            };
            assert_eq!((tls.certificates, tls.protocol), (CertificatesId(7), ApplicationProtocol::Http1));
            assert_eq!(peers.received, b"GET /", "{piece}");
            let long: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
            assert_eq!(peers.send(&long, usize::MAX), long);
            assert_eq!(peers.send(&long, 1000), long);
            peers.client.writer().write_all(&long).unwrap();
            peers.exchange(piece.max(10));
            assert_eq!(peers.received[5..], long);
            assert!(peers.server.incoming.capacity() == 0 && peers.server.outgoing.capacity() == 0);
        }
    }
}

/// The driver chooses when a processor is spent on a handshake.
#[test]
fn received_bytes_of_a_handshake_cost_nothing_until_its_step() {
    let (endpoint, config) = endpoint();
    let mut peers = Peers::new(&endpoint, &config);
    let mut flights = 0;
    while peers.secured.is_empty() {
        let mut flight = Vec::new();
        peers.client.write_tls(&mut flight).unwrap();
        let (first, rest) = flight.split_at(1);
        peers.receive(first).unwrap();
        assert!(flights > 0 || !peers.server.has_step(), "the ClientHello is not complete");
        peers.receive(rest).unwrap();
        assert!(peers.server.has_step() && peers.server.outgoing().is_empty() && peers.secured.is_empty());
        peers.serve(&[]).unwrap();
        assert!(!peers.server.has_step());
        let answer = peers.server.outgoing().to_vec();
        peers.server.sent(answer.len());
        peers.deliver(&answer);
        flights += 1;
    }
    assert_eq!(flights, 2);
    assert_eq!(peers.send(b"answer", usize::MAX), b"answer");
}

#[test]
fn a_short_response_is_one_record() {
    let (endpoint, config) = endpoint();
    let mut peers = Peers::new(&endpoint, &config);
    peers.exchange(usize::MAX);
    let mut records = Vec::new();
    let slices = [IoSlice::new(b"head"), IoSlice::new(b"body")];
    let sealed = peers.server.seal(&slices, |bytes| {
        records = bytes.to_vec();
        Some(bytes.len())
    });
    // Header, type and tag (RFC 8446 §5.2).
    assert_eq!((sealed, records.len()), (Some(8), 5 + 8 + 1 + 16));
}

#[test]
fn plaintext_at_the_start_of_a_page_is_copied_elsewhere() {
    let memory: Vec<u8> = (0..24_usize << 10).map(|at| (at % 251) as u8).collect();
    let page = memory.as_ptr().align_offset(4 << 10);
    for (at, is_copied) in [(0, true), (100, false)] {
        let plaintext = &memory[page + at..][..RECORD_BYTES];
        let slices = [IoSlice::new(plaintext)];
        let mut buffer = Vec::new();
        let mut rest = Slices { slices: &slices, at: 0 };
        let piece = rest.record(&mut buffer).unwrap();
        assert_eq!(piece, plaintext);
        assert_eq!(piece.as_ptr() != plaintext.as_ptr(), is_copied, "{at} bytes behind the start");
        assert!(rest.record(&mut buffer).is_none());
    }
}

#[test]
fn a_slow_client_makes_one_record_wait() {
    let (endpoint, config) = endpoint();
    let mut peers = Peers::new(&endpoint, &config);
    peers.exchange(usize::MAX);
    let long = vec![b'x'; 1 << 20];
    assert_eq!(peers.server.seal(&[IoSlice::new(&long)], |_| Some(0)), Some(4 * RECORD_BYTES));
    let waiting = peers.server.outgoing().len();
    peers.server.sent(waiting);
    assert_eq!(peers.server.seal(&[IoSlice::new(&long)], |_| Some(0)), Some(RECORD_BYTES));
}

#[test]
fn each_side_can_close() {
    let (endpoint, config) = endpoint();
    let mut peers = Peers::new(&endpoint, &config);
    peers.exchange(usize::MAX);
    peers.client.send_close_notify();
    peers.exchange(usize::MAX);
    assert!(peers.ended);
    // The client may still read.
    assert_eq!(peers.send(b"last words", usize::MAX), b"last words");
    peers.server.close();
    peers.server.close();
    let words = peers.server.outgoing().to_vec();
    assert_eq!(words.len(), 5 + 2 + 1 + 16);
    peers.deliver(&words);
    assert_eq!(peers.client.reader().read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_client_may_change_its_keys() {
    let (endpoint, config) = endpoint();
    let mut peers = Peers::new(&endpoint, &config);
    peers.exchange(usize::MAX);
    for round in 0..3 {
        peers.client.refresh_traffic_keys().unwrap();
        peers.client.writer().write_all(b"more").unwrap();
        peers.exchange(1);
        assert_eq!(peers.received.len(), 4 * (round + 1));
        assert_eq!(peers.send(b"answer", usize::MAX), b"answer");
    }
}

#[test]
fn what_is_no_tls_gets_an_answer_that_its_client_understands() {
    let (endpoint, config) = endpoint();
    let mut peers = Peers::new(&endpoint, &config);
    assert!(matches!(peers.serve(b"GET / HTTP/1.1\r\n"), Err(Failure::PlainHttp)));
    let answer = String::from_utf8(peers.server.outgoing().to_vec()).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 400 ") && head.contains(&format!("Content-Length: {}\r\n", body.len())),
        "{answer}"
    );
    for bytes in
        [&b"\x00\x01\x02\x03\x04\x05\x06"[..], &[22, 3, 1, 0xff, 0xff, 0, 0, 0], &[21, 3, 3, 0, 2, 1, 0]]
    {
        let mut peers = Peers::new(&endpoint, &config);
        assert!(matches!(peers.serve(bytes), Err(Failure::Tls(_))), "{bytes:?}");
        // An alert in the clear, if any.
        assert!(peers.server.outgoing().first().is_none_or(|kind| *kind == 21), "{bytes:?}");
        assert!(peers.serve(b"more").is_ok() && peers.secured.is_empty());
    }
}

#[test]
fn a_record_that_is_too_long_or_forged_ends_the_session() {
    let (endpoint, config) = endpoint();
    let long = [&[23, 3, 3, 0x48, 0][..], &[0; 0x4800]].concat();
    let forged = [&[23, 3, 3, 0, 32][..], &[0; 32]].concat();
    for bytes in [long, forged] {
        let mut peers = Peers::new(&endpoint, &config);
        peers.exchange(usize::MAX);
        assert!(matches!(peers.serve(&bytes), Err(Failure::Tls(_))));
        assert!(!peers.server.outgoing().is_empty() && peers.received.is_empty());
        assert!(!peers.server.is_open());
    }
}

/// The client's other messages are in the same record. rustls remembers where, and must not look for them elsewhere.
#[test]
fn a_failure_before_the_end_of_a_record_gets_its_alert() {
    for version in [&version::TLS13, &version::TLS12] {
        let (endpoint, config) = endpoint_with(&[version], true);
        let mut peers = Peers::new(&endpoint, &config);
        let mut result = Ok(());
        while result.is_ok() {
            let mut bytes = Vec::new();
            while peers.client.wants_write() {
                peers.client.write_tls(&mut bytes).unwrap();
            }
            assert!(!bytes.is_empty(), "{version:?}: it has not failed");
            result = peers.serve(&bytes);
            let sent = peers.server.outgoing().to_vec();
            peers.server.sent(sent.len());
            if result.is_ok() {
                peers.deliver(&sent);
            } else {
                // An alert: in the clear with TLS 1.2, and encrypted with TLS 1.3.
                assert!(matches!(sent[0], 21 | 23) && sent.len() < 30, "{version:?}: {sent:?}");
            }
        }
        assert!(matches!(result, Err(Failure::NoClientCertificate)), "{version:?}: {result:?}");
        assert!(peers.secured.is_empty());
    }
}

#[test]
fn a_wrong_message_with_another_behind_it_ends_the_session_and_no_more() {
    // Two messages "finished" in one record, where others are expected.
    let messages = [22, 3, 3, 0, 8, 20, 0, 0, 0, 20, 0, 0, 0];
    for versions in [&[&version::TLS12], &[&version::TLS13]] {
        let (endpoint, config) = endpoint_of(versions);
        let mut peers = Peers::new(&endpoint, &config);
        let mut hello = Vec::new();
        peers.client.write_tls(&mut hello).unwrap();
        peers.serve(&hello).unwrap();
        assert!(peers.serve(&messages).is_err());
        assert!(!peers.server.outgoing().is_empty(), "an alert");
        // Behind the ClientHello, in its own record.
        let mut peers = Peers::new(&endpoint, &config);
        let mut longer = hello.clone();
        longer.extend_from_slice(&messages[5..]);
        let length = (longer.len() as u16 - 5).to_be_bytes();
        longer[3..5].copy_from_slice(&length);
        assert!(peers.serve(&longer).is_err());
    }
}

/// RFC 8879.
#[test]
fn a_client_gets_the_certificate_in_the_coding_that_it_takes_and_it_is_compressed_once() {
    use rustls::compress::{BROTLI_DECOMPRESSOR, CertDecompressor, ZLIB_DECOMPRESSOR};
    let (endpoint, config) = endpoint();
    let flight = |decompressors: &[&'static dyn CertDecompressor]| {
        let mut config = ClientConfig::clone(&config);
        config.cert_decompressors = decompressors.to_vec();
        config.resumption = rustls::client::Resumption::disabled();
        let mut peers = Peers::new(&endpoint, &Arc::new(config));
        let mut hello = Vec::new();
        peers.client.write_tls(&mut hello).unwrap();
        peers.serve(&hello).unwrap();
        let bytes = peers.server.outgoing().len();
        peers.exchange(usize::MAX);
        assert_eq!(peers.secured[0].1, HandshakeKind::Full);
        bytes
    };
    let compressed = || crate::compression::COMPRESSED.get();
    let whole = flight(&[]);
    assert_eq!(compressed(), 0);
    let brotli = flight(&[ZLIB_DECOMPRESSOR, BROTLI_DECOMPRESSOR]);
    let zlib = flight(&[ZLIB_DECOMPRESSOR]);
    assert_eq!(compressed(), 2);
    println!("the server's flight: {whole} bytes, {zlib} with zlib, {brotli} with brotli");
    assert!(brotli < whole && zlib < whole, "{brotli}, {zlib}, {whole}");
    for _ in 0..5 {
        flight(&[BROTLI_DECOMPRESSOR]);
        flight(&[ZLIB_DECOMPRESSOR]);
    }
    assert_eq!(compressed(), 2, "once in each coding");
}

/// The client's first flight, with these bytes as early data, if there may be any.
fn flight(peers: &mut Peers, early: &[u8]) -> Vec<u8> {
    if let Some(mut data) = peers.client.early_data() {
        data.write_all(early).unwrap();
    }
    let mut flight = Vec::new();
    while peers.client.wants_write() {
        peers.client.write_tls(&mut flight).unwrap();
    }
    flight
}

#[test]
fn early_data_is_answered_before_the_handshakes_end_and_taken_once() {
    let (endpoint, config) = endpoint_for(&[&version::TLS13], false, true);
    Peers::new(&endpoint, &config).exchange(usize::MAX);
    for piece in [usize::MAX, 1] {
        let mut peers = Peers::new(&endpoint, &config);
        let first = flight(&mut peers, b"GET /");
        first.chunks(piece.min(first.len())).for_each(|piece| peers.serve(piece).unwrap());
        assert_eq!(peers.received, b"GET /");
        assert!(peers.secured[0].0.is_early && !peers.server.is_open());
        // The client has sent nothing more.
        let words = peers.server.outgoing().to_vec();
        peers.server.sent(words.len());
        peers.deliver(&words);
        assert_eq!(peers.send(b"answer", usize::MAX), b"answer");
        assert!(peers.client.is_early_data_accepted());
        peers.client.writer().write_all(b" more").unwrap();
        peers.exchange(piece.min(1000));
        assert!(peers.server.is_open() && peers.received == b"GET / more", "{:?}", peers.received);
        assert!(matches!(peers.secured[..], [(_, HandshakeKind::Resumed)]), "{:?}", peers.secured);
        assert_eq!(peers.send(b"answer", usize::MAX), b"answer");
        // Somebody has recorded the flight.
        let mut replayed = Peers::new(&endpoint, &config);
        replayed.serve(&first).unwrap();
        assert!(replayed.received.is_empty() && replayed.secured.is_empty());
    }
}

#[test]
fn early_data_is_for_those_who_choose_it() {
    for (versions, early_data) in [(&[&version::TLS13], false), (&[&version::TLS12], true)] {
        let (endpoint, config) = endpoint_for(versions, false, early_data);
        let mut first = Peers::new(&endpoint, &config);
        first.client.writer().write_all(b"x").unwrap();
        first.exchange(usize::MAX);
        let mut peers = Peers::new(&endpoint, &config);
        assert!(peers.client.early_data().is_none());
        peers.client.writer().write_all(b"x").unwrap();
        peers.exchange(usize::MAX);
        assert!(matches!(peers.secured[..], [(tls, HandshakeKind::Resumed)] if !tls.is_early));
    }
}
