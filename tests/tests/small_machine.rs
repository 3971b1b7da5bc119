//! Flash with its default flags where there is little of something: memory, or room for open files.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flash_rig::{Limits, Machine};
use flash_tests::{ARCHITECTURES, PATIENCE, Server, is_superuser, need, site};
use socket2::{Domain, Socket, Type};

const FILES: usize = 3_000;
const FILES_BYTES: usize = 150_000_000;
const CLIENTS: usize = 64;
const ROUNDS: usize = 3;

/// The sizes of small files, most of which fit into a heap, and of a few that become snapshots.
fn size(number: usize) -> usize {
    let small = [2, 8, 20, 35, 50, 80, 100][number % 7] * 1000;
    let most = if number.is_multiple_of(50) { 500_000 } else { small };
    most * FILES_BYTES / (FILES * 51_000)
}

fn name(number: usize) -> String {
    format!("/{}/{number}.bin", number % 30)
}

fn write_site(folder: &Path) {
    for number in 0..FILES {
        let path = folder.join(&name(number)[1..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        site::write(&path, &site::pattern(size(number)));
    }
}

/// Each file is asked for three times, by one client after the other.
fn get_all(server: &Server, arch: &str) {
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for number in (0..ROUNDS * FILES).skip(client).step_by(CLIENTS) {
                    let number = number * 7 % FILES;
                    let reply = server.get(&name(number));
                    assert_eq!((reply.status, reply.body.len()), (200, size(number)), "{arch}: {number}");
                }
            });
        }
    });
}

#[test]
fn in_a_small_container_nobody_is_killed_and_nothing_fails() {
    let journal = tempfile::tempdir().unwrap();
    let machine = Machine::take_with(journal.path()).unwrap();
    let limits = |mebibytes: u64| Limits { memory_bytes: Some(mebibytes << 20), ..Limits::default() };
    if let Err(why) = machine.group(&limits(64), None) {
        return eprintln!("NOT TESTED, memory cannot be limited: {why:#}");
    }
    let folder = tempfile::tempdir().unwrap();
    write_site(folder.path());
    let bytes: usize = (0..FILES).map(size).sum();
    assert!(bytes.abs_diff(FILES_BYTES) < FILES_BYTES / 10, "{bytes} bytes");
    for (mebibytes, cache) in [(128, "file cache 32M"), (64, "file cache 16M")] {
        for arch in ARCHITECTURES {
            let group = machine.group(&limits(mebibytes), None).unwrap();
            let wrapper = group.wrapper();
            let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
            let server = Server::start_under(&wrapper, arch, folder.path(), &[]);
            assert!(server.said().contains(cache), "{arch}: {}", server.said());
            get_all(&server, arch);
            server.stop();
            assert_eq!(group.killed_for_memory(), 0, "{arch} in {mebibytes} MiB");
        }
    }
}

/// How many clients read so slowly that they are there all the time.
const SLOW_CLIENTS: usize = 1_000;
const LARGE_BYTES: usize = 8_000_000;
/// A folder of so many names takes several pages.
const LISTED: usize = 5_000;

