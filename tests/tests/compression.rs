//! Files that Flash compresses: each coding decodes to the file, has a tag of its own, follows the file's changes, and comes
//! without a wait.

#![forbid(unsafe_code)]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, PATIENCE, Server, admin, need, set_mode, site, wait_for};
use tempfile::TempDir;

const CODINGS: [&str; 3] = ["br", "zstd", "gzip"];
/// In the heap, in a snapshot, and too large for a copy as it is.
const SIZES: [usize; 3] = [10_000, 900_000, 5_000_000];

/// One process, so that two requests find the same cache.
fn start(arch: &str, folder: &Path, flags: &[&str]) -> Server {
    let one_process: &[&str] = if arch == "mp" { &["--processes", "1", "--processes-max", "1"] } else { &[] };
    Server::start(arch, folder, &[&["--revalidate", "100ms"], one_process, flags].concat())
}

/// The head and the body that a client of HTTP/2 gets. `None` if the response is cut off.
fn over_http2(server: &Server, path: &str, coding: &str) -> Option<(String, Vec<u8>)> {
    let output = Command::new(need("curl", "curl"))
        .args(["-sS", "-i", "--max-time", "20", "--http2-prior-knowledge"])
        .args(["-H", &format!("Accept-Encoding: {coding}"), &format!("http://{}{path}", server.address)])
        .output()
        .expect("curl runs");
    let end = reply::find(&output.stdout, b"\r\n\r\n")? + 4;
    let (head, body) = output.stdout.split_at(end);
    output.status.success().then(|| (String::from_utf8_lossy(head).into_owned(), body.to_vec()))
}

fn text(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.extend_from_slice(format!("{:x} ", (state >> 33) % 5_000).as_bytes());
    }
    text.truncate(bytes);
    text
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// Decodes with other implementations than those that Flash compresses with.
fn decoded(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        "br" => _ = brotli_decompressor::Decompressor::new(bytes, 4096).read_to_end(&mut plain).unwrap(),
        "zstd" => {
            _ = ruzstd::decoding::StreamingDecoder::new(bytes).unwrap().read_to_end(&mut plain).unwrap()
        }
        "gzip" => _ = libflate::gzip::Decoder::new(bytes).unwrap().read_to_end(&mut plain).unwrap(),
        other => panic!("{other}?"),
    }
    plain
}

fn get(server: &Server, method: &str, path: &str, fields: &str) -> Reply {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    let bytes = server.raw(request.as_bytes());
    flash_tests::reply::all(&bytes, |_| method == "HEAD").remove(0)
}

fn accepting(server: &Server, path: &str, codings: &str) -> Reply {
    get(server, "GET", path, &format!("Accept-Encoding: {codings}\r\n"))
}

/// Asks until the answer is as it should be. Each answer before that must be the plain file.
fn until(server: &Server, path: &str, codings: &str, plain: &[u8], is_it: impl Fn(&Reply) -> bool) -> Reply {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let reply = accepting(server, path, codings);
        assert_eq!(reply.field("Vary"), Some("Accept-Encoding"), "{path}");
        if is_it(&reply) {
            return reply;
        }
        assert!(
            reply.field("Content-Encoding").is_none() && reply.body == plain,
            "{path}: {:?}",
            reply.fields
        );
        assert!(Instant::now() < give_up, "{path} in {codings}: {:?}", reply.fields);
        thread::sleep(Duration::from_millis(20));
    }
}

fn until_coded(server: &Server, path: &str, coding: &str, plain: &[u8]) -> Reply {
    until(server, path, coding, plain, |reply| reply.field("Content-Encoding") == Some(coding))
}

#[test]
fn each_coding_decodes_to_the_file_and_is_a_representation_of_its_own() {
    for arch in ARCHITECTURES {
        let folder = TempDir::new().unwrap();
        for size in SIZES {
            site::write(&folder.path().join(format!("{size}.css")), &text(size as u64, size));
        }
        let server = start(arch, folder.path(), &[]);
        for size in SIZES {
            let (path, plain) = (format!("/{size}.css"), text(size as u64, size));
            let mut tags = vec![get(&server, "GET", &path, "").field("ETag").unwrap().to_owned()];
            for coding in CODINGS {
                let reply = until_coded(&server, &path, coding, &plain);
                assert_eq!(decoded(coding, &reply.body), plain, "{arch} {path} {coding}");
                assert!(reply.body.len() < plain.len() * 2 / 3, "{arch} {path} {coding}");
                assert_eq!(reply.field("Content-Type"), Some("text/css; charset=utf-8"));
                tags.push(reply.field("ETag").unwrap().to_owned());
            }
            tags.sort();
            tags.dedup();
            assert_eq!(tags.len(), 4, "{arch}: each representation has its own tag: {tags:?}");
            let plain_now = get(&server, "GET", &path, "");
            assert!(plain_now.body == plain && plain_now.field("Content-Encoding").is_none(), "{arch}");
        }
        server.stop();
    }
}

