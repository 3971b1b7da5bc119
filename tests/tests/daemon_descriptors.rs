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
use flash_tests::asker::{Asker, Message, Rooted, find};
use rustix::net::sockopt;

/// A connection whose client takes nothing. Whoever closes it last waits for that.
fn lingers() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    while server.write(&[0; 65536]).is_ok() {}
    server.set_nonblocking(false).unwrap();
    sockopt::set_socket_linger(&server, Some(Duration::from_secs(5))).unwrap();
    (client, server)
}

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
    let load = Question { kind: QuestionKind::Load, window: 0..1, ..find("") };
    let of_no_root = Question { root: 9, ..load.clone() };
    let begun = Instant::now();
    let clients: Vec<TcpStream> = [load, of_no_root, find("/a.html")]
        .into_iter()
        .map(|question| {
            let (client, server) = lingers();
            sender.ask(&question, Some(server.as_fd()));
            client
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(other.kind("/a.html"), AnswerKind::File);
        thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    drop(clients);
}

#[test]
fn a_user_whose_descriptors_do_not_close_is_disconnected() {
    let rooted = Rooted::make();
    let daemon = rooted.daemon(&[]);
    let (mut sender, mut other) = (daemon.asker(), daemon.asker());
    let (_client, server) = lingers();
    sender.ask(&find("/a.html"), Some(server.as_fd()));
    drop(server);
    let (read, _write) = std::io::pipe().unwrap();
    let mut malformed = find("/a.html").encode();
    malformed[1] = 9;
    let sent = (0..1000).take_while(|_| {
        let is_taken = sender.send(&malformed, Some(read.as_fd())).is_ok();
        is_taken && !matches!(sender.receive(), Message::Gone)
    });
    let sent = sent.count();
    assert!((200..300).contains(&sent), "{sent} are taken");
    assert_eq!(other.kind("/a.html"), AnswerKind::File, "others of the user are served on");
    let late = Asker::connect_silently(&daemon.socket);
    let Message::Answer(answer, None) = late.receive() else { panic!("it is told why") };
    assert_eq!(answer.kind, AnswerKind::Busy);
    // When it is closed, the user may come again.
    let begun = Instant::now();
    while !matches!(Asker::connect_silently(&daemon.socket).receive(), Message::Hello(_)) {
        assert!(begun.elapsed() < PATIENCE, "never");
        thread::sleep(Duration::from_millis(50));
    }
}
