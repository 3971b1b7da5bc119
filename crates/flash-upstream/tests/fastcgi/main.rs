//! Connections to FastCGI servers that Flash does not start: test servers that behave badly, and php-fpm.

#![forbid(unsafe_code)]

mod bench;
mod connectors;
mod exchange;
mod fpm;

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use flash_core::upstream::{OpenError, Opened, ReleaseMode};
use flash_upstream::Address;

use crate::bench::{Bench, Peer, address_of};
use crate::exchange::{PATIENCE, settings, wait_until};

#[test]
fn a_connection_is_used_again_and_costs_no_wait() {
    let bench = Bench::unix(settings());
    let listener = bench.listen();
    let peer = thread::spawn(move || {
        let mut peer = Peer::accept(&listener);
        (0..3).for_each(|_| peer.answer("hello"));
        listener
    });
    for used in [false, true, true] {
        let mut request = bench.begin_at_once();
        assert_eq!(request.used, used);
        assert_eq!(request.exchange(), "hello");
        request.finish(ReleaseMode::Reusable);
    }
    let listener = peer.join().unwrap();
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "one connection was enough");
}

#[test]
fn a_kept_connection_that_was_closed_is_not_given_out() {
    let bench = Bench::unix(settings());
    let listener = bench.listen();
    let peer = thread::spawn(move || {
        for _ in 0..3 {
            Peer::accept(&listener).answer("once");
        }
    });
    for _ in 0..3 {
        let mut request = bench.begin_at_once();
        assert!(!request.used, "its end came before the next request");
        assert_eq!(request.exchange(), "once");
        // What the peer does right after its answer.
        request.wait_for_end();
        request.finish(ReleaseMode::Reusable);
    }
    peer.join().unwrap();
}

#[test]
fn one_more_attempt_is_a_new_connection() {
    let bench = Bench::unix(settings());
    let _listener = bench.listen();
    bench.begin_at_once().finish(ReleaseMode::Reusable);
    let again = bench.ask(true).answer_at_once();
    assert!(!again.used);
    again.finish(ReleaseMode::Ended);
    let kept = bench.begin_at_once();
    assert!(kept.used);
}

#[test]
fn only_so_many_are_kept_and_not_for_long() {
    let bench = Bench::unix(flash_upstream::Settings { kept_max: 2, ..settings() });
    let listener = bench.listen();
    let requests: Vec<_> = (0..3).map(|_| bench.begin_at_once()).collect();
    let mut peers: Vec<_> = (0..3).map(|_| Peer::accept(&listener)).collect();
    requests.into_iter().for_each(|request| request.finish(ReleaseMode::Reusable));
    wait_until("one is closed", || {
        peers.iter_mut().map(Peer::is_closed).filter(|closed| *closed).count() == 1
    });
    // Nobody uses them any more.
    wait_until("all are closed", || peers.iter_mut().all(Peer::is_closed));
}

#[test]
fn whoever_breaks_off_says_so() {
    let bench = Bench::unix(settings());
    let listener = bench.listen();
    let mut request = bench.begin_at_once();
    let mut peer = Peer::accept(&listener);
    request.send();
    peer.read_request();
    request.finish(ReleaseMode::Aborted);
    assert_eq!((peer.read_record(), peer.is_closed()), (Some(2), true));
    drop(bench.begin_at_once());
    assert!(Peer::accept(&listener).waits_for_end());
}

#[test]
fn a_server_that_is_not_there_is_left_alone_for_a_while() {
    let bench = Bench::unix(settings());
    let begun = Instant::now();
    assert_eq!(bench.refused_at_once(), OpenError::Broken);
    assert_eq!(bench.refused_at_once(), OpenError::Busy, "without trying");
    // As long as the pause may be by then, so that the next is the one that tries.
    wait_until("it is tried again", || bench.refused_at_once() == OpenError::Broken);
    assert!(begun.elapsed() >= Duration::from_millis(100));
    assert!(begun.elapsed() < PATIENCE);
    let said = bench.said().join("\n");
    assert_eq!(said.matches("not tried again for").count(), 2, "{said}");
    assert!(said.contains("No such file or directory") && said.contains("for 200ms"), "{said}");

    let listener = bench.listen();
    wait_until("it is found", || matches!(bench.ask(false).at_once(), Opened::Running(..)));
    drop(listener);
    assert!(bench.said().join("\n").contains("can be reached again"));
}

#[test]
fn a_server_that_has_no_room_is_waited_for() {
    let bench = Bench::unix(settings());
    let listener = bench.listen_narrowly(0);
    let mut first = bench.begin_at_once();
    let waiting: Vec<_> = (0..3).map(|_| bench.ask(false)).collect();
    assert!(waiting.iter().all(|asked| !asked.is_answered(Duration::from_millis(30))));
    let peer = thread::spawn(move || (0..4).for_each(|_| Peer::accept(&listener).answer("room")));
    assert_eq!(first.exchange(), "room");
    for asked in waiting {
        assert_eq!(asked.answer().exchange(), "room");
    }
    peer.join().unwrap();
}