#[test]
fn conditions_ranges_weights_and_head_are_about_the_compressed_representation() {
    for arch in ARCHITECTURES {
        let folder = TempDir::new().unwrap();
        let plain = text(1, 50_000);
        site::write(&folder.path().join("a.html"), &plain);
        let server = start(arch, folder.path(), &[]);
        let whole = until_coded(&server, "/a.html", "gzip", &plain);
        let tag = whole.field("ETag").unwrap();
        let own = get(&server, "GET", "/a.html", "").field("ETag").unwrap().to_owned();
        // While a thread has the cache's lock, a client gets the file as it is.
        let ask = |method: &str, fields: &str| {
            let fields = format!("Accept-Encoding: gzip\r\n{fields}");
            let mut replies = (0..10).map(|_| get(&server, method, "/a.html", &fields));
            replies.find(|reply| reply.field("ETag") != Some(&own)).expect("the compressed file")
        };

        let head = ask("HEAD", "");
        let undated = |reply: &Reply| {
            let fields = reply.fields.iter().filter(|(name, _)| name != "Date");
            fields.cloned().collect::<Vec<_>>()
        };
        assert_eq!((head.status, undated(&head)), (200, undated(&whole)), "{arch}");

        let unchanged = ask("GET", &format!("If-None-Match: {tag}\r\n"));
        assert_eq!((unchanged.status, unchanged.field("ETag")), (304, Some(tag)), "{arch}");
        assert_eq!(unchanged.field("Vary"), Some("Accept-Encoding"), "{arch}");
        assert_eq!(ask("GET", &format!("If-None-Match: {own}\r\n")).status, 200, "{arch}");
        assert_eq!(ask("GET", &format!("If-Match: {own}\r\n")).status, 412, "{arch}");

        let part = ask("GET", &format!("Range: bytes=100-199\r\nIf-Range: {tag}\r\n"));
        assert_eq!((part.status, &part.body[..]), (206, &whole.body[100..200]), "{arch}");
        assert_eq!(part.field("Content-Encoding"), Some("gzip"), "{arch}");
        let range = format!("bytes 100-199/{}", whole.body.len());
        assert_eq!(part.field("Content-Range"), Some(&*range), "{arch}");
        // All parts of a download come from one representation: the named one, or the file itself.
        let of_itself = (206, &plain[100..200]);
        for condition in [format!("If-Range: {own}\r\n"), String::new()] {
            let fields = format!("Accept-Encoding: gzip\r\nRange: bytes=100-199\r\n{condition}");
            let part = get(&server, "GET", "/a.html", &fields);
            assert_eq!((part.status, &part.body[..]), of_itself, "{arch}: {condition}");
        }

        for (weights, coding) in [
            ("gzip;q=0.5, identity;q=0.4", Some("gzip")),
            ("gzip;q=0.4, identity;q=0.5", None),
            ("gzip;q=0", None),
            ("identity;q=0, gzip;q=0.1", Some("gzip")),
            ("deflate", None),
        ] {
            let is_right = |_| accepting(&server, "/a.html", weights).field("Content-Encoding") == coding;
            let tries = if coding.is_some() { 10 } else { 1 };
            assert!((0..tries).any(is_right), "{arch}: {weights}");
        }
        server.stop();
    }
}

/// Look-ups for it found no copies, and their entry is in the caches.
#[test]
fn a_client_that_takes_no_coding_hides_no_copy_from_others() {
    for arch in ARCHITECTURES {
        let folder = TempDir::new().unwrap();
        let plain = text(3, 10_000);
        for name in ["a.txt", "b.txt"] {
            site::write(&folder.path().join(name), &plain);
        }
        site::write(&folder.path().join("a.txt.br"), b"a copy");
        let server = start(arch, folder.path(), &[]);
        for (path, coding) in [("/a.txt", "br"), ("/b.txt", "gzip")] {
            (0..9).for_each(|_| assert_eq!(get(&server, "GET", path, "").body, plain, "{arch}"));
            if coding == "br" {
                assert_eq!(accepting(&server, path, "gzip, br").body, b"a copy", "{arch}");
            } else {
                until_coded(&server, path, coding, &plain);
            }
        }
        server.stop();
    }
}

