//! Flash among people: slow ones, vanished ones, and no descriptors left.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{
    ARCHITECTURES, PATIENCE, Server, admin, family, need, program, read_all, reply, site, wait_for,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process_group, prlimit, setrlimit};

const REQUEST: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn slow_heads_get_408_and_slow_readers_are_let_go() {
    let site = site::make();
    thread::scope(|scope| {
        for arch in ARCHITECTURES {
            let root = site.path();
            scope.spawn(move || {
                let server = Server::start(
                    arch,
                    root,
                    &["--head-timeout", "1s", "--send-rate-min", "2M", "--processes", "4"],
                );
                let mut slow = server.connect();
                let mut silent = server.connect();
                let mut reader = server.connect();
                reader.write_all(b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                let start = Instant::now();
                for byte in b"GET /a.txt HT" {
                    slow.write_all(&[*byte]).unwrap();
                    thread::sleep(Duration::from_millis(50));
                }
                assert_eq!(reply::only(&read_all(&mut slow)).status, 408, "{arch}");
                assert!(start.elapsed() < Duration::from_secs(6), "{arch}: {:?}", start.elapsed());
                assert!(read_all(&mut silent).is_empty(), "{arch}: a silent client is closed in silence");
                // The reader takes nothing; after a window of ten seconds it is gone, with most bytes unsent.
                thread::sleep(Duration::from_secs(13).saturating_sub(start.elapsed()));
                let got = read_all(&mut reader).len();
                assert!(got < 20_000_000, "{arch}: {got} bytes");
                server.stop();
            });
        }
    });
}

#[test]
fn clients_vanish_at_any_byte() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--processes", "4"]);
        for end in 0..=REQUEST.len() {
            let mut stream = server.connect();
            stream.write_all(&REQUEST[..end]).unwrap();
        }
        for _ in 0..20 {
            let mut stream = server.connect();
            stream.write_all(b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            let mut some = [0; 10_000];
            stream.read_exact(&mut some).unwrap();
        }
        assert_eq!(server.get("/a.txt").status, 200, "{arch}");
        server.stop();
    }
}

#[test]
fn clients_that_leave_take_their_connections_along() {
    let site = site::make();
    // The descriptors of mp are its workers'.
    for arch in ARCHITECTURES.into_iter().filter(|&arch| arch != "mp") {
        let server = Server::start(arch, site.path(), &[]);
        let open = || fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
        server.get("/a.txt");
        let before = open();
        let held: Vec<TcpStream> = (0..20)
            .map(|_| {
                let mut stream = server.connect();
                stream.write_all(REQUEST).unwrap();
                // Unread bytes would make it a reset, which is another way to leave.
                let mut answer = Vec::new();
                while !answer.ends_with(b"0123456789") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    answer.extend(byte);
                }
                stream
            })
            .collect();
        // The server may have started helpers meanwhile, which stay.
        let (with_them, count) = (open(), held.len());
        assert!(with_them >= before + count, "{arch}");
        drop(held);
        wait_for("their descriptors are closed", || open() <= with_them - count);
        server.stop();
    }
}

#[test]
fn requests_come_faster_than_their_answers_are_read() {
    const REQUESTS: usize = 20_000;
    let site = site::make();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--processes", "4"]);
        let mut stream = server.connect();
        let mut writer = stream.try_clone().unwrap();
        let asking = thread::spawn(move || {
            for _ in 1..REQUESTS {
                writer.write_all(REQUEST).unwrap();
            }
            writer.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        });
        // By now both directions are full.
        thread::sleep(Duration::from_millis(300));
        let bytes = read_all(&mut stream);
        asking.join().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches("HTTP/1.1 200 OK\r\n").count(), REQUESTS, "{arch}");
        assert_eq!(text.matches("\r\n\r\n0123456789").count(), REQUESTS, "{arch}");
        server.stop();
    }
}

