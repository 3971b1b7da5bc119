//! What must not bring a worker down or wait forever: files that shrink, daemons that break off, restarts, the disk itself.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_helper::protocol::{AnswerKind, Hello, Question, QuestionKind, Root};
use flash_tests::asker::find;
use flash_tests::peer::{Kind, Peer, ask, whole};
use flash_tests::{PATIENCE, connect, open_folder, read_all, set_mode, site};
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketType};
use rustix::process::{Pid, Signal, kill_process};

use super::{cold, daemon, kinds, make_site, slow_site};

/// A socket at which no real daemon listens.
struct Impostor {
    socket: OwnedFd,
    path: std::path::PathBuf,
}

impl Impostor {
    fn listen(beside: &std::path::Path) -> Self {
        let path = beside.join("helper.sock");
        let socket = net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        net::listen(&socket, 100).unwrap();
        set_mode(&path, 0o666);
        Self { socket, path }
    }

    /// Greets the next asker, and promises a root.
    fn greet(&self) -> OwnedFd {
        let asker = net::accept(&self.socket).unwrap();
        send(&asker, &Hello { roots: 1, questions_max: 9 }.encode());
        asker
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        fs::remove_file(&self.path).unwrap();
    }
}

fn send(asker: &OwnedFd, message: &[u8]) {
    net::send(asker, message, SendFlags::NOSIGNAL).unwrap();
}

fn wait_for(what: &str, peer: &Peer, is_so: impl Fn() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "{what}: never: {}", peer.said());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_the_connection() {
    let (root, beside) = (make_site(), open_folder());
    for kind in kinds() {
        let file = root.path().join("shrinks");
        site::write(&file, &site::pattern(30 << 20));
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "");
        let mut stream = connect(peer.with);
        stream.write_all(b"GET /shrinks HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut bytes = vec![0; 1000];
        stream.read_exact(&mut bytes).unwrap();
        // What the sockets hold is full, and more is to be sent.
        fs::File::options().write(true).open(&file).unwrap().set_len(5_000).unwrap();
        bytes.extend(read_all(&mut stream));
        assert!(whole(&bytes, "GET").is_none(), "{kind:?}: {} bytes", bytes.len());
        assert_eq!(peer.get("/a.txt").status, 200, "{kind:?}: {}", peer.said());
    }
}

#[test]
fn a_file_that_shrinks_under_a_filter_gets_no_other_end() {
    let (root, beside) = (make_site(), open_folder());
    for kind in kinds().filter(|kind| matches!(kind, Kind::Apache(_))) {
        let file = root.path().join("shrinks");
        // It cannot be compressed.
        let mut state = 1_u64;
        let words = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        let content = words.take(4 << 20).collect::<Vec<_>>();
        site::write(&file, content.as_flattened());
        site::write(&root.path().join("404.html"), content.as_flattened());
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "SetOutputFilter DEFLATE");
        for (path, name, status) in [("/shrinks", "shrinks", "200"), ("/none", "404.html", "404")] {
            let mut stream = connect(peer.with);
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let mut bytes = vec![0; 1000];
            stream.read_exact(&mut bytes).unwrap();
            let begin = String::from_utf8_lossy(&bytes).into_owned();
            assert!(
                begin.starts_with(&format!("HTTP/1.1 {status}")) && begin.contains("gzip"),
                "{kind:?}: {begin}"
            );
            let file = fs::File::options().write(true).open(root.path().join(name)).unwrap();
            file.set_len(5_000).unwrap();
            bytes.extend(read_all(&mut stream));
            assert!(bytes.len() < 32 << 20, "{kind:?} {path}: it was sent already");
            let said = peer.said();
            assert!(!bytes.ends_with(b"0\r\n\r\n"), "{kind:?} {path}: it ends as if it were whole: {said}");
        }
    }
}

#[test]
fn a_worker_of_nginx_that_ends_leaves_no_alert() {
    let (root, beside) = (make_site(), open_folder());
    for kind in kinds().filter(|kind| matches!(kind, Kind::Nginx(_))) {
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "");
        assert_eq!(peer.get("/a.txt").status, 200);
        let workers = peer.workers();
        kill_process(Pid::from_raw(peer.pid() as i32).unwrap(), Signal::HUP).unwrap();
        wait_for("other workers", &peer, || !peer.workers().iter().any(|worker| workers.contains(worker)));
        assert!(!peer.said().contains("[alert]"), "{kind:?}: {}", peer.said());
    }
}

/// The longest time for which a process waited for a disk, until `ends`.
fn longest_disk_sleep(pid: u32, ends: &AtomicBool) -> Duration {
    let (mut longest, mut since) = (Duration::ZERO, None);
    while !ends.load(Ordering::Relaxed) {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        if stat.contains(") D ") {
            longest = longest.max(since.get_or_insert_with(Instant::now).elapsed());
        } else {
            since = None;
        }
        thread::sleep(Duration::from_millis(1));
    }
    longest
}

