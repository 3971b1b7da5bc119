//! Descriptors that askers send to `flash helper`. They may be anything.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use flash_helper::protocol::{AnswerKind, Question, QuestionKind};
use flash_tests::PATIENCE;
use flash_tests::asker::{Rooted, find};
use rustix::net::sockopt;

#[test]
fn a_descriptor_that_is_no_file_is_refused() {
    let rooted = Rooted::make();
    let daemon = rooted.daemon(&[]);
    let mut asker = daemon.asker();
    let (read, write) = std::io::pipe().unwrap();
    let path = rustix::fs::openat(
        rustix::fs::CWD,
        rooted.path().join("a.html"),
        rustix::fs::OFlags::PATH,
        rustix::fs::Mode::empty(),
    );
    let writable = File::options().append(true).open(rooted.path().join("a.html")).unwrap();
    let load = Question { kind: QuestionKind::Load, window: 0..8, ..find("") };
    for file in [read.as_fd(), write.as_fd(), path.unwrap().as_fd(), writable.as_fd()] {
        assert_eq!(asker.answer_about(&load, Some(file)).0.kind, AnswerKind::Refused);
    }
    // Two descriptors with one question are one too many for any asker.
    let before = daemon.descriptors();
    for _ in 0..50 {
        assert_eq!(asker.answer_about(&load, Some(read.as_fd())).0.kind, AnswerKind::Refused);
    }
    let begun = Instant::now();
    while daemon.descriptors() > before {
        assert!(begun.elapsed() < PATIENCE, "each is closed");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_descriptor_that_takes_long_to_close_holds_up_nobody() {
    let rooted = Rooted::make();
    let daemon = rooted.daemon(&[]);
    let (mut sender, mut other) = (daemon.asker(), daemon.asker());
    // The client takes nothing, and so whoever closes this connection last waits for it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let lingers = || {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        while server.write(&[0; 65536]).is_ok() {}
        server.set_nonblocking(false).unwrap();
        sockopt::set_socket_linger(&server, Some(Duration::from_secs(5))).unwrap();
        (client, server)
    };
    let load = Question { kind: QuestionKind::Load, window: 0..1, ..find("") };
    let of_no_root = Question { root: 9, ..load.clone() };
    let clients: Vec<TcpStream> = [load, of_no_root, find("/a.html")]
        .into_iter()
        .map(|question| {
            let (client, server) = lingers();
            sender.ask(&question, Some(server.as_fd()));
            client
        })
        .collect();
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(other.kind("/a.html"), AnswerKind::File);
        thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    drop(clients);
}
