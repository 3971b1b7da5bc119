//! Entity tags where a file's time says nothing: they follow the content, and are the same on each copy of a tree.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, Server, each, need, wait_for};
use tempfile::TempDir;

/// Longer than any answer may be old.
const PAUSE: Duration = Duration::from_millis(400);
/// Kept in the heap and in a snapshot.
const SMALL: [(&str, usize); 3] = [("a.txt", 1000), ("d/index.html", 20), ("middle.bin", 300_000)];
/// Sent from the disk.
const LARGE: (&str, usize) = ("large.bin", 6_000_000);

/// A store of Nix, a buildpack, and an archive with the time of a commit.
const TREES: [(&str, u64); 3] = [("nix", 1), ("1980", 315_532_801), ("commit", 1_718_431_200)];
const EARLY: &str = "Thu, 01 Jan 1970 00:00:01 GMT";
const LATE: &str = "Fri, 01 Jan 2038 00:00:00 GMT";

fn put(path: &Path, content: &[u8], time: Duration) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + time).unwrap();
}

/// All files with this letter.
fn fill(folder: &Path, letter: u8, seconds: u64) {
    for (name, size) in SMALL.into_iter().chain([LARGE]) {
        put(&folder.join(name), &vec![letter; size], Duration::from_secs(seconds));
    }
}

fn tree(seconds: u64) -> TempDir {
    let folder = TempDir::new().unwrap();
    fill(folder.path(), b'1', seconds);
    folder
}

/// One process, and one loop, so that two requests find the same cache.
fn start(arch: &str, folder: &Path, flags: &[&str]) -> Server {
    let one: &[&str] = match arch {
        "mp" => &["--processes", "1", "--processes-max", "1"],
        "mt" | "pipelined" => &[],
        _ => &["--loops", "1"],
    };
    Server::start(arch, folder, &[&["--revalidate", "100ms"], one, flags].concat())
}

fn ask(server: &Server, name: &str, fields: &[(&str, &str)]) -> Reply {
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("GET /{name} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    reply::only(&server.raw(request.as_bytes()))
}

/// The tag of a file whose time is not sent, as soon as there is one.
#[track_caller]
fn tag(server: &Server, name: &str) -> String {
    let mut tag = None;
    wait_for("a tag", || {
        let reply = ask(server, name, &[]);
        assert_eq!((reply.status, reply.field("Last-Modified")), (200, None), "{name}");
        tag = reply.field("ETag").map(str::to_owned);
        tag.is_some()
    });
    tag.expect("it was waited for")
}

/// Whatever the client has, it gets the whole file.
#[track_caller]
fn sends_whole(server: &Server, name: &str, letter: u8, fields: &[(&str, &str)]) {
    let reply = ask(server, name, fields);
    assert_eq!((reply.status, reply.field("Last-Modified")), (200, None), "{name} {fields:?}");
    assert!(reply.body.iter().all(|byte| *byte == letter), "{name} {fields:?}");
}

#[test]
fn a_file_that_changes_and_keeps_time_and_size_gets_another_tag() {
    each(|arch| {
        for (kind, seconds) in TREES {
            let folder = tree(seconds);
            let server = start(arch, folder.path(), &[]);
            let before = SMALL.map(|(name, _)| {
                let first = ask(&server, name, &[]);
                assert_eq!((first.status, first.field("Last-Modified")), (200, None), "{arch} {kind} {name}");
                assert!(first.field("ETag").is_some() || name == "middle.bin", "{arch} {kind} {name}");
                let tag = &*tag(&server, name);
                let known = ask(&server, name, &[("If-None-Match", tag)]);
                assert_eq!((known.status, known.field("ETag")), (304, Some(tag)), "{arch} {kind} {name}");
                assert_eq!(known.field("Last-Modified"), None, "{arch} {kind} {name}");
                let part = ask(&server, name, &[("Range", "bytes=1-2"), ("If-Range", tag)]);
                assert_eq!((part.status, &*part.body), (206, &b"11"[..]), "{arch} {kind} {name}");
                assert_eq!((part.field("ETag"), part.field("Last-Modified")), (Some(tag), None));
                tag.to_owned()
            });
            fill(folder.path(), b'2', seconds);
            thread::sleep(PAUSE);
            for ((name, _), before) in SMALL.iter().zip(&before) {
                let [tag_field, range] = [("If-None-Match", before.as_str()), ("Range", "bytes=1-2")];
                sends_whole(&server, name, b'2', &[tag_field]);
                sends_whole(&server, name, b'2', &[range, ("If-Range", before)]);
                for date in [EARLY, LATE] {
                    sends_whole(&server, name, b'2', &[("If-Modified-Since", date)]);
                    sends_whole(&server, name, b'2', &[("If-Unmodified-Since", date)]);
                    sends_whole(&server, name, b'2', &[range, ("If-Range", date)]);
                }
                let after = tag(&server, name);
                assert_ne!(&after, before, "{arch} {kind} {name}");
                assert_eq!(ask(&server, name, &[("If-None-Match", &after)]).status, 304, "{arch} {kind}");
            }
            server.stop();
        }
    });
}

#[test]
fn a_large_file_has_no_validator_until_it_was_read_once() {
    let (name, size) = LARGE;
    each(|arch| {
        for (kind, seconds) in TREES {
            let folder = tree(seconds);
            let server = start(arch, folder.path(), &[]);
            let first = ask(&server, name, &[("If-Modified-Since", LATE)]);
            assert_eq!((first.status, first.body.len()), (200, size), "{arch} {kind}");
            assert_eq!((first.field("ETag"), first.field("Last-Modified")), (None, None), "{arch} {kind}");
            let before = tag(&server, name);
            let range = ("Range", "bytes=5999998-");
            assert_eq!(ask(&server, name, &[("If-None-Match", &before)]).status, 304, "{arch} {kind}");
            let part = ask(&server, name, &[range, ("If-Range", &before)]);
            assert_eq!((part.status, &*part.body), (206, &b"11"[..]), "{arch} {kind}");
            // Not even between two looks at the disk is the new content sent under the old tag.
            fill(folder.path(), b'2', seconds);
            let request =
                format!("GET /{name} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nIf-Range: {before}\r\n");
            let bytes = server.raw(format!("{request}Range: bytes=5999998-\r\n\r\n").as_bytes());
            assert!(!bytes.ends_with(b"22") || bytes.len() > size, "{arch} {kind}");
            thread::sleep(PAUSE);
            sends_whole(&server, name, b'2', &[("If-None-Match", &before)]);
            sends_whole(&server, name, b'2', &[range, ("If-Range", &before)]);
            let after = tag(&server, name);
            assert_ne!(after, before, "{arch} {kind}");
            assert_eq!(ask(&server, name, &[range, ("If-Range", &after)]).body, b"22", "{arch} {kind}");
            server.stop();
        }
    });
}

#[test]
fn two_copies_of_a_tree_have_the_same_tags() {
    let text: String = (0..500).map(|number| format!("line {number}\n")).collect();
    for (kind, seconds) in TREES {
        let folders = [tree(seconds), tree(seconds)];
        let tags = folders.each_ref().map(|folder| {
            put(&folder.path().join("text.css"), text.as_bytes(), Duration::from_secs(seconds));
            let server = start("amped", folder.path(), &[]);
            let mut tags: Vec<String> =
                SMALL.iter().chain([&LARGE]).map(|(name, _)| tag(&server, name)).collect();
            let mut coded = None;
            wait_for("a compressed file", || {
                let reply = ask(&server, "text.css", &[("Accept-Encoding", "gzip")]);
                coded = reply.field("Content-Encoding").and(reply.field("ETag")).map(str::to_owned);
                coded.is_some()
            });
            tags.extend(coded);
            tags.push(tag(&server, "text.css"));
            server.stop();
            tags
        });
        assert_eq!(tags[0], tags[1], "{kind}");
        let mut all = tags[0].clone();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), SMALL.len() + 3, "{kind}: each representation has its own");
    }
}