#[test]
fn a_worker_sends_no_page_that_is_still_being_read() {
    for kind in kinds().filter(|kind| matches!(kind, Kind::Nginx(_))) {
        let Some((image, root)) = slow_site("") else { return };
        let beside = open_folder();
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "");
        // The names stay in memory, and the pages do not.
        (0..4).for_each(|n| assert_eq!(peer.get(&cold(n)).status, 200));
        (0..4).for_each(|n| flash_rig::drop_pages(&root.path().join(n.to_string())).unwrap());
        // A worker does not look again for what it saw a moment ago.
        thread::sleep(Duration::from_millis(100));
        image.disk().rule("read delay fixed:400ms").unwrap();
        let ends = AtomicBool::new(false);
        let longest = thread::scope(|scope| {
            let watched = scope.spawn(|| longest_disk_sleep(peer.workers()[0], &ends));
            let clients: Vec<_> = (0..16)
                .map(|n| {
                    let peer = &peer;
                    scope.spawn(move || {
                        // The first client of each file has its pages read. The others come meanwhile.
                        thread::sleep(Duration::from_millis(n as u64 / 4 * 100));
                        let reply = peer.get(&cold(n % 4));
                        assert!(reply.body == site::pattern(600_000 + n % 4), "{kind:?}: other bytes");
                    })
                })
                .collect();
            let came = clients.into_iter().map(thread::ScopedJoinHandle::join).all(|client| client.is_ok());
            ends.store(true, Ordering::Relaxed);
            assert!(came, "{kind:?}: {}", peer.said());
            watched.join().unwrap()
        });
        assert!(longest < Duration::from_millis(150), "{kind:?} waited for the disk: {longest:?}");
    }
}

#[test]
fn a_window_that_is_in_memory_needs_no_helper_of_a_disk_that_is_down() {
    let Some((image, root)) = slow_site("") else { return };
    let beside = open_folder();
    let daemon = daemon(&root, &beside, &["--disk-deadline", "1s"]);
    let (mut asker, mut other) = (daemon.asker(), daemon.asker());
    let file = fs::File::open(root.path().join("a.txt")).unwrap();
    let load = Question { kind: QuestionKind::Load, window: 0..10, ..find("") };
    // The first read sets the time of access.
    assert_eq!(asker.answer_about(&load, Some(file.as_fd())).0.kind, AnswerKind::Window);
    image.disk().rule("hang").unwrap();
    let cold: Vec<u64> = (0..20).map(|n| other.ask(&find(&cold(n)), None)).collect();
    // After one deadline, the disk counts as down.
    cold.iter().for_each(|_| drop(other.receive()));
    let mut ask = || {
        let asked = Instant::now();
        let answer = asker.answer_about(&load, Some(file.as_fd())).0;
        (answer.kind, answer.window, asked.elapsed() < Duration::from_millis(500))
    };
    // The kernel may be busy with the page, and on a busy machine an answer may be late. A helper would never answer.
    let answers: Vec<_> = (0..10).map(|_| ask()).collect();
    // What hangs could not be ended.
    image.disk().clear();
    assert!(answers.contains(&(AnswerKind::Window, 0..10, true)), "{answers:?}");
}

#[test]
fn a_daemon_that_breaks_off_its_greeting_costs_no_descriptor() {
    let (root, beside) = (make_site(), open_folder());
    for kind in kinds().filter(|kind| matches!(kind, Kind::Apache(_))) {
        let impostor = Impostor::listen(beside.path());
        let peer = kind.start(root.path(), &impostor.path, "");
        thread::scope(|scope| {
            for _ in 0..4 {
                let client = scope.spawn(|| ask(peer.with, "GET", "/a.txt", "").map(|reply| reply.status));
                drop(impostor.greet());
                assert_eq!(client.join().unwrap(), Some(503), "{kind:?}: {}", peer.said());
            }
        });
        for pid in peer.workers() {
            let first = fs::read_link(format!("/proc/{pid}/fd/0")).unwrap();
            assert_eq!(first.to_str(), Some("/dev/null"), "{kind:?} has closed a descriptor of others");
        }
    }
}

#[test]
fn a_root_that_could_not_be_taken_is_told_again() {
    let root = make_site();
    for kind in kinds().filter(|kind| matches!(kind, Kind::Nginx(_))) {
        let beside = open_folder();
        let impostor = Impostor::listen(beside.path());
        let peer = kind.start(root.path(), &impostor.path, "flash_deadline 1s;");
        // As from a kernel that had no room for the descriptor.
        let asker = thread::scope(|scope| {
            let client = scope.spawn(|| peer.get("/a.txt").status);
            let asker = impostor.greet();
            let path = root.path().to_str().unwrap().into();
            send(&asker, &Root { flags: 0, number: 0, path }.encode());
            assert_eq!(client.join().unwrap(), 503, "{kind:?}");
            asker
        });
        drop(impostor);
        let _daemon = daemon(&root, &beside, &[]);
        wait_for("it asks again", &peer, || peer.get("/a.txt").status == 200);
        drop(asker);
    }
}

#[test]
fn a_graceful_restart_cuts_no_response() {
    for kind in kinds().filter(|kind| matches!(kind, Kind::Apache(_))) {
        let Some((image, root)) = slow_site("") else { return };
        let beside = open_folder();
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "");
        assert_eq!(peer.get("/a.txt").status, 200);
        image.disk().rule("read delay fixed:300ms").unwrap();
        let reply = thread::scope(|scope| {
            let (began, peer) = (fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count(), &peer);
            let client = scope.spawn(|| ask(peer.with, "GET", &cold(1), ""));
            wait_for("the daemon is asked", peer, || daemon.descriptors() > began);
            kill_process(Pid::from_raw(peer.pid() as i32).unwrap(), Signal::USR1).unwrap();
            client.join().unwrap()
        });
        let reply = reply.unwrap_or_else(|| panic!("{kind:?}: it is cut: {}", peer.said()));
        assert!(reply.status == 200 && reply.body == site::pattern(600_001), "{kind:?}: {}", reply.status);
        wait_for("it has restarted", &peer, || peer.said().matches("resuming normal operations").count() > 1);
    }
}