#[test]
fn no_descriptors_left() {
    need("prlimit", "util-linux");
    let site = site::make();
    for arch in ["amped", "uring", "sped", "pipelined"] {
        let wrapper = ["prlimit", "--nofile=100:100"];
        let server = Server::start_under(
            &wrapper,
            arch,
            site.path(),
            &["--loops", "1", "--path-cache", "8", "--helpers-max", "4"],
        );
        let held: Vec<TcpStream> = (0..150).map(|_| server.connect()).collect();
        for mut stream in &held {
            // Those that gave way may already be closed.
            let _ = stream.write_all(&REQUEST[..REQUEST.len() - 1]);
        }
        thread::sleep(Duration::from_millis(300));
        let before = server.cpu_seconds();
        thread::sleep(Duration::from_secs(1));
        let busy = server.cpu_seconds() - before;
        assert!(busy < 0.3, "{arch}: {busy} s of processor time in a second of exhaustion");
        wait_for("an unfinished head to give way", || {
            let mut stream = server.connect();
            let _ = stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            read_all(&mut stream).starts_with(b"HTTP/1.1 200")
        });
        drop(held);
        let said = server.stop();
        // Unfinished heads give way to others.
        assert!(!said.contains(" evicted=0 "), "{arch}: {said}");
    }
}

#[test]
fn ten_thousand_idle_connections() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    assert!(limit.maximum.is_none_or(|most| most > 11_000), "this test needs 11,000 descriptors: ulimit -n");
    let site = site::make();
    for arch in ["amped", "uring"] {
        let server = Server::start(arch, site.path(), &["--loops", "1"]);
        server.get("/a.txt");
        let before = server.resident_kb();
        let mut held = Vec::new();
        for _ in 0..10_000 {
            let mut stream = server.connect();
            stream.write_all(REQUEST).unwrap();
            let mut some = [0; 12];
            stream.read_exact(&mut some).unwrap();
            held.push(stream);
        }
        let bytes = (server.resident_kb() - before) * 1024 / 10_000;
        assert!(bytes <= 600, "{arch}: {bytes} bytes for an idle connection");
        let start = Instant::now();
        assert_eq!(server.get("/a.txt").status, 200, "{arch}");
        assert!(start.elapsed() < Duration::from_secs(5), "{arch}");
        drop(held);
        server.stop();
    }
}

#[test]
fn a_file_that_shrinks_ends_its_connection_and_nothing_else() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let path = site.path().join("shrinks.bin");
        site::write(&path, &site::pattern(20_000_000));
        let server = Server::start(arch, site.path(), &["--processes", "4"]);
        let mut other = server.connect();
        other.write_all(REQUEST).unwrap();
        let mut stream = server.connect();
        stream.write_all(b"GET /shrinks.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut some = [0; 1000];
        stream.read_exact(&mut some).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
        let rest = read_all(&mut stream).len();
        assert!(rest < 19_000_000, "{arch}: {rest} more bytes of a file that is gone");
        let mut answer = [0; 12];
        other.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200", "{arch}");
        server.stop();
    }
}

#[test]
fn those_who_only_wait_use_no_processor() {
    let site = site::make();
    for arch in ["amped", "uring", "sped", "pipelined"] {
        let server = Server::start(arch, site.path(), &["--loops", "2"]);
        let mut idle = server.connect();
        idle.write_all(REQUEST).unwrap();
        idle.read_exact(&mut [0; 12]).unwrap();
        let mut half = server.connect();
        half.write_all(&REQUEST[..10]).unwrap();
        // Takes its first bytes, and no more.
        let mut stuck = server.connect();
        stuck.write_all(b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        stuck.read_exact(&mut [0; 12]).unwrap();
        thread::sleep(Duration::from_millis(500));
        let before = server.cpu_seconds();
        thread::sleep(Duration::from_secs(1));
        let busy = server.cpu_seconds() - before;
        assert!(busy < 0.05, "{arch}: {busy} s of processor time in a second of waiting");
        server.signal(Signal::KILL);
    }
}

#[test]
fn stopping_finishes_what_is_under_way() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let mut server = Server::start(arch, site.path(), &["--processes", "4"]);
        let mut idle = server.connect();
        idle.write_all(REQUEST).unwrap();
        let mut some = [0; 12];
        idle.read_exact(&mut some).unwrap();
        let mut busy = server.connect();
        busy.write_all(b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        busy.read_exact(&mut some).unwrap();
        server.signal(Signal::TERM);
        read_all(&mut idle);
        thread::sleep(Duration::from_millis(300));
        assert!(TcpStream::connect(server.address).is_err(), "{arch}: nobody new is let in");
        let rest = read_all(&mut busy).len();
        assert!(rest > 20_000_000, "{arch}: {rest} bytes of a download under way");
        assert_eq!(server.wait(Duration::from_secs(5)), Some(Some(0)), "{arch}");
    }
}