#[test]
fn a_file_that_changes_is_compressed_anew_and_no_older_result_is_sent() {
    for arch in ARCHITECTURES {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.js");
        site::write(&path, &text(0, 20_000));
        let server = start(arch, folder.path(), &[]);
        until_coded(&server, "/a.js", "zstd", &text(0, 20_000));
        for version in 1..5 {
            let plain = text(version, 20_000);
            site::write(&path.with_extension("new"), &plain);
            fs::rename(path.with_extension("new"), &path).unwrap();
            // From the first answer of the new version on, none is of an earlier one.
            let earlier = text(version - 1, 20_000);
            let give_up = Instant::now() + PATIENCE;
            let mut is_new = false;
            loop {
                let reply = accepting(&server, "/a.js", "zstd");
                let is_coded = reply.field("Content-Encoding").is_some();
                let body = if is_coded { decoded("zstd", &reply.body) } else { reply.body };
                assert!(body == plain || (!is_new && body == earlier), "{arch}: version {version}");
                is_new |= body == plain;
                if is_new && is_coded {
                    break;
                }
                assert!(Instant::now() < give_up, "{arch}: version {version}");
                thread::sleep(Duration::from_millis(20));
            }
        }
        server.stop();
    }
}

#[test]
fn what_should_not_be_compressed_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let plain = text(1, 20_000);
    site::write(&folder.path().join("a.html"), &plain);
    site::write(&folder.path().join("small.html"), &text(1, 1_000));
    site::write(&folder.path().join("a.png"), &plain);
    site::write(&folder.path().join("noise.txt"), &noise(20_000));
    fs::create_dir(folder.path().join("kept")).unwrap();
    site::write(&folder.path().join("kept/a.css"), &plain);
    site::write(&folder.path().join("sides.css"), &plain);
    site::write(&folder.path().join("sides.css.gz"), b"made by hand");
    let admin_folder = TempDir::new().unwrap();
    let socket = admin_folder.path().join("admin");
    let admin = format!("unix:{}", socket.display());
    // The files that were compressed, or found not to be worth it.
    let tried = || {
        let (status, text) = admin::ask(&socket, "GET", "/status.json");
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["totals"]["compressed"].as_u64().unwrap()
    };
    for arch in ARCHITECTURES {
        let flags = ["--cache-control", "/kept=public, No-Transform", "--admin", &admin];
        let server = start(arch, folder.path(), &flags);
        for _ in 0..3 {
            for (path, coding) in
                [("/small.html", None), ("/a.png", None), ("/kept/a.css", None), ("/sides.css", Some("gzip"))]
            {
                let reply = accepting(&server, path, "br, gzip, zstd");
                assert_eq!(reply.field("Content-Encoding"), coding, "{arch} {path}");
            }
            // The copy was chosen by its publisher.
            assert_eq!(accepting(&server, "/sides.css", "br, gzip").body, b"made by hand", "{arch}");
            until_coded(&server, "/a.html", "gzip", &plain);
            // What compresses has the lowest priority.
            wait_for("both files to be tried", || {
                accepting(&server, "/noise.txt", "br");
                tried() >= 2
            });
            assert!(accepting(&server, "/noise.txt", "br").field("Content-Encoding").is_none(), "{arch}");
        }
        assert_eq!(tried(), 2, "{arch}: a.html once, and noise.txt was tried once");
        server.stop();
    }
}

#[test]
fn it_is_switched_off_by_site_and_by_coding() {
    let folder = TempDir::new().unwrap();
    let plain = text(1, 20_000);
    site::write(&folder.path().join("a.html"), &plain);
    site::write(&folder.path().join("b.html"), &plain);
    for arch in ARCHITECTURES {
        let server = start(arch, folder.path(), &["--compress", "gzip"]);
        accepting(&server, "/b.html", "br");
        until_coded(&server, "/a.html", "gzip", &plain);
        let reply = accepting(&server, "/b.html", "br");
        assert_eq!((reply.field("Content-Encoding"), reply.body == plain), (None, true), "{arch}");
        server.stop();
        let server = start(arch, folder.path(), &["--compress", "off", "--no-precompressed"]);
        let reply = accepting(&server, "/a.html", "br, gzip");
        assert!(reply.field("Content-Encoding").is_none() && reply.field("Vary").is_none(), "{arch}");
        let said = server.stop();
        assert!(arch == "mp" || said.contains("compressed=0"), "{arch}: {said}");
    }
}

