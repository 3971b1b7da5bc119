//! Clients that break the protocol, or stop in the middle of it.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{each, read_all, reply, site};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::CLOSE;
use crate::client::{Secured, Stream};

/// The bytes of a ClientHello, and the client that goes on behind it.
fn hello(secured: &Secured) -> (Vec<u8>, ClientConnection) {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(secured.authority.client(), name).expect("a client");
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).expect("a vector takes all");
    (bytes, client)
}

#[test]
fn a_client_hello_in_single_bytes() {
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &[]);
        let (bytes, client) = hello(&secured);
        let mut socket = secured.server.connect();
        for byte in bytes {
            socket.write_all(&[byte]).expect("it is taken");
        }
        let mut stream: Stream = StreamOwned::new(client, socket);
        stream.write_all(format!("GET /a.txt HTTP/1.1\r\n{CLOSE}").as_bytes()).expect("a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("a response");
        assert_eq!(reply::only(&answer).body, b"0123456789", "{arch}");
        secured.server.stop();
    });
}

#[test]
fn a_client_that_stops_in_the_handshake_is_cut_by_the_deadline_of_heads() {
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &["--head-timeout", "1s"]);
        let (bytes, _) = hello(&secured);
        let waits = [0, 1, bytes.len() / 2, bytes.len()].map(|count| {
            let mut socket = secured.server.connect();
            socket.write_all(&bytes[..count]).expect("it is taken");
            thread::spawn(move || {
                let begun = Instant::now();
                let answer = read_all(&mut socket);
                (begun.elapsed(), answer)
            })
        });
        for (wait, is_whole) in waits.into_iter().zip([false, false, false, true]) {
            let (wait, answer) = wait.join().expect("it reads");
            // A connection without bytes reaches the server after a second.
            let expected = Duration::from_millis(900)..Duration::from_secs(5);
            assert!(expected.contains(&wait), "{arch}: {wait:?}");
            assert_eq!(answer.is_empty(), !is_whole, "{arch}");
        }
        secured.server.stop();
    });
}

#[test]
fn plain_http_gets_a_sentence_in_the_clear() {
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &[]);
        for request in
            ["GET / HTTP/1.1\r\nHost: h\r\n\r\n", "POST /a HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc"]
        {
            let reply = reply::only(&secured.server.raw(request.as_bytes()));
            assert_eq!(reply.status, 400, "{arch}");
            let body = String::from_utf8(reply.body).expect("a text");
            assert!(body.contains("https://"), "{arch}: {body}");
        }
        secured.server.stop();
    });
}

#[test]
fn records_that_are_too_long_and_other_nonsense_get_an_alert() {
    let folder = site::make();
    let long = [&[22, 3, 1, 0x48, 0][..], &[1; 0x4800]].concat();
    let cases: [&[u8]; 4] =
        [&long, &[22, 3, 1, 0, 4, 99, 0, 0, 0], &[0x80, 0x2e, 1, 3, 1, 0, 0], &[23, 3, 3, 0, 1, 0]];
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &[]);
        for bytes in cases {
            let answer = secured.server.raw(bytes);
            // An alert in the clear, if a reset has not taken it away.
            assert!(answer.first().is_none_or(|kind| *kind == 21), "{arch}: {answer:?}");
        }
        // Behind a good handshake.
        let mut stream = secured.connect();
        stream.write_all(b"GET /a.txt HTTP/1.1\r\n").expect("a part of a request");
        stream.sock.write_all(&[23, 3, 3, 0x48, 0]).expect("it is taken");
        stream.sock.write_all(&[1; 0x4800]).ok();
        assert!(stream.read(&mut [0; 100]).is_err(), "{arch}");
        assert_eq!(
            reply::only(&secured.raw(format!("GET /a.txt HTTP/1.1\r\n{CLOSE}").as_bytes())).status,
            200
        );
        secured.server.stop();
    });
}