#[test]
fn a_time_that_says_something_is_sent_and_a_site_may_want_digests_or_no_tags() {
    let time = Duration::new(1_718_431_200, 5);
    for arch in ARCHITECTURES {
        for (etag, tag_bytes, unchanged) in [("time", 20, 304), ("digest", 34, 304), ("off", 0, 200)] {
            let folder = TempDir::new().unwrap();
            for name in ["a.txt", "b.txt"] {
                put(&folder.path().join(name), b"text", time);
            }
            let server = start(arch, folder.path(), &["--etag", etag]);
            let first = ask(&server, "a.txt", &[]);
            let tag = first.field("ETag").unwrap_or_default().to_owned();
            let date = first.field("Last-Modified").expect("the time of the file").to_owned();
            assert_eq!(tag.len(), tag_bytes, "{arch} {etag} {tag}");
            let status = |fields: &[(&str, &str)]| ask(&server, "a.txt", fields).status;
            let of_tag = if tag.is_empty() { "\"any\"" } else { &tag };
            assert_eq!(status(&[("If-None-Match", of_tag)]), unchanged, "{arch} {etag}");
            assert_eq!(status(&[("If-Modified-Since", &date)]), 304, "{arch} {etag}");
            let range = ("Range", "bytes=1-2");
            let part = if tag.is_empty() { 200 } else { 206 };
            assert_eq!(status(&[range, ("If-Range", of_tag)]), part, "{arch} {etag}");
            assert_eq!(status(&[range, ("If-Range", &date)]), 206, "{arch} {etag}");
            // A file that is only touched keeps its digest.
            put(&folder.path().join("a.txt"), b"text", time + Duration::from_secs(1));
            thread::sleep(PAUSE);
            let touched = if etag == "digest" { 304 } else { 200 };
            assert_eq!(status(&[("If-None-Match", of_tag)]), touched, "{arch} {etag}");
            server.stop();
        }
    }
}

#[test]
fn a_client_of_http2_gets_no_time_that_says_nothing() {
    let folder = tree(1);
    for arch in ["amped", "mt"] {
        let server = start(arch, folder.path(), &[]);
        let tag = tag(&server, "a.txt");
        let head = |fields: &[&str]| {
            let output = Command::new(need("curl", "curl"))
                .args(["-sS", "-i", "--max-time", "20", "--http2-prior-knowledge"])
                .args(fields.iter().flat_map(|field| ["-H", field]))
                .arg(format!("http://{}/a.txt", server.address))
                .output()
                .expect("curl runs");
            String::from_utf8_lossy(&output.stdout).to_lowercase()
        };
        let unless = format!("If-None-Match: {tag}");
        for (status, head) in
            [("200", head(&[])), ("304", head(&[&unless])), ("206", head(&["Range: bytes=1-2"]))]
        {
            assert!(head.starts_with(&format!("http/2 {status}")), "{arch}: {head}");
            assert!(
                head.contains(&format!("etag: {tag}")) && !head.contains("last-modified"),
                "{arch}: {head}"
            );
        }
        server.stop();
    }
}