#[test]
fn two_signals_are_one_and_a_later_one_ends_at_once() {
    let site = site::make();
    let mut server = Server::start("amped", site.path(), &[]);
    let mut busy = server.connect();
    busy.write_all(b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut some = [0; 12];
    busy.read_exact(&mut some).unwrap();
    server.signal(Signal::TERM);
    thread::sleep(Duration::from_millis(50));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(Duration::from_millis(1500)), None, "it waits for the download");
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(2)), Some(Some(1)));
}

#[test]
fn a_process_group_that_is_told_twice_finishes_what_is_under_way() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let mut command = Command::new(program());
        command.arg("serve").arg(site.path()).args(["--listen", "127.0.0.1:0", "--processes", "2", "--arch"]);
        command.args(arch.split(' ')).stdin(Stdio::null()).process_group(0);
        let mut server = Server::of(command);
        let mut busy = server.connect();
        busy.write_all(b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut some = [0; 12];
        busy.read_exact(&mut some).unwrap();
        for _ in 0..2 {
            let group = Pid::from_raw(server.pid() as i32).unwrap();
            kill_process_group(group, Signal::TERM).unwrap();
            thread::sleep(Duration::from_millis(50));
        }
        let rest = read_all(&mut busy).len();
        assert!(rest > 20_000_000, "{arch}: {rest} bytes of a download under way");
        assert_eq!(server.wait(PATIENCE), Some(Some(0)), "{arch}");
    }
}

#[test]
fn a_log_that_has_reached_its_limit_ends_no_server() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("access");
        let server =
            Server::start(arch, site.path(), &["--access-log", log.to_str().unwrap(), "--processes", "1"]);
        for process in family::of(&server).iter().map(|process| process.pid) {
            let limit = Rlimit { current: Some(4_000), maximum: Some(4_000) };
            let pid = Pid::from_raw(process as i32);
            prlimit(pid, Resource::Fsize, limit).unwrap();
        }
        for _ in 0..100 {
            assert_eq!(server.get("/a.txt").status, 200, "{arch}");
        }
        server.stop();
        assert!((1..=4_000).contains(&fs::metadata(&log).unwrap().len()), "{arch}");
    }
}

#[test]
fn logs_are_right_and_can_be_moved_away() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("access");
        let server =
            Server::start(arch, site.path(), &["--access-log", log.to_str().unwrap(), "--processes", "1"]);
        server.raw(
            b"GET /a.txt HTTP/1.1\r\nHost: h\r\nReferer: r\r\nUser-Agent: \"u\"\r\nConnection: close\r\n\r\n",
        );
        server.raw(b"HEAD /a.txt HTTP/1.0\r\n\r\n");
        server.get("/3000000.bin");
        wait_for("three lines", || fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == 3));
        let text = fs::read_to_string(&log).unwrap();
        // Loops and threads hand their lines on independently, so the order of exchanges a moment apart is open.
        for end in [
            "\"GET /a.txt HTTP/1.1\" 200 10 \"r\" \"\\\"u\\\"\"",
            "\"HEAD /a.txt HTTP/1.0\" 200 - \"-\" \"-\"",
            "\"GET /3000000.bin HTTP/1.1\" 200 3000000 \"-\" \"-\"",
        ] {
            assert!(text.lines().any(|line| line.ends_with(end)), "{arch}: no line ends with {end}: {text}");
        }
        let moved = folder.path().join("moved");
        fs::rename(&log, &moved).unwrap();
        server.signal(Signal::USR1);
        wait_for("the new log", || log.exists());
        server.get("/a.txt");
        wait_for("its line", || fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == 1));
        assert_eq!(fs::read_to_string(&moved).unwrap().lines().count(), 3, "{arch}");
        server.stop();
    }
}

