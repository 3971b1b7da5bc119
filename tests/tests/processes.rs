//! Processes of a server that are killed (docs/helper-processes.md): the server goes on, or ends in order, and no client
//! gets a wrong byte.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use flash_tests::family::{self, Process};
use flash_tests::{
    ARCHITECTURES, PATIENCE, PROCESSES, Server, Stop, is_superuser, open_folder, reply, scripts, site,
    wait_for,
};
use rustix::process::Signal;
use tempfile::TempDir;

const FILE_BYTES: usize = 3_000_000;
const DOWNLOAD_BYTES: usize = 20_000_000;
const PROGRAM_BYTES: usize = 300_000;
/// Of each kind, helpers and fork helpers.
const KILLS: usize = 12;

/// A script that sends a part of a file whose bytes are known.
fn programs() -> TempDir {
    let folder = scripts::make();
    fs::write(folder.path().join("content"), site::pattern(PROGRAM_BYTES)).unwrap();
    let source = format!(
        "#!/bin/sh\nprintf 'Content-Type: application/octet-stream\\nContent-Length: {PROGRAM_BYTES}\\n\\n'; cat content\n"
    );
    scripts::script(folder.path(), "content-of", &source);
    folder
}

/// A server that needs helper processes for each file, and a fork helper.
fn server(site: &Path, programs: &Path) -> Server {
    let cgi = format!("/cgi={}", programs.display());
    // What has begun may come to its end, on a busy machine as well.
    let flags = ["--path-cache", "0", "--helpers-max", "4", "--drain", "120s", "--cgi", &cgi];
    Server::start(PROCESSES, site, &flags)
}

fn send(stream: &mut TcpStream, path: &str) {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
}

/// All that comes, of a connection that may be broken off.
fn rest_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => bytes,
    }
}

/// Whether a response is complete. What there is of it must be right.
fn is_complete(bytes: &[u8], content: &[u8], path: &str) -> bool {
    let Some(head) = reply::find(bytes, b"\r\n\r\n") else { return false };
    let (status, body) = (&bytes[9..12], &bytes[head + 4..]);
    match status {
        b"200" => {
            assert!(content.starts_with(body), "{path}: a wrong byte among {}", body.len());
            body.len() == content.len()
        }
        // The program or the helper was lost with its process, or nobody is there yet to start another.
        b"500" | b"502" | b"503" => false,
        _ => panic!("{path}: {}", String::from_utf8_lossy(&bytes[..head])),
    }
}

