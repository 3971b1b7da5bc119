//! A whole real tree, file by file, and files that change while they are served.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{ARCHITECTURES, PATIENCE, Server, reply};

/// The pages of PostgreSQL's manual.
fn tree() -> (PathBuf, Vec<String>) {
    let docs = fs::read_dir("/usr/share/doc").expect("Debian's documentation");
    let mut folders: Vec<PathBuf> = docs.filter_map(|entry| Some(entry.ok()?.path().join("html"))).collect();
    folders.retain(|folder| folder.to_string_lossy().contains("postgresql"));
    for folder in folders {
        let mut files = Vec::new();
        collect(&folder, "", &mut files);
        if files.len() >= 900 {
            return (folder, files);
        }
    }
    panic!("no tree of 900 files: apt-get install postgresql-doc-15 (or run cargo xtask prepare)");
}

fn collect(folder: &Path, below: &str, files: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{below}/{name}");
        match entry.path().metadata() {
            Ok(metadata) if metadata.is_dir() => collect(&entry.path(), &path, files),
            Ok(metadata) if metadata.is_file() => files.push(path),
            _ => {}
        }
    }
}

#[test]
fn every_file_of_a_real_tree() {
    let (folder, files) = tree();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, &folder, &["--processes", "4", "--follow-links", "anywhere"]);
        let next = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut stream = server.connect();
                    while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                        write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                        let body =
                            read_one(&mut stream).unwrap_or_else(|| panic!("{arch}: {path} broke off"));
                        let own = fs::read(folder.join(&path[1..])).unwrap();
                        assert!(body == own, "{arch}: {path}");
                    }
                });
            }
        });
        server.stop();
    }
}

/// One response with a length on a connection that stays open; `None` if it ends early.
fn read_one(stream: &mut std::net::TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        if let Some(end) = reply::find(&bytes, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length =
                head.split("Content-Length: ").nth(1)?.split("\r\n").next()?.parse::<usize>().ok()?;
            if bytes.len() >= end + 4 + length {
                return head.starts_with("HTTP/1.1 200").then(|| bytes.split_off(end + 4));
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// A version of a file is one byte over and over, so that a mixture shows.
fn version(number: u64, size: usize) -> Vec<u8> {
    vec![b'a' + (number % 26) as u8; size]
}

/// So many whole responses say something about mixtures.
const WHOLE: u64 = 50;

#[test]
fn no_response_mixes_two_versions() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    // In the heap, in a snapshot, and in neither.
    let sizes = [("small", 30_000), ("middle", 200_000), ("large", 2_000_000), ("huge", 5_000_000)];
    for (name, size) in sizes {
        fs::write(root.join(name), version(0, size)).unwrap();
    }
    for arch in ARCHITECTURES {
        let server = Server::start(arch, root, &["--revalidate", "0", "--processes", "4"]);
        let stop = AtomicBool::new(false);
        let whole = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    for (name, size) in sizes {
                        let (path, fresh) = (root.join(name), root.join("fresh"));
                        match number % 4 {
                            0 => fs::write(&path, version(number, size)).unwrap(),
                            1 => fs::File::options()
                                .write(true)
                                .open(&path)
                                .unwrap()
                                .set_len(size as u64 / 2)
                                .unwrap(),
                            2 => drop(fs::remove_file(&path)),
                            _ => {}
                        }
                        fs::write(&fresh, version(number + 1, size)).unwrap();
                        fs::rename(&fresh, &path).unwrap();
                    }
                    thread::sleep(Duration::from_millis(7));
                }
            });
            let readers: Vec<_> = (0..sizes.len())
                .map(|reader| {
                    let (server, whole) = (&server, &whole);
                    scope.spawn(move || {
                        let begun = Instant::now();
                        // A busy machine takes longer to answer as often.
                        let goes_on = || {
                            begun.elapsed() < Duration::from_secs(3)
                                || whole.load(Ordering::Relaxed) < WHOLE && begun.elapsed() < PATIENCE
                        };
                        let (name, size) = sizes[reader];
                        while goes_on() {
                            let mut stream = server.connect();
                            write!(stream, "GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                            let Some(body) = read_one(&mut stream) else { continue };
                            // A write that takes long makes the file go through every size below.
                            assert!(body.len() <= size, "{arch}: {name} of {}", body.len());
                            assert!(
                                body.iter().all(|&byte| Some(&byte) == body.first()),
                                "{arch}: {name} is a mixture"
                            );
                            whole.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let outcomes: Vec<_> = readers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            stop.store(true, Ordering::Relaxed);
            outcomes.into_iter().for_each(|outcome| outcome.unwrap());
        });
        assert!(whole.load(Ordering::Relaxed) >= WHOLE, "{arch}: only {whole:?} whole responses");
        server.stop();
    }
}