#[test]
fn loops_tell_what_they_have_done_when_they_are_asked() {
    let (site, folder) = (site::make(), tempfile::tempdir().unwrap());
    let socket = folder.path().join("admin.sock");
    let admin = format!("unix:{}", socket.display());
    for arch in ["amped", "sped"] {
        let server = Server::start(arch, site.path(), &["--loops", "1", "--admin", &admin]);
        for path in ["/a.txt", "/a.txt", "/3000000.bin", "/none"] {
            server.get(path);
        }
        // What a turn has done is counted at its end, when clients may have their answers already.
        wait_for("counters", || {
            admin::log_counters(&socket);
            let said = server.said();
            said.contains("serving: requests=4 connections=4 ") && said.contains("loop-0: turns=")
        });
        let said = server.said();
        assert!(said.contains(" ready=") && said.contains(" longest_turn_us="), "{arch}: {said}");
        assert_eq!(server.get("/a.txt").status, 200);
        assert!(server.stop().contains("stopped: requests=5 "));
    }
}

#[test]
fn a_worker_that_dies_is_replaced() {
    let site = site::make();
    let server = Server::start("mp", site.path(), &["--processes", "2"]);
    let workers = || {
        let family = family::of(&server).into_iter();
        family.filter(|process| process.name().starts_with("worker-")).collect::<Vec<_>>()
    };
    let first = workers()[0];
    first.kill();
    wait_for("another worker", || workers().len() == 2 && !workers().contains(&first));
    for _ in 0..8 {
        assert_eq!(server.get("/a.txt").status, 200);
    }
    server.stop();
}

#[test]
fn bad_requests_leave_no_memory_behind() {
    let site = site::make();
    for arch in ["amped", "uring"] {
        let server = Server::start(arch, site.path(), &["--loops", "1"]);
        leaves_no_memory_behind(&server);
        server.stop();
    }
}

fn leaves_no_memory_behind(server: &Server) {
    let shapes: [&[u8]; 4] = [
        b"\r\n\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \x01\r\n\r\n",
        b"GET /%zz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc",
    ];
    let storm = |count: usize| {
        for number in 0..count {
            let mut stream = server.connect();
            let _ = stream.write_all(shapes[number % shapes.len()]);
            let missing = format!("GET /none-{number} HTTP/1.0\r\n\r\n");
            server.raw(missing.as_bytes());
        }
    };
    storm(3_000);
    let before = server.resident_kb();
    storm(6_000);
    let grown = server.resident_kb().saturating_sub(before);
    assert!(grown < 6_000, "{grown} KB more");
}

/// Sixty-four helpers, or threads, take turns at reading what others drop.
#[test]
fn content_takes_the_memory_that_was_set_aside_for_it() {
    const FILES: usize = 500;
    let site = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        site::write(&site.path().join(number.to_string()), &site::pattern(1000 + number * 400));
    }
    for arch in ["amped", "mt", "pipelined", "uring"] {
        let server = Server::start(arch, site.path(), &["--file-cache-bytes", "8M"]);
        let ask = |start: usize| {
            for number in (0..FILES).map(|turn| (start + turn * 7) % FILES) {
                assert_eq!(server.get(&format!("/{number}")).status, 200, "{arch}");
            }
        };
        thread::scope(|scope| (0..16).for_each(|client| drop(scope.spawn(move || ask(client * 31)))));
        let kb = server.resident_kb();
        assert!(kb < 24 << 10, "{arch}: {kb} KB");
        server.stop();
    }
}