#[test]
fn helpers_and_fork_helpers_that_are_killed_are_replaced_by_one_supervisor() {
    let (site, programs) = (site::make(), programs());
    let server = server(site.path(), programs.path());
    let supervisor = family::supervisor(&server);
    let kinds = [(format!("/{FILE_BYTES}.bin"), FILE_BYTES), ("/cgi/content-of".into(), PROGRAM_BYTES)];
    let right = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Stop(&is_over);
        for ((path, size), right) in kinds.iter().zip(&right).cycle().take(6) {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let content = site::pattern(*size);
                while !is_over.load(Ordering::Relaxed) {
                    let mut stream = server.connect();
                    send(&mut stream, path);
                    if is_complete(&rest_of(&mut stream), &content, path) {
                        right.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..KILLS {
            let served = right.each_ref().map(|right| right.load(Ordering::Relaxed));
            let goes_on =
                || right.iter().zip(served).all(|(right, before)| right.load(Ordering::Relaxed) > before);
            wait_for("files and programs", goes_on);
            wait_for("a helper", || !family::helpers(&server).is_empty());
            family::helpers(&server).iter().take(1).for_each(|helper| helper.kill());
            let fork_helper = || family::named(&server, "flash-fork");
            wait_for("a fork helper", || fork_helper().is_some());
            let killed = fork_helper().unwrap();
            killed.kill();
            wait_for("another fork helper", || fork_helper().is_some_and(|other| other != killed));
        }
    });
    assert_eq!(family::supervisor(&server), supervisor, "it has replaced them all");
    assert_eq!(server.get("/a.txt").body, b"0123456789");
    let said = server.stop();
    assert_eq!(said.matches("the fork helper ended (signal 9): replaced").count(), KILLS, "{said}");
    assert!(!said.contains("panick"), "{said}");
}

#[test]
fn a_supervisor_that_is_killed_ends_the_server_in_order_with_all_its_roles() {
    let (site, programs) = (site::make(), programs());
    let mut server = server(site.path(), programs.path());
    let mut download = server.connect();
    send(&mut download, &format!("/{DOWNLOAD_BYTES}.bin"));
    let mut bytes = vec![0; 1000];
    download.read_exact(&mut bytes).unwrap();
    let mut program = server.connect();
    send(&mut program, "/cgi/content-of");
    let mut answer = vec![0; 1000];
    program.read_exact(&mut answer).unwrap();
    let family = family::of(&server);
    let names: Vec<String> = family.iter().map(|process| process.name()).collect();
    for name in ["flash-supervise", "flash-fork", "helper-1"] {
        assert!(names.iter().any(|other| other == name), "{name}: {names:?}");
    }
    family::supervisor(&server).kill();
    bytes.extend(rest_of(&mut download));
    assert!(is_complete(&bytes, &site::pattern(DOWNLOAD_BYTES), "the download"));
    answer.extend(rest_of(&mut program));
    assert!(is_complete(&answer, &site::pattern(PROGRAM_BYTES), "the program"));
    assert_eq!(server.wait(PATIENCE), Some(Some(1)), "{}", server.said());
    wait_for("the end of all", || !family.iter().any(|process| process.lives()));
    assert!(
        server.said().ends_with("flash: stopped because the supervisor ended (signal 9)\n"),
        "{}",
        server.said()
    );
}

#[test]
fn a_worker_that_is_killed_costs_its_own_connection() {
    let site = site::make();
    let mut server = Server::start("mp", site.path(), &["--processes", "2"]);
    let workers = || -> Vec<Process> {
        let family = family::of(&server).into_iter();
        family.filter(|process| process.name().starts_with("worker-") && process.lives()).collect()
    };
    wait_for("two workers", || workers().len() == 2);
    let before = workers();
    // A worker has one connection at a time.
    let mut downloads = [server.connect(), server.connect()];
    let mut bytes = [vec![0; 1000], vec![0; 1000]];
    for (stream, bytes) in downloads.iter_mut().zip(&mut bytes) {
        send(stream, &format!("/{DOWNLOAD_BYTES}.bin"));
        stream.read_exact(bytes).unwrap();
    }
    before[0].kill();
    let content = site::pattern(DOWNLOAD_BYTES);
    let mut complete = 0;
    for (stream, bytes) in downloads.iter_mut().zip(&mut bytes) {
        bytes.extend(rest_of(stream));
        complete += usize::from(is_complete(bytes, &content, "a download"));
    }
    assert_eq!(complete, 1, "each worker had one");
    wait_for("another worker", || workers().len() == 2 && !workers().contains(&before[0]));
    assert!(workers().contains(&before[1]));
    assert!(server.said().contains(" ended (signal 9): replaced"), "{}", server.said());

    // One that lived shortly is replaced after a pause, in which the parent still takes signals.
    let young = workers().into_iter().find(|worker| *worker != before[1]).unwrap();
    young.kill();
    wait_for("its end", || !young.lives());
    server.signal(Signal::TERM);
    assert_eq!(server.wait(PATIENCE), Some(Some(0)), "{}", server.said());
}

#[test]
fn no_process_outlives_a_server_that_is_killed() {
    let (site, programs) = (site::make(), programs());
    scripts::script(
        programs.path(),
        "waits",
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; exec sleep 600\n",
    );
    let cgi = format!("/cgi={}", programs.path().display());
    for arch in ARCHITECTURES {
        // The architecture that is built on io_uring is the one that takes more than POSIX has.
        for calls in ["all", "portable"].into_iter().filter(|&calls| arch != "uring" || calls == "all") {
            let flags = ["--system-calls", calls, "--cgi", &cgi];
            let mut server = Server::start(arch, site.path(), &flags);
            // A program runs, a client reads slowly, and another one says nothing.
            let (mut program, mut download, idle) = (server.connect(), server.connect(), server.connect());
            send(&mut program, "/cgi/waits");
            send(&mut download, &format!("/{DOWNLOAD_BYTES}.bin"));
            let mut bytes = vec![0; 100];
            for stream in [&mut program, &mut download] {
                stream.read_exact(&mut bytes).unwrap();
            }
            let family = family::of(&server);
            server.signal(Signal::KILL);
            server.wait(PATIENCE).expect("it is killed");
            drop(download);
            wait_for(&format!("{arch}, {calls}: the end of all"), || {
                !family.iter().any(|process| process.lives())
            });
            drop(idle);
        }
    }
}

#[test]
fn without_its_privileged_opener_a_server_writes_on_to_the_old_log() {
    if !is_superuser("becoming another user") {
        return;
    }
    let (site, folder) = (site::make(), open_folder());
    let [log, moved] = ["log", "moved"].map(|name| folder.path().join(name));
    let flags = ["--user", "nobody", "--access-log", log.to_str().unwrap()];
    let server = Server::start("amped", site.path(), &flags);
    let opener = family::named(&server, "flash-opener").expect("there is a privileged opener");
    opener.kill();
    wait_for("its end", || !opener.lives());
    fs::rename(&log, &moved).unwrap();
    server.signal(Signal::USR1);
    wait_for("the failure", || server.said().contains("the old file stays in use"));
    assert_eq!(server.get("/a.txt").status, 200);
    wait_for("its line", || fs::read_to_string(&moved).unwrap().lines().count() == 1);
    assert!(!log.exists());
    server.stop();
}
