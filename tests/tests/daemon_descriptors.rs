//! Descriptors that askers send to `flash helper`. They may be anything.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_helper::protocol::{AnswerKind, Question, QuestionKind};
use flash_tests::PATIENCE;
use flash_tests::asker::{Asker, Message, Rooted, content, find, memory};
use flash_tests::site;
use rustix::fs::{Advice, FlockOperation, OFlags, fadvise, fcntl_getfl, fcntl_setfl, flock};
use rustix::net::sockopt;
use rustix::process::{Pid, Signal, kill_process};

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

/// A connection may hold descriptors that nobody has read.
#[test]
fn a_connection_that_is_refused_holds_up_nobody() {
    let rooted = Rooted::make();
    let daemon = rooted.daemon(&["--askers-max", "1"]);
    let mut first = daemon.asker();
    let pid = Pid::from_raw(daemon.pid() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let late = Asker::connect_silently(&daemon.socket);
    let (_client, server) = lingers();
    late.send(&find("/a.html").encode(), Some(server.as_fd())).unwrap();
    drop(server);
    kill_process(pid, Signal::CONT).unwrap();
    // It is told why, or sees its connection end with what it has sent unread.
    let told = late.receive();
    assert!(matches!(told, Message::Answer(_, None) | Message::Gone), "{told:?}");
    let begun = Instant::now();
    assert_eq!(first.kind("/a.html"), AnswerKind::File);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
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

/// nginx's `directio` and any `fcntl`, `lseek` and `flock` change an open file for all that share it.
#[test]
fn what_an_asker_does_to_its_open_file_changes_no_other_askers() {
    let rooted = Rooted::make();
    site::write(&rooted.path().join("large"), &site::pattern(3_000_000));
    let daemon = rooted.daemon(&["--path-cache", "4"]);
    for path in ["/a.html", "/large"] {
        let whole = content(daemon.asker().answer(&find(path)).1);
        let mut askers = [daemon.asker(), daemon.asker()];
        let [one, other] = askers.each_mut().map(|asker| asker.answer(&find(path)).1.expect("it is open"));
        let before = fcntl_getfl(&other).unwrap();
        (&one).seek(SeekFrom::Start(7)).unwrap();
        // Not each filesystem knows direct reads.
        let _ = fcntl_setfl(&one, before | OFlags::DIRECT);
        fcntl_setfl(&one, fcntl_getfl(&one).unwrap() | OFlags::APPEND).unwrap();
        flock(&one, FlockOperation::LockShared).unwrap();
        assert_eq!(
            (fcntl_getfl(&other).unwrap(), (&other).stream_position().unwrap()),
            (before, 0),
            "{path}"
        );
        let late = daemon.asker().answer(&find(path)).1.expect("it is open");
        for file in [&other, &late] {
            let locked = flock(file, FlockOperation::NonBlockingLockExclusive);
            assert!(locked.is_err(), "{path}: the lock is another's");
            let mut bytes = vec![0; whole.len() - 3];
            file.read_exact_at(&mut bytes, 3).unwrap();
            assert!(bytes == whole[3..] && fcntl_getfl(file).unwrap() == before, "{path}");
        }
        drop(one);
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(content(Some(late)), whole, "{path}");
    }
    // The daemon reads through a file of its own.
    let load =
        Question { kind: QuestionKind::Load, known: None, copy: true, window: 3..1000, ..find("/large") };
    let mut asker = daemon.asker();
    let (found, file) = asker.answer(&find("/large"));
    let _ = fcntl_setfl(file.as_ref().unwrap(), OFlags::DIRECT);
    let (answer, bytes) = asker.answer(&Question { known: Some(found.stamp), ..load });
    assert!(answer.kind == AnswerKind::Window && memory(bytes) == site::pattern(3_000_000)[3..1000]);
}

/// Equal windows are loaded once, through the file of the asker that asked first.
#[test]
fn an_asker_whose_file_cannot_be_read_spoils_no_other_askers_window() {
    let rooted = Rooted::make();
    let path = rooted.path().join("large");
    let whole = site::pattern(3_000_000);
    site::write(&path, &whole);
    File::open(&path).unwrap().sync_all().unwrap();
    let daemon = rooted.daemon(&[]);
    let (mut first, mut second) = (daemon.asker(), daemon.asker());
    let (mine, theirs) = (File::open(&path).unwrap(), File::open(&path).unwrap());
    let load = Question { kind: QuestionKind::Load, copy: true, window: 1_000_003..1_200_000, ..find("") };
    let ends = AtomicBool::new(false);
    let mut spoilt = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            // The daemon takes no file with this flag, so it is set while a helper reads.
            while !ends.load(Ordering::Relaxed) {
                let _ = fcntl_setfl(&mine, OFlags::DIRECT);
                fcntl_setfl(&mine, OFlags::empty()).unwrap();
            }
        });
        let begun = Instant::now();
        while spoilt < 20 && begun.elapsed() < Duration::from_secs(10) {
            fadvise(&theirs, 0, None, Advice::DontNeed).unwrap();
            first.ask(&load, Some(mine.as_fd()));
            second.ask(&load, Some(theirs.as_fd()));
            let Message::Answer(answer, bytes) = second.receive() else { panic!("it is answered") };
            let is_whole = answer.kind == AnswerKind::Window && memory(bytes) == whole[1_000_003..1_200_000];
            if !is_whole {
                ends.store(true, Ordering::Relaxed);
            }
            assert!(is_whole, "{answer:?}");
            let Message::Answer(answer, _) = first.receive() else { panic!("it is answered") };
            spoilt += usize::from(answer.kind == AnswerKind::Failed);
        }
        ends.store(true, Ordering::Relaxed);
    });
    eprintln!("{spoilt} windows of the first asker failed");
}
