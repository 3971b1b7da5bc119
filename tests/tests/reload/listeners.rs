//! Listeners that a reload adds and drops.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use flash_tests::{connect, own_addresses, read_all, reply, wait_for};

use crate::setup::{Setup, without_sandbox};

const GET: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";

fn ask(stream: &mut (impl Read + Write)) -> Vec<u8> {
    stream.write_all(GET).expect("the connection is open");
    let mut answer = vec![0; 4096];
    let count = stream.read(&mut answer).expect("the connection is open");
    answer.truncate(count);
    answer
}

#[test]
fn new_ones_accept_and_dropped_ones_refuse_while_their_connections_stay() {
    for arch in without_sandbox() {
        let [first, second] = own_addresses();
        let setup = Setup::start(arch, &format!("listen = '{first}'\n"));
        let mut kept = connect(first);
        assert!(ask(&mut kept).ends_with(b"old"), "{arch}");
        let socket = setup.path("flash.sock");
        setup.change(&format!("listen = ['{second}', '{first}', 'unix:{}']\n", socket.display()));
        for _ in 0..20 {
            assert!(ask(&mut connect(second)).ends_with(b"old"), "{arch}");
            assert!(ask(&mut connect(first)).ends_with(b"old"), "{arch}");
        }
        let mut by_name = UnixStream::connect(&socket).expect("the new socket accepts");
        assert!(ask(&mut by_name).ends_with(b"old"), "{arch}");
        setup.change(&format!("listen = '{second}'\n"));
        let is_refused =
            || TcpStream::connect(first).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        wait_for("the first to be closed", is_refused);
        assert!(ask(&mut kept).ends_with(b"old"), "{arch}: an open connection stays");
        assert!(ask(&mut by_name).ends_with(b"old"), "{arch}: an open connection stays");
        assert!(ask(&mut connect(second)).ends_with(b"old"), "{arch}");
        wait_for("the name to be removed", || !socket.exists());
        // A port that another one has got meanwhile is an error, and nothing changes.
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        setup.write(&format!("listen = ['{second}', '{}']\n", taken.local_addr().unwrap()));
        let (code, said) = setup.reload();
        assert!(code == Some(1) && said.contains("another program listens there"), "{arch}: {said}");
        let mut last = connect(second);
        last.write_all(b"GET /a.txt HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(reply::only(&read_all(&mut last)).status, 200, "{arch}");
        setup.server.stop();
    }
}

#[test]
fn a_listener_that_took_the_place_of_another_is_closed_when_it_is_dropped() {
    for arch in without_sandbox() {
        let [first, second, third] = own_addresses();
        let setup = Setup::start(arch, &format!("listen = '{first}'\n"));
        for (dropped, next) in [(first, second), (second, third)] {
            assert!(ask(&mut connect(dropped)).ends_with(b"old"), "{arch}");
            setup.change(&format!("listen = '{next}'\n"));
            assert!(ask(&mut connect(next)).ends_with(b"old"), "{arch}");
            // A connection would end a forgotten poll, and with it the listener.
            wait_for(&format!("{arch} to close {dropped}"), || TcpListener::bind(dropped).is_ok());
        }
        setup.server.stop();
    }
}

#[test]
fn a_listener_for_ipv6_alone_stays_what_it_is() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("NOT TESTED: there is no IPv6");
        return;
    }
    for arch in without_sandbox() {
        let taken = TcpListener::bind("[::]:0").and_then(|listener| listener.local_addr());
        let port = taken.expect("a free port").port();
        let both = format!("listen = ['127.0.0.1:{port}', '[::]:{port}']\n");
        let setup = Setup::start(arch, &both);
        setup.write(&format!("listen = '[::]:{port}'\n"));
        let (code, said) = setup.reload();
        assert!(code == Some(1) && said.contains("only a restart changes that"), "{arch}: {said}");
        assert!(ask(&mut connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))).ends_with(b"old"), "{arch}");
        setup.change(&format!("{both}list = true\n"));
        setup.server.stop();
    }
}