/// Connects, asks for a large file, and reads its beginning. The line is a network's, so the kernel holds little for the client.
fn slow_client(server: &Server) -> TcpStream {
    let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    client.set_recv_buffer_size(8 << 10).unwrap();
    client.set_tcp_mss(1400).unwrap();
    client.connect(&server.address.into()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut client = TcpStream::from(client);
    client.write_all(b"GET /large.bin HTTP/1.1\r\nHost: flash\r\n\r\n").unwrap();
    client.read_exact(&mut [0; 1024]).unwrap();
    client
}

#[test]
fn slow_clients_listings_and_php_get_their_answers_in_any_container() {
    let journal = tempfile::tempdir().unwrap();
    let machine = Machine::take_with(journal.path()).unwrap();
    let limits = |mebibytes: u64| Limits { memory_bytes: Some(mebibytes << 20), ..Limits::default() };
    if let Err(why) = machine.group(&limits(64), None) {
        return eprintln!("NOT TESTED, memory cannot be limited: {why:#}");
    }
    let php = format!(".php={}", need("php-cgi", "php-cgi").display());
    let folder = tempfile::tempdir().unwrap();
    write_site(folder.path());
    site::write(&folder.path().join("large.bin"), &site::pattern(LARGE_BYTES));
    site::write(&folder.path().join("app.php"), b"<?php echo str_repeat('php ', 25000);");
    fs::create_dir(folder.path().join("listed")).unwrap();
    for number in 0..LISTED {
        site::write(&folder.path().join(format!("listed/{number}.txt")), b"");
    }
    for mebibytes in [64, 128, 256, 512] {
        for arch in ["amped", "uring", "sped"] {
            let group = machine.group(&limits(mebibytes), None).unwrap();
            let wrapper = group.wrapper();
            let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
            let server = Server::start_under(&wrapper, arch, folder.path(), &["--list", "--app", &php]);
            let mut slow: Vec<TcpStream> = (0..SLOW_CLIENTS).map(|_| slow_client(&server)).collect();
            thread::scope(|scope| {
                let files = scope.spawn(|| get_all(&server, arch));
                while !files.is_finished() {
                    let listing = server.get("/listed/");
                    let names = listing.body.windows(4).filter(|part| part == b".txt").count();
                    assert!(listing.status == 200 && names >= LISTED, "{arch}: {names} names");
                    let answer = server.get("/app.php");
                    assert_eq!(
                        (answer.status, answer.body.len()),
                        (200, 100_000),
                        "{arch} in {mebibytes} MiB"
                    );
                }
            });
            for client in &mut slow {
                client.read_exact(&mut [0; 64 << 10]).expect("a slow client is served on");
            }
            drop(slow);
            server.stop();
            assert_eq!(group.killed_for_memory(), 0, "{arch} in {mebibytes} MiB");
        }
    }
}

/// Takes so much memory, a mebibyte at a time, until its input ends.
const NEIGHBOUR: &str = "\
import sys, time
held = []
for _ in range(int(sys.argv[1])):
    held.append(b'x' * (1 << 20))
    time.sleep(0.1)
print('full', flush=True)
sys.stdin.read()";

/// Of a process, not what it shares with files.
fn own_mebibytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn the_file_cache_gives_way_to_other_programs_and_comes_back() {
    const MEBIBYTES: u64 = 128;
    let journal = tempfile::tempdir().unwrap();
    let machine = Machine::take_with(journal.path()).unwrap();
    let limits = Limits { memory_bytes: Some(MEBIBYTES << 20), ..Limits::default() };
    let group = match machine.group(&limits, None) {
        Ok(group) => group,
        Err(why) => return eprintln!("NOT TESTED, memory cannot be limited: {why:#}"),
    };
    let folder = tempfile::tempdir().unwrap();
    write_site(folder.path());
    let wrapper = group.wrapper();
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    for arch in ["amped", "mt"] {
        let server = Server::start_under(&wrapper, arch, folder.path(), &[]);
        let until = Instant::now() + Duration::from_secs(60);
        let full = loop {
            get_all(&server, arch);
            let full = own_mebibytes(server.pid());
            if full > 32 {
                break full;
            }
            assert!(Instant::now() < until, "{arch} holds {full} MiB");
        };
        // With all that the server holds, and ten for the interpreter, it would be too much for the container.
        let more = MEBIBYTES - (group.taken_bytes() >> 20) - 4;
        let (program, more) = (need("python3", "python3"), more.to_string());
        let mut neighbour = Command::new(wrapper[0])
            .args(&wrapper[1..])
            .args([program.to_str().unwrap(), "-c", NEIGHBOUR, &more])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 5];
        neighbour.stdout.take().unwrap().read_exact(&mut said).expect("it lives");
        let small = own_mebibytes(server.pid());
        assert!(small + 8 < full, "{arch} held {full} MiB, and then {small} MiB");
        assert!(
            server.said().contains("memory is short: the file cache takes "),
            "{arch}: {}",
            server.said()
        );
        get_all(&server, arch);
        drop(neighbour.stdin.take());
        assert!(neighbour.wait().unwrap().success());
        let until = Instant::now() + Duration::from_secs(60);
        while own_mebibytes(server.pid()) + 8 < full {
            assert!(Instant::now() < until, "{arch} holds {} of {full} MiB", own_mebibytes(server.pid()));
            get_all(&server, arch);
        }
        server.stop();
        assert_eq!(group.killed_for_memory(), 0, "{arch}");
    }
}

/// Larger than the files in the heap: a response with one of these needs a descriptor.
const OPEN_FILES: usize = 40;

fn open_file(number: usize) -> (String, usize) {
    (format!("/{number}.bin"), if number.is_multiple_of(40) { 5_000_000 } else { 300_000 })
}

