//! Files that change while Flash sends them. A log that grows is sent with its promised length, and a file that was touched is
//! sent to its end. A file that was rewritten in place never reaches a client as a mixture.

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use flash_tests::{ARCHITECTURES, Server, Stop, reply, site};

/// More than what is kept in memory.
const BYTES: usize = 9_000_000;
/// What a client reads before it waits for a change.
const FIRST_BYTES: usize = 300_000;

/// The content of all files, however long they are.
static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| site::pattern(2 * BYTES));

/// Bytes that differ from the content everywhere.
fn others(length: usize) -> Vec<u8> {
    CONTENT[..length].iter().map(|byte| !byte).collect()
}

/// Asks, with a receive buffer so small that the server cannot be far ahead.
fn ask(server: &Server, path: &str, fields: &str) -> TcpStream {
    let mut stream = server.connect();
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 64 << 10).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n").unwrap();
    stream
}

/// Reads the beginning of a response, has something done, and reads the rest, or what comes of it.
fn read_around(mut stream: TcpStream, meanwhile: impl FnOnce()) -> Vec<u8> {
    let mut bytes = vec![0; FIRST_BYTES];
    stream.read_exact(&mut bytes).unwrap();
    meanwhile();
    bytes.extend(flash_tests::read_all(&mut stream));
    bytes
}

/// The head of a response, its length, and as much of its body as came.
fn split(response: &[u8]) -> (String, usize, &[u8]) {
    let end = reply::find(response, b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8(response[..end].to_vec()).unwrap();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
    let length = field("Content-Length: ").expect("a length").parse().unwrap();
    (head, length, &response[end..])
}

fn field(head: &str, name: &str) -> String {
    head.lines().find_map(|line| line.strip_prefix(name)).expect(name).trim_start_matches(": ").to_owned()
}

/// Appends every five milliseconds.
fn grow(path: &Path, stop: &AtomicBool) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    let mut length = file.metadata().unwrap().len() as usize;
    while !stop.load(Ordering::Relaxed) {
        file.write_all(&CONTENT[length..length + 1_000]).unwrap();
        length += 1_000;
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_log_that_grows_is_sent_as_long_as_it_was_promised() {
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        // Beyond what is kept in memory, below it, and growing from one to the other.
        let names = [("large.log", BYTES), ("small.log", 1_000_000), ("between.log", (4 << 20) - 20_000)];
        for (name, length) in names {
            site::write(&folder.path().join(name), &CONTENT[..length]);
        }
        let server = Server::start(arch, folder.path(), &["--revalidate", "50ms"]);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for (name, _) in names {
                let path = folder.path().join(name);
                let stop = &stop;
                scope.spawn(move || grow(&path, stop));
            }
            let _stop = Stop(&stop);
            for round in 0..10 {
                for (name, least) in names.iter().take(if round % 5 == 0 { 3 } else { 1 }) {
                    // Until the log has grown again.
                    let file = File::open(folder.path().join(name)).unwrap();
                    let response = read_around(ask(&server, &format!("/{name}"), ""), || {
                        let length = file.metadata().unwrap().len();
                        while file.metadata().unwrap().len() < length + 2_000 {
                            thread::sleep(Duration::from_millis(1));
                        }
                    });
                    let (head, length, body) = split(&response);
                    assert!(head.starts_with("HTTP/1.1 200") && length >= *least, "{arch} {name}: {head}");
                    assert_eq!(body.len(), length, "{arch} {name}, round {round}");
                    assert!(*body == CONTENT[..length], "{arch} {name}, round {round}: another content");
                }
            }
            // A part of it, of the version that a head told of.
            let mut stream = ask(&server, "/large.log", "");
            let mut first = vec![0; FIRST_BYTES];
            stream.read_exact(&mut first).unwrap();
            let (head, ..) = split(&first);
            let fields = format!("Range: bytes=100000-8500000\r\nIf-Range: {}\r\n", field(&head, "ETag"));
            let response = read_around(ask(&server, "/large.log", &fields), || ());
            let (head, part, body) = split(&response);
            // Another version is sent whole. A process of mp may know an older one than the process before.
            let (start, length) = if head.contains(" 206 ") { (100_000, 8_400_001) } else { (0, part) };
            assert_eq!((part, body.len()), (length, length), "{arch}: {head}");
            assert!(*body == CONTENT[start..start + length], "{arch}: another content in a part");
        });
        server.stop();
    }
}

#[test]
fn a_file_that_was_touched_is_sent_to_its_end() {
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.bin");
        site::write(&path, &CONTENT[..BYTES]);
        let server = Server::start(arch, folder.path(), &[]);
        let response = read_around(ask(&server, "/large.bin", ""), || {
            File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now()).unwrap();
        });
        let (_, length, body) = split(&response);
        assert_eq!((length, body.len()), (BYTES, BYTES), "{arch}");
        assert!(*body == CONTENT[..BYTES], "{arch}");
        server.stop();
    }
}

#[test]
fn what_was_rewritten_in_place_is_never_mixed() {
    type Change = fn(&File);
    let changes: [(&str, Change); 4] = [
        ("whole", |file| file.write_all_at(&others(BYTES), 0).unwrap()),
        ("beginning", |file| file.write_all_at(&others(100_000), 0).unwrap()),
        // One byte of what the client has, and then it grows.
        ("middle, and longer", |file| {
            file.write_all_at(&[!CONTENT[100_000]], 100_000).unwrap();
            file.write_all_at(b"more", BYTES as u64).unwrap();
        }),
        ("shorter", |file| file.set_len(8_000_000).unwrap()),
    ];
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.bin");
        let server = Server::start(arch, folder.path(), &["--revalidate", "0"]);
        for (what, change) in &changes {
            site::write(&path, &CONTENT[..BYTES]);
            let file = File::options().write(true).open(&path).unwrap();
            let response = read_around(ask(&server, "/large.bin", ""), || change(&file));
            let (_, length, body) = split(&response);
            assert_eq!(length, BYTES, "{arch}, {what}");
            assert!(
                body.len() < length,
                "{arch}, {what}: the client has the old beginning, and a whole answer"
            );
            assert!(*body == CONTENT[..body.len()], "{arch}, {what}: a mixture");
        }
        server.stop();
    }
}
