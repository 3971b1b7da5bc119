//! Chunked request bodies. A program is told their length before it starts (RFC 3875 §4.1.2). That is true for bodies in memory
//! and in the file. Afterwards nothing of them is left.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, Server, family, is_superuser, read_all, scripts, site, wait_for};
use rustix::net::sockopt::set_socket_linger;
use tempfile::TempDir;

const HEAD: &str =
    "POST /cgi/told HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A folder of scripts, one of which says what length it was told, and then what came.
fn folder() -> TempDir {
    let folder = scripts::make();
    let told = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s:' \"$CONTENT_LENGTH\"; exec cat";
    scripts::script(folder.path(), "told", told);
    folder
}

/// A server that has no memory for bodies, or enough of it.
fn start(arch: &str, site: &TempDir, scripts: &TempDir, temporary: &Path, memory: &str) -> Server {
    let cgi = format!("/cgi={}", scripts.path().display());
    let tmpdir = format!("TMPDIR={}", temporary.display());
    let flags = ["--processes", "4", "--program-buffer-bytes", memory, "--cgi", &cgi];
    Server::start_under(&["env", &tmpdir], arch, site.path(), &flags)
}

pub(crate) fn chunks(body: &[u8], chunk_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in body.chunks(chunk_bytes) {
        bytes.extend_from_slice(format!("{:x};an=extension\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\nX-Trailer: of no use\r\n\r\n");
    bytes
}

/// What lies in files that have no name any more, of all processes of a server.
fn kept_bytes(server: &Server, temporary: &Path) -> u64 {
    let temporary = temporary.canonicalize().unwrap();
    let mut bytes = 0;
    for process in family::of(server) {
        for file in fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten() {
            if fs::read_link(file.path()).is_ok_and(|to| to.starts_with(&temporary)) {
                bytes += fs::metadata(file.path()).map_or(0, |file| file.blocks() * 512);
            }
        }
    }
    bytes
}

/// Sends while it receives: a server that refuses need not read to the end.
fn ask(server: &Server, request: Vec<u8>) -> Reply {
    let mut client = server.connect();
    let mut sender = client.try_clone().unwrap();
    let sending = thread::spawn(move || drop(sender.write_all(&request)));
    let bytes = read_all(&mut client);
    sending.join().unwrap();
    reply::only(&bytes)
}

#[test]
fn a_program_is_told_the_length_and_gets_every_byte() {
    let (site, scripts, temporary) = (site::make(), folder(), tempfile::tempdir().unwrap());
    for arch in ARCHITECTURES {
        for memory in ["64M", "0"] {
            let server = start(arch, &site, &scripts, temporary.path(), memory);
            for (size, chunk_bytes) in
                [(0, 1), (10, 3), (100_000, 4096), (900_000, 100_000), (1 << 20, 70_000)]
            {
                let body = site::pattern(size);
                let reply = ask(&server, [HEAD.as_bytes(), &chunks(&body, chunk_bytes)].concat());
                let expected = [format!("{size}:").as_bytes(), &body].concat();
                assert_eq!(
                    (reply.status, reply.body.len()),
                    (200, expected.len()),
                    "{arch}, {memory}: {size}"
                );
                assert!(reply.body == expected, "{arch}, {memory}: {size} bytes");
            }
            for size in [(1 << 20) + 1, 3_000_000] {
                let reply = ask(&server, [HEAD.as_bytes(), &chunks(&site::pattern(size), 50_000)].concat());
                assert_eq!(reply.status, 413, "{arch}, {memory}: {size}");
            }
            // What follows is another request.
            let two = [
                HEAD.replace("Connection: close\r\n", "").as_bytes(),
                &chunks(&site::pattern(50_000), 9_999),
                b"GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            ]
            .concat();
            let replies = reply::all(&server.raw(&two), |_| false);
            let lengths: Vec<usize> = replies.iter().map(|reply| reply.body.len()).collect();
            assert_eq!(lengths, [50_006, 10], "{arch}, {memory}");
            wait_for("nothing is left", || kept_bytes(&server, temporary.path()) == 0);
            assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "{arch}");
            server.stop();
        }
    }
}

#[test]
fn a_client_that_expects_100_or_closes_its_side_gets_its_answer() {
    let (site, scripts, temporary) = (site::make(), folder(), tempfile::tempdir().unwrap());
    for arch in ARCHITECTURES {
        let server = start(arch, &site, &scripts, temporary.path(), "0");
        let body = site::pattern(200_000);
        let mut client = server.connect();
        client.write_all(HEAD.replace("Host: h", "Host: h\r\nExpect: 100-continue").as_bytes()).unwrap();
        let mut leave = [0; 25];
        client.read_exact(&mut leave).unwrap();
        assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n", "{arch}");
        client.write_all(&chunks(&body, 60_000)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let reply = reply::only(&read_all(&mut client));
        assert!(reply.body.strip_prefix(b"200000:") == Some(&body[..]), "{arch}: {}", reply.status);
        server.stop();
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_leaves_nothing_behind() {
    let (site, scripts, temporary) = (site::make(), folder(), tempfile::tempdir().unwrap());
    for arch in ARCHITECTURES {
        let server = start(arch, &site, &scripts, temporary.path(), "0");
        let body = chunks(&site::pattern(800_000), 100_000);
        let mut clients: Vec<TcpStream> = Vec::new();
        // As many as mp has processes.
        for _ in 0..4 {
            let mut client = server.connect();
            client.write_all(HEAD.as_bytes()).unwrap();
            client.write_all(&body[..500_000]).unwrap();
            clients.push(client);
        }
        wait_for("much is kept", || kept_bytes(&server, temporary.path()) > 1_500_000);
        for (number, client) in clients.into_iter().enumerate() {
            match number % 2 {
                0 => drop(client),
                _ => set_socket_linger(&client, Some(Duration::ZERO)).unwrap(),
            }
        }
        wait_for("nothing is left", || kept_bytes(&server, temporary.path()) == 0);
        assert_eq!(server.get("/a.txt").status, 200, "{arch}");
        server.stop();
    }
}

#[test]
fn a_full_disk_is_said_and_costs_one_request() {
    let (site, scripts, temporary) = (site::make(), folder(), tempfile::tempdir().unwrap());
    if !is_superuser("mounting") {
        return;
    }
    for arch in ARCHITECTURES {
        let cgi = format!("/cgi={}", scripts.path().display());
        let tmpdir = format!("TMPDIR={}", temporary.path().display());
        // In a namespace of its own, where nobody else sees it, and with which it goes.
        let mount = "mount -t tmpfs -o size=1m none \"$TMPDIR\" && exec \"$@\"";
        let wrapper = ["env", &tmpdir, "unshare", "--mount", "sh", "-c", mount, "sh"];
        let flags =
            ["--processes", "4", "--program-buffer-bytes", "0", "--body-bytes-max", "8M", "--cgi", &cgi];
        let server = Server::start_under(&wrapper, arch, site.path(), &flags);
        let ask = |size| ask(&server, [HEAD.as_bytes(), &chunks(&site::pattern(size), 50_000)].concat());
        for _ in 0..3 {
            assert_eq!(ask(3_000_000).status, 507, "{arch}");
            wait_for("there is room again", || ask(500_000).status == 200);
        }
        let why = "cannot have its request's body: the folder for temporary files is full";
        wait_for("it is said", || server.said().lines().filter(|line| line.contains(why)).count() >= 3);
        server.stop();
    }
}

#[test]
fn without_a_folder_for_temporary_files_what_fits_into_memory_is_served() {
    let (site, scripts) = (site::make(), folder());
    for arch in ARCHITECTURES {
        let server = start(arch, &site, &scripts, &site.path().join("none"), "1M");
        let ask = |size| ask(&server, [HEAD.as_bytes(), &chunks(&site::pattern(size), 50_000)].concat());
        assert_eq!([10, 10_000, 900_000].map(|size| ask(size).status), [200, 200, 507], "{arch}");
        let said = server.stop();
        assert_eq!(said.matches("flash: cannot keep files in ").count(), 1, "{arch}: {said}");
    }
}
