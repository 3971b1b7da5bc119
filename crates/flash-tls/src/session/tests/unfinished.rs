//! Clients that never finish a message of the handshake: what waits for its rest has a limit.

use super::resumption::endpoint_of_clients;
use super::*;

/// A record of a handshake with the beginning of a message.
fn record(kind: u8, length: usize, bytes: usize) -> Vec<u8> {
    let header = [&[kind][..], &(length as u32).to_be_bytes()[1..]].concat();
    let record_bytes = ((header.len() + bytes) as u16).to_be_bytes();
    [&[22, 3, 3][..], &record_bytes, &header, &vec![7; bytes]].concat()
}

#[test]
fn a_client_hello_has_a_limit_and_is_in_memory_once() {
    let (endpoint, config) = endpoint();
    let mut peers = Peers::new(&endpoint, &config);
    let mut sent = record(1, RECORD_BYTES - 4, RECORD_BYTES - 4);
    sent.pop();
    sent.chunks(1000).for_each(|piece| peers.serve(piece).unwrap());
    assert_eq!(peers.server.incoming.len(), sent.len());
    assert!(peers.server.incoming.capacity() <= 2 * sent.len() && peers.server.outgoing().is_empty());
    // Each byte has a record of its own.
    let mut peers = Peers::new(&endpoint, &config);
    peers.serve(&record(1, 10_000, 0)).unwrap();
    let result = (0..10_000).try_for_each(|_| peers.serve(&[22, 3, 3, 0, 1, 7]));
    assert!(result.is_err() && peers.server.incoming.capacity() == 0);
    // The first bytes say that it will be too long.
    let mut peers = Peers::new(&endpoint, &config);
    assert!(matches!(peers.serve(&record(1, 60_000, 0)), Err(Failure::Tls(Error::PeerSentOversizedRecord))));
    assert_eq!(peers.server.outgoing()[0], 21, "an alert");
}

#[test]
fn other_messages_have_a_limit_and_chains_of_clients_a_higher_one() {
    let until = std::time::SystemTime::now() + std::time::Duration::from_secs(1000);
    let of_clients = endpoint_of_clients(&version::TLS12, false, 1, until);
    for ((endpoint, config), limit) in
        [(endpoint_of(&[&version::TLS12]), RECORD_WIRE_BYTES_MAX), (of_clients, CHAIN_BYTES_MAX)]
    {
        let mut peers = Peers::new(&endpoint, &config);
        let first = flight(&mut peers, b"");
        peers.serve(&first).unwrap();
        peers.serve(&record(11, 60_000, 1000)).unwrap();
        let mut most = 0;
        let mut next = [&[22, 3, 3, 0x03, 0xe8][..], &[7; 1000]].concat();
        let result = (0..60).try_for_each(|_| {
            peers.serve(&next)?;
            most = most.max(peers.server.incoming.len());
            next[5] += 1;
            Ok::<_, Failure>(())
        });
        assert!(result.is_err() && most <= limit && most > limit - 2000, "{most} of {limit}: {result:?}");
        assert_eq!(peers.server.incoming.capacity(), 0);
    }
}

/// Their authorities take more than a record.
#[test]
fn a_long_chain_is_accepted() {
    let until = std::time::SystemTime::now() + std::time::Duration::from_secs(1000);
    for version in [&version::TLS13, &version::TLS12] {
        let (endpoint, config) = endpoint_of_clients(version, false, 60, until);
        for piece in [1000, usize::MAX] {
            let mut peers = Peers::new(&endpoint, &config);
            peers.exchange(piece);
            assert!(peers.server.is_open() && peers.server.incoming.capacity() == 0, "{version:?}");
        }
    }
}