#[test]
fn a_server_that_has_no_room_for_too_long_is_busy() {
    let bench = Bench::unix(flash_upstream::Settings {
        connect: Duration::from_millis(200),
        queue_max: 2,
        ..settings()
    });
    let _listener = bench.listen_narrowly(0);
    let _first = bench.begin_at_once();
    let waiting = [bench.ask(false), bench.ask(false)];
    assert_eq!(bench.refused_at_once(), OpenError::Busy, "no more may wait");
    assert_eq!(bench.refused_at_once(), OpenError::Busy);
    let said = bench.said().concat();
    assert_eq!(said.matches("as many wait for a connection as may: requests get 503").count(), 1, "{said}");
    for asked in waiting {
        assert_eq!(asked.refusal(), OpenError::Busy);
    }
}

#[test]
fn waiting_connections_get_the_place_of_kept_ones() {
    // As php-fpm with one process: who is accepted is served until the connection ends.
    let bench = Bench::unix(settings());
    let listener = bench.listen();
    thread::spawn(move || {
        while let Some(mut peer) = Peer::accept_or_end(&listener) {
            while peer.answer_or_end("one at a time") {}
        }
    });
    let mut first = bench.begin_at_once();
    let mut second = bench.begin_at_once();
    second.send();
    assert_eq!(first.exchange(), "one at a time");
    thread::sleep(Duration::from_millis(150));
    first.finish(ReleaseMode::Reusable);
    assert_eq!(second.receive(), "one at a time");
}

#[test]
fn tcp_servers_are_reached_at_any_of_their_addresses() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let nobody = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let addresses = vec![nobody.local_addr().unwrap(), listener.local_addr().unwrap()];
    drop(nobody);
    let bench = Bench::at(Address::Inet(addresses), settings());
    let peer = thread::spawn(move || Peer::of_tcp(listener.accept().unwrap().0).answer("tcp"));
    let mut request = bench.begin();
    assert_eq!(request.exchange(), "tcp");
    peer.join().unwrap();
}

#[test]
fn a_tcp_connection_that_takes_too_long_is_given_up() {
    // A listener whose queue is full answers nobody.
    let listener =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let listener = listener.unwrap();
    rustix::net::bind(&listener, &std::net::SocketAddrV4::new([127, 0, 0, 1].into(), 0)).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let listener = TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    let connect = Duration::from_millis(300);
    let bench = Bench::at(Address::Inet(vec![address]), flash_upstream::Settings { connect, ..settings() });
    let _full: Vec<_> = (0..1).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    let begun = Instant::now();
    assert_eq!(bench.ask(false).refusal(), OpenError::Late);
    assert!(begun.elapsed() >= connect);
    assert_eq!(bench.refused_at_once(), OpenError::Busy);
    assert!(bench.said().join("\n").contains("not tried again for 100ms"), "{:?}", bench.said());
}

#[test]
fn a_tcp_connection_that_takes_its_time_is_waited_for() {
    let listener =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let listener = listener.unwrap();
    rustix::net::bind(&listener, &std::net::SocketAddrV4::new([127, 0, 0, 1].into(), 0)).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let listener = TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    let bench = Bench::at(Address::Inet(vec![address]), settings());
    let _full = std::net::TcpStream::connect(address).unwrap();
    let asked = bench.ask(false);
    assert!(!asked.is_answered(Duration::from_millis(50)));
    // There is room again; the kernel tries by itself, a second later.
    drop(listener.accept().unwrap());
    let peer = thread::spawn(move || Peer::of_tcp(listener.accept().unwrap().0).answer("late"));
    assert_eq!(asked.answer().exchange(), "late");
    peer.join().unwrap();
}

#[test]
fn complaints_are_said_by_lines() {
    let bench = Bench::unix(settings());
    let _listener = bench.listen();
    let mut request = bench.begin_at_once();
    request.lease.stderr(b"PHP Warning: one\nPHP Warn");
    request.lease.stderr(b"ing: two");
    request.finish(ReleaseMode::Reusable);
    assert_eq!(bench.said(), ["GET /x: PHP Warning: one", "GET /x: PHP Warning: two"]);
}

#[test]
fn every_request_is_answered_when_the_server_ends() {
    let bench = Bench::unix(settings());
    let _listener = bench.listen_narrowly(0);
    let _first = bench.begin_at_once();
    let asked = bench.ask(false);
    assert!(!asked.is_answered(Duration::from_millis(20)));
    bench.end();
    assert_eq!(asked.refusal(), OpenError::Busy);
}

#[test]
fn many_threads_ask_at_once_and_each_gets_a_connection_of_its_own() {
    let bench = Bench::unix(settings());
    let listener = bench.listen();
    thread::spawn(move || {
        while let Some(mut peer) = Peer::accept_or_end(&listener) {
            thread::spawn(move || while peer.answer_or_end("mine") {});
        }
    });
    let (done, finished) = channel();
    thread::scope(|scope| {
        for _ in 0..4 {
            let (done, bench) = (done.clone(), &bench);
            scope.spawn(move || {
                for _ in 0..100 {
                    let mut request = bench.begin();
                    assert_eq!(request.exchange(), "mine");
                    request.finish(ReleaseMode::Reusable);
                }
                done.send(()).unwrap();
            });
        }
    });
    drop(done);
    assert_eq!(finished.iter().count(), 4);
}

#[test]
fn a_dead_socket_is_told_by_its_path() {
    let bench = Bench::unix(settings());
    drop(UnixListener::bind(&bench.socket).unwrap());
    assert_eq!(bench.refused_at_once(), OpenError::Broken);
    let said = bench.said().join("\n");
    assert!(said.contains(&address_of(&bench.socket).to_string()) && said.contains("refused"), "{said}");
}