#[test]
fn a_flood_of_files_leaves_the_hot_one_alone_and_memory_bounded() {
    let folder = TempDir::new().unwrap();
    site::write(&folder.path().join("hot.txt"), b"hot");
    let plain = text(1, 400_000);
    for number in 0..100 {
        site::write(&folder.path().join(format!("{number}.json")), &plain);
    }
    for arch in ARCHITECTURES {
        let server = start(arch, folder.path(), &["--file-cache-bytes", "16M"]);
        let mut slowest = Duration::ZERO;
        for number in 0..100 {
            let reply = accepting(&server, &format!("/{number}.json"), "br");
            assert_eq!(reply.status, 200, "{arch}");
            let began = Instant::now();
            assert_eq!(server.get("/hot.txt").body, b"hot", "{arch}");
            slowest = slowest.max(began.elapsed());
        }
        assert!(slowest < Duration::from_secs(2), "{arch}: the hot file took {slowest:?}");
        let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        let peak_kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(peak_kib < 160 << 10, "{arch}: {peak}");
        server.stop();
    }
}

/// A folder of programs, each in shell.
fn programs(scripts: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, source) in scripts {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{source}\n")).unwrap();
        set_mode(&path, 0o755);
    }
    folder
}

const TYPE: &str = "printf 'Content-Type: text/html; charset=utf-8\\n";