/// Asks for all of them over one connection, in an order of its own.
fn get_open_files(mut stream: TcpStream, client: usize, what: &str) {
    for number in (0..OPEN_FILES).map(|number| (number * 7 + client * 11) % OPEN_FILES) {
        let (name, size) = open_file(number);
        stream.write_all(format!("GET {name} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream
                .read_exact(&mut byte)
                .unwrap_or_else(|error| panic!("{what}, {name}: {error} after {head:?}"));
            head.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&head);
        assert!(text.starts_with("HTTP/1.1 200 "), "{what}, {name}: {text}");
        let mut body = vec![0; size];
        stream.read_exact(&mut body).unwrap_or_else(|error| panic!("{what}, {name}: {error}"));
    }
}

#[test]
fn with_few_descriptors_there_are_fewer_connections_and_all_are_served() {
    need("prlimit", "util-linux");
    let folder = tempfile::tempdir().unwrap();
    for number in 0..OPEN_FILES {
        let (name, size) = open_file(number);
        site::write(&folder.path().join(&name[1..]), &site::pattern(size));
    }
    for descriptors in [64, 128, 256] {
        let limit = format!("--nofile={descriptors}:{descriptors}");
        for arch in ARCHITECTURES {
            let what = format!("{arch} with {descriptors} descriptors");
            let flags = ["--loops", "1", "--threads", "200", "--processes", "8"];
            let server = Server::start_under(&["prlimit", &limit], arch, folder.path(), &flags);
            // Said at the start, but after the line that it is ready.
            server.get("/0.bin");
            let until = Instant::now() + Duration::from_secs(5);
            while arch != "mp" && !server.said().contains("LimitNOFILE=") && Instant::now() < until {
                thread::sleep(Duration::from_millis(10));
            }
            let said = server.said();
            let most =
                said.split(" connections at most").next().and_then(|said| said.rsplit("flash: ").next());
            let most = match (arch, most.and_then(|most| most.parse().ok())) {
                ("mp", None) => 8,
                (_, Some(most)) => most,
                _ => panic!("{what}: {said}"),
            };
            assert!(arch == "mp" || said.contains("LimitNOFILE="), "{what}: {said}");
            assert!(arch == "mp" || most >= descriptors / 8, "{what}: {most} connections");
            // All at the same time, so that none waits for another's end. One less than there may be: mp gives up idle
            // connections when it has no process left.
            let streams: Vec<TcpStream> = (1..most).map(|_| server.connect()).collect();
            thread::scope(|scope| {
                for (client, stream) in streams.into_iter().enumerate() {
                    let what = &what;
                    scope.spawn(move || get_open_files(stream, client, what));
                }
            });
            let said = server.stop();
            assert!(!said.contains("cannot accept") && !said.contains("turned away"), "{what}: {said}");
        }
    }
}

#[test]
fn what_would_give_the_connections_that_were_asked_for_is_said_and_true() {
    need("prlimit", "util-linux");
    let site = site::make();
    let said = |limit: usize, flags: &[&str]| {
        let server = Server::start_under(
            &["prlimit", &format!("--nofile={limit}:{limit}")],
            "amped",
            site.path(),
            flags,
        );
        assert_eq!(server.get("/a.txt").status, 200);
        server.stop()
    };
    let asked = ["--connections-max", "1000"];
    let warned = said(256, &asked);
    let more = warned.split("LimitNOFILE=").nth(1).and_then(|rest| rest.split(')').next());
    let more = more.and_then(|more| more.parse().ok()).unwrap_or_else(|| panic!("{warned}"));
    assert_eq!(warned.matches("connections at most").count(), 1, "{warned}");
    for (limit, flags) in [(more, &asked[..]), (256, &["--connections-max", "50"]), (8192, &[])] {
        let said = said(limit, flags);
        assert!(!said.contains("connections at most"), "{limit}: {said}");
    }
}

#[test]
fn an_idle_server_needs_little_memory_of_its_own() {
    // Of this, 128 KiB are the loops' receive buffers, and 256 KiB the first buffer for files.
    const KB_MAX: u64 = 3_000;
    let site = site::make();
    let server = Server::start("amped", site.path(), &["--loops", "2"]);
    // Its threads give back what they used at their start.
    thread::sleep(Duration::from_millis(500));
    let used = server.resident_kb();
    assert!(used < KB_MAX, "{used} KiB");
    server.stop();
}

#[test]
fn a_lack_of_threads_is_said_once_for_many_requests() {
    need("prlimit", "util-linux");
    if !is_superuser("becoming another user") {
        return;
    }
    let site = site::make();
    // A user that nobody else is, because the limit is the user's.
    let user = ["setpriv", "--reuid=64321", "--clear-groups"];
    let server = Server::start_under(&user, "amped", site.path(), &["--offload", "always"]);
    let pid = server.pid().to_string();
    let mut limit = Command::new(user[0]);
    limit.args(&user[1..]).args(["prlimit", "--pid", &pid, "--nproc=1:1"]);
    assert!(limit.status().unwrap().success());
    for number in 0..50 {
        assert_eq!(server.get(&format!("/{number}.none")).status, 404);
    }
    let said = server.stop();
    let lines = said.matches("cannot start a helper").count();
    assert!((1..=3).contains(&lines), "{lines} lines: {said}");
}
