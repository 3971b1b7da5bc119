//! Clients that do not finish their handshakes, in every architecture whose connections are many: they leave places for others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{ARCHITECTURES, PATIENCE, admin, connect, each, read_all, site};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::client::{Secured, Stream, stream};

const HALF_OPEN: usize = 1_000;
/// Half of the places may be theirs, and 100 have waited for the server when others came.
const SHED_MIN: u64 = 1_000 - 200 - 100;

fn hello(secured: &Secured) -> Vec<u8> {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut bytes = Vec::new();
    let mut client = ClientConnection::new(Arc::clone(&secured.authority.client()), name).expect("a client");
    client.write_tls(&mut bytes).expect("a message");
    bytes
}

fn get(stream: &mut Stream) -> std::io::Result<usize> {
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n")?;
    stream.read(&mut [0; 1000])
}

#[test]
fn a_thousand_half_open_handshakes_leave_places() {
    let folder = site::make();
    // A process of mp has one connection, and leaves one that stops when others wait.
    for arch in ARCHITECTURES.into_iter().filter(|arch| *arch != "mp") {
        let sockets = tempfile::tempdir().expect("a folder");
        let socket = sockets.path().join("admin");
        let admin = format!("unix:{}", socket.display());
        let flags = ["--connections-max", "400", "--head-timeout", "10m", "--admin", &admin];
        let secured = Secured::start(arch, folder.path(), &flags);
        // Idle for longer than all others.
        let mut kept = stream(&secured.server, &secured.authority.client(), "localhost");
        assert!(get(&mut kept).expect("a response") > 0);
        let hello = hello(&secured);
        let mut half_open: Vec<TcpStream> = Vec::new();
        for number in 0..HALF_OPEN {
            let mut client = connect(secured.server.address);
            // Nothing, a part of the first message, and the whole, which costs the server most.
            let count = match number % 10 {
                0 => hello.len(),
                1..5 => 0,
                _ => hello.len() / 2,
            };
            let _ = client.write_all(&hello[..count]);
            half_open.push(client);
        }
        let begun = Instant::now();
        let mut client = stream(&secured.server, &secured.authority.client(), "localhost");
        assert!(get(&mut client).expect("a response") > 0, "{arch}");
        assert!(get(&mut kept).expect("a response") > 0, "{arch}: its place was taken");
        println!("{arch}: answered after {:?}", begun.elapsed());
        let shed = until_shed(&socket);
        assert!(shed >= SHED_MIN, "{arch}: {shed}");
        drop(half_open);
        secured.server.stop();
    }
}

/// The first bytes say that it would have 60 KB.
#[test]
fn a_client_hello_that_would_be_too_long_is_refused_before_it_takes_memory() {
    const CLIENTS: usize = 300;
    let folder = site::make();
    let message = [&[1, 0, 0xea, 0x60][..], &[7; 50_000]].concat();
    let record = |piece: &[u8]| [&[22, 3, 1], &(piece.len() as u16).to_be_bytes()[..], piece].concat();
    let begun: Vec<u8> = message.chunks(16_000).flat_map(record).collect();
    each(|arch| {
        // Threads of mt have memory of their own, and on a busy machine there would be more of them.
        let secured = Secured::start(arch, folder.path(), &["--threads", "4", "--threads-max", "4"]);
        let before = secured.server.resident_kb();
        let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(secured.server.address)).collect();
        for client in &mut clients {
            // It may be reset before the end.
            let _ = client.write_all(&begun);
            let answer = read_all(client);
            assert!(matches!(answer[..], [] | [21, 3, 3, 0, 2, 2, 47]), "{arch}: {answer:?}");
        }
        let kb = secured.server.resident_kb().saturating_sub(before) as f64 / CLIENTS as f64;
        assert!(kb < 10.0, "{arch}: {kb} KB for each");
        drop(clients);
        secured.server.stop();
    });
}

/// How many connections were closed for their handshakes. The server may be about to accept the last of them.
fn until_shed(socket: &std::path::Path) -> u64 {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let (_, text) = admin::ask(socket, "GET", "/metrics");
        let shed = text
            .lines()
            .find_map(|line| line.strip_prefix("flash_tls_handshakes_total{result=\"shed\"} ")?.parse().ok())
            .unwrap_or_default();
        if shed >= SHED_MIN || Instant::now() > give_up {
            return shed;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