#[test]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn programs_answers_are_compressed_as_they_come() {
    let site = TempDir::new().unwrap();
    let folder = programs(&[
        ("page", &format!("{TYPE}ETag: \"one\"\\nAccept-Ranges: bytes\\n\\n'; seq 1 60000")),
        ("known", &format!("{TYPE}Content-Length: 8000\\n\\n'; seq 1 1999 | head -c 8000")),
        ("tiny", &format!("{TYPE}Content-Length: 5\\n\\nhello'")),
        ("own", &format!("{TYPE}Content-Encoding: gzip\\n\\n'; echo hello | gzip -c")),
        ("kept", &format!("{TYPE}Cache-Control: private, no-transform\\n\\n'; seq 1 2000")),
        ("events", "printf 'Content-Type: text/event-stream\\n\\n'; seq 1 2000"),
        ("image", "printf 'Content-Type: image/png\\n\\n'; seq 1 2000"),
        ("part", &format!("{TYPE}Status: 206\\nContent-Range: bytes 0-8/9\\n\\n'; echo 12345678")),
        ("none", "printf 'Status: 204\\n\\n'"),
        ("short", &format!("{TYPE}Content-Length: 90000\\n\\n'; seq 1 2000")),
    ]);
    let route = format!("/cgi={}", folder.path().display());
    let numbers =
        |count: usize| (1..=count).map(|number| format!("{number}\n")).collect::<String>().into_bytes();
    for arch in ARCHITECTURES {
        let server = start(arch, site.path(), &["--cgi", &route, "--compress-programs", "br,zstd,gzip"]);
        for coding in CODINGS {
            let reply = accepting(&server, "/cgi/page", coding);
            assert_eq!(reply.field("Content-Encoding"), Some(coding), "{arch}");
            assert_eq!(reply.field("Vary"), Some("Accept-Encoding"), "{arch}");
            assert_eq!(reply.field("ETag"), Some("W/\"one\""), "{arch}");
            assert_eq!(reply.field("Transfer-Encoding"), Some("chunked"), "{arch}");
            assert!(
                reply.field("Accept-Ranges").is_none() && reply.field("Content-Length").is_none(),
                "{arch}"
            );
            assert!(decoded(coding, &reply.body) == numbers(60_000), "{arch} {coding}");
            assert!(reply.body.len() < 200_000, "{arch} {coding}: {}", reply.body.len());
            let reply = accepting(&server, "/cgi/known", coding);
            assert_eq!(decoded(coding, &reply.body), numbers(1_999)[..8_000], "{arch} {coding}");
            assert!(reply.field("Content-Length").is_none(), "{arch}");
            let (head, body) = over_http2(&server, "/cgi/page", coding).expect("all of it");
            let fields = [&format!("content-encoding: {coding}"), "vary: Accept-Encoding", "etag: W/\"one\""];
            for field in fields {
                assert!(head.contains(&format!("\r\n{field}\r\n")), "{arch}: no {field} in {head}");
            }
            assert!(!head.contains("content-length"), "{arch}: {head}");
            assert!(decoded(coding, &body) == numbers(60_000), "{arch} {coding} over HTTP/2");
        }
        assert_eq!(accepting(&server, "/cgi/page", "br, zstd, gzip").field("Content-Encoding"), Some("zstd"));
        let plain = accepting(&server, "/cgi/page", "identity");
        assert!(plain.body == numbers(60_000) && plain.field("Vary") == Some("Accept-Encoding"), "{arch}");
        assert_eq!((plain.field("ETag"), plain.field("Content-Encoding")), (Some("\"one\""), None), "{arch}");
        let head = get(&server, "HEAD", "/cgi/known", "Accept-Encoding: gzip\r\n");
        assert_eq!(head.field("Content-Encoding"), Some("gzip"), "{arch}");
        assert!(head.field("Content-Length").is_none(), "{arch}: it is not known");
        for (path, status, own) in [
            ("tiny", 200, None),
            ("own", 200, Some("gzip")),
            ("kept", 200, None),
            ("events", 200, None),
            ("image", 200, None),
            ("part", 206, None),
            ("none", 204, None),
        ] {
            let reply = accepting(&server, &format!("/cgi/{path}"), "zstd, gzip");
            assert_eq!((reply.status, reply.field("Content-Encoding")), (status, own), "{arch} {path}");
            assert!(reply.field("Vary").is_none(), "{arch} {path}");
        }
        // A program that breaks its promise leaves no response that looks complete.
        let request = "GET /cgi/short HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n";
        let bytes = server.raw(request.as_bytes());
        assert!(!bytes.ends_with(b"\r\n0\r\n\r\n"), "{arch}");
        assert!(over_http2(&server, "/cgi/short", "gzip").is_none(), "{arch}");
        server.stop();
        let server = start(arch, site.path(), &["--cgi", &route]);
        let reply = accepting(&server, "/cgi/page", "gzip");
        assert_eq!((reply.field("Content-Encoding"), reply.field("Vary")), (None, None), "{arch}");
        server.stop();
    }
}

#[test]
fn the_first_bytes_of_a_slow_program_are_not_held_back() {
    let site = TempDir::new().unwrap();
    let pipe = site.path().join("go");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let slow = format!("{TYPE}\\nfirst words\\n'; cat {} > /dev/null; echo last words", pipe.display());
    let folder = programs(&[("slow", &slow)]);
    let route = format!("/cgi={}", folder.path().display());
    for arch in ARCHITECTURES {
        let server = start(arch, site.path(), &["--cgi", &route, "--compress-programs", "br,zstd,gzip"]);
        for coding in CODINGS {
            use std::io::Write;
            let mut stream = server.connect();
            let request = format!(
                "GET /cgi/slow HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccept-Encoding: {coding}\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).unwrap();
            let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
            // The program goes on when its first words have come, and not before.
            loop {
                let count = stream.read(&mut buffer).unwrap();
                assert!(count > 0, "{arch} {coding}: {:?}", String::from_utf8_lossy(&bytes));
                bytes.extend_from_slice(&buffer[..count]);
                // The head of gzip, which comes in any case, has ten bytes.
                if begun(&bytes) > 12 {
                    break;
                }
            }
            fs::write(&pipe, "go").unwrap();
            stream.read_to_end(&mut bytes).unwrap();
            let reply = flash_tests::reply::only(&bytes);
            assert_eq!(decoded(coding, &reply.body), b"first words\nlast words\n", "{arch} {coding}");
        }
        server.stop();
    }
}

/// How much of the body has come in chunks.
fn begun(bytes: &[u8]) -> usize {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return 0 };
    let (mut rest, mut body) = (&bytes[end + 4..], 0);
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        let data = &rest[line + 2..];
        body += size.min(data.len());
        rest = data.get(size + 2..).unwrap_or_default();
    }
    body
}
