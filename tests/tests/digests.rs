//! Digests of files: as coreutils check them, of what is sent and of nothing else, made once, and known to the next server.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use flash_os::residency::Residency;
use flash_slowdisk::SlowDisk;
use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, Server, admin, need, site, wait_for};
use tempfile::TempDir;

const WANTED: &str = "Want-Repr-Digest: sha-256=5\r\n";
/// In the heap, in a snapshot, and on the disk.
const FILES: [(&str, usize); 4] =
    [("a b.txt", 1000), ("d/empty", 0), ("middle.bin", 300_000), ("x.iso", 6_000_000)];

/// One process, so that two requests find the same cache.
fn start(arch: &str, folder: &Path, flags: &[&str]) -> Server {
    let one_process: &[&str] = if arch == "mp" { &["--processes", "1", "--processes-max", "1"] } else { &[] };
    Server::start(arch, folder, &[&["--digests", "--revalidate", "100ms"], one_process, flags].concat())
}

fn tree() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("d")).unwrap();
    FILES.iter().for_each(|(name, size)| site::write(&folder.path().join(name), &site::pattern(*size)));
    folder
}

fn get(server: &Server, path: &str, fields: &str) -> Reply {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    reply::only(&server.raw(request.as_bytes()))
}

/// The text of a digest, as soon as there is one.
fn checksum(server: &Server, name: &str) -> Vec<u8> {
    let mut text = Vec::new();
    wait_for("a digest", || {
        let reply = get(server, &format!("/{}.sha256", name.replace(' ', "%20")), "");
        match reply.status {
            200 => text = reply.body,
            503 => assert!(reply.field("Retry-After").is_some()),
            other => panic!("{other} for {name}"),
        }
        !text.is_empty()
    });
    text
}

/// The value of Repr-Digest, by another program.
fn digest_of(bytes: &[u8]) -> String {
    let mut openssl = Command::new(need("openssl", "openssl"))
        .args(["dgst", "-sha256", "-binary"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("openssl runs");
    openssl.stdin.take().unwrap().write_all(bytes).unwrap();
    let digest = openssl.wait_with_output().unwrap().stdout;
    let mut encoder = Command::new("base64").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    encoder.stdin.take().unwrap().write_all(&digest).unwrap();
    let text = String::from_utf8(encoder.wait_with_output().unwrap().stdout).unwrap();
    format!("sha-256=:{}:", text.trim())
}

/// What the reply says of its digest, as soon as it does.
fn repr_digest(server: &Server, path: &str, fields: &str) -> (Reply, String) {
    let mut found = None;
    wait_for("a digest", || {
        let reply = get(server, path, &format!("{WANTED}{fields}"));
        let digest = reply.field("Repr-Digest").map(str::to_owned);
        found = digest.map(|digest| (reply, digest));
        found.is_some()
    });
    found.expect("it was waited for")
}

/// How many files were read for their digests.
fn digested(socket: &Path) -> u64 {
    let (_, metrics) = admin::ask(socket, "GET", "/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix("flash_files_digested_total "));
    line.expect("there is the counter").trim().parse().expect("a number")
}

#[test]
fn coreutils_find_the_files_right_and_responses_say_the_same() {
    for arch in ARCHITECTURES {
        let folder = tree();
        let server = start(arch, folder.path(), &[]);
        for (name, _) in FILES {
            let mut check = Command::new("sha256sum")
                .args(["-c", "--strict", "-"])
                .current_dir(folder.path().join(name).parent().unwrap())
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .expect("sha256sum runs");
            check.stdin.take().unwrap().write_all(&checksum(&server, name)).unwrap();
            assert!(check.wait().unwrap().success(), "{arch} {name}");
        }
        let whole = digest_of(&fs::read(folder.path().join("x.iso")).unwrap());
        for (fields, status) in
            [("", 200), ("Range: bytes=7-9\r\n", 206), ("Range: bytes=0-1,5000000-\r\n", 206)]
        {
            let (reply, digest) = repr_digest(&server, "/x.iso", fields);
            assert_eq!((reply.status, &digest), (status, &whole), "{arch} {fields}");
        }
        let output = Command::new(need("curl", "curl"))
            .args(["-sS", "--head", "--http2-prior-knowledge", "-H", WANTED.trim()])
            .arg(format!("http://{}/x.iso", server.address))
            .output()
            .unwrap();
        assert!(
            String::from_utf8(output.stdout).unwrap().contains(&format!("repr-digest: {whole}")),
            "{arch}"
        );
    }
}

#[test]
fn what_is_compressed_has_the_digest_of_its_own_bytes() {
    for arch in ["amped", "mt"] {
        let folder = TempDir::new().unwrap();
        site::write(&folder.path().join("made.css"), "a { color: red }\n".repeat(500).as_bytes());
        for name in ["there.css", "there.css.gz"] {
            site::write(&folder.path().join(name), name.repeat(100).as_bytes());
        }
        let server = start(arch, folder.path(), &[]);
        for path in ["/made.css", "/there.css"] {
            wait_for("a copy in the coding", || {
                get(&server, path, "Accept-Encoding: gzip\r\n").field("Content-Encoding").is_some()
            });
            let (coded, digest) = repr_digest(&server, path, "Accept-Encoding: gzip\r\n");
            assert_eq!(coded.field("Content-Encoding"), Some("gzip"), "{arch} {path}");
            assert_eq!(digest, digest_of(&coded.body), "{arch} {path}");
            let (plain, digest) = repr_digest(&server, path, "");
            assert_eq!(digest, digest_of(&plain.body), "{arch} {path}");
        }
    }
}

/// The new content has the size and the time of the old one.
#[test]
fn a_changed_file_never_has_its_old_digest() {
    for arch in ["amped", "amped --helpers process", "mt"] {
        let folder = tree();
        let server = start(arch, folder.path(), &[]);
        for name in ["a b.txt", "middle.bin", "x.iso"] {
            let before = checksum(&server, name);
            let path = folder.path().join(name);
            let mut content = fs::read(&path).unwrap();
            content.reverse();
            fs::write(&path, &content).unwrap();
            let then = SystemTime::UNIX_EPOCH + Duration::new(784_111_777, 123_456_789);
            File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
            // As old as an answer may be.
            thread::sleep(Duration::from_millis(300));
            let after = checksum(&server, name);
            assert_ne!(after, before, "{arch} {name}");
            let (reply, digest) = repr_digest(&server, &format!("/{}", name.replace(' ', "%20")), "");
            assert_eq!((digest, reply.body), (digest_of(&content), content), "{arch} {name}");
        }
    }
}

#[test]
fn a_file_that_is_being_written_has_none() {
    let folder = tree();
    let server = start("amped", folder.path(), &[]);
    let mut log = File::options().append(true).open(folder.path().join("x.iso")).unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        log.write_all(b"another line\n").unwrap();
        assert_eq!(get(&server, "/x.iso.sha256", "").status, 503);
        assert_eq!(
            get(&server, "/x.iso", &format!("{WANTED}Range: bytes=0-0\r\n")).field("Repr-Digest"),
            None
        );
    }
}

/// Files that were not changed just now: those of these tests.
#[test]
fn digests_outlive_a_server_and_a_version_is_read_once() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for arch in ["amped", "amped --helpers process", "mp"] {
        let beside = TempDir::new().unwrap();
        let (socket, store) = (beside.path().join("admin"), beside.path().join("digests"));
        let admin = format!("unix:{}", socket.display());
        let flags = ["--admin", &admin, "--digest-store", store.to_str().unwrap()];
        let mut texts = Vec::new();
        for reads in [1, 0] {
            let server = start(arch, &sources, &flags);
            texts.push(checksum(&server, "lib.rs"));
            assert_eq!(checksum(&server, "lib.rs"), texts[0]);
            wait_for("the counter", || digested(&socket) == reads);
            server.stop();
        }
        assert_eq!(texts[0], texts[1], "{arch}");
        fs::write(&store, vec![7; 1 << 20]).unwrap();
        let server = start(arch, &sources, &flags);
        assert_eq!((checksum(&server, "lib.rs"), digested(&socket)), (texts.remove(0), 1), "{arch}");
    }
}

#[test]
fn a_store_that_cannot_be_had_is_a_warning() {
    let folder = tree();
    let server = start("amped", folder.path(), &["--digest-store", "/nonexistent/digests"]);
    assert!(!checksum(&server, "x.iso").is_empty());
    assert!(server.said().contains("cannot keep digests"), "{}", server.said());
}

#[test]
fn nothing_waits_for_another_machine() {
    if let Some(missing) = flash_slowdisk::missing() {
        return eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
    }
    let (folder, behind) = (tree(), tree());
    let far = folder.path().join("far");
    fs::create_dir(&far).unwrap();
    let _disk = SlowDisk::mount(behind.path(), &far, "").unwrap();
    // The one file there that can be written.
    let store = far.join(flash_slowdisk::CONTROL);
    for arch in ["amped", "mt"] {
        let server = start(arch, folder.path(), &["--digest-store", store.to_str().unwrap()]);
        wait_for("a warning", || server.said().contains("(digest-store): it is on no local disk"));
        for name in ["d/empty", "middle.bin", "x.iso"] {
            assert!(!checksum(&server, name).is_empty());
            assert_eq!(get(&server, &format!("/far/{name}"), WANTED).field("Repr-Digest"), None);
            assert_eq!(get(&server, &format!("/far/{name}.sha256"), "").status, 404, "{arch} {name}");
        }
    }
}

#[test]
fn digests_need_no_path_cache() {
    for arch in ["amped", "mt"] {
        let folder = tree();
        let server = start(arch, folder.path(), &["--path-cache", "0"]);
        for (name, _) in FILES {
            assert!(!checksum(&server, name).is_empty(), "{arch} {name}");
        }
    }
}

/// What reads the file leaves the page cache as it was.
#[test]
fn a_file_is_not_brought_into_memory_for_its_digest() {
    let folder = tree();
    let path = folder.path().join("x.iso");
    File::open(&path).unwrap().sync_all().unwrap();
    let server = start("amped", folder.path(), &[]);
    site::make_cold(&path);
    checksum(&server, "x.iso");
    let (file, bytes) = (File::open(&path).unwrap(), 6_000_000);
    let pages = Residency::new(&file, bytes).unwrap();
    let held = (0..bytes).step_by(4096).filter(|at| pages.resident_bytes(*at..at + 1) > 0).count() as u64;
    // A look at a file warms its beginning, and what follows.
    assert!(held * 4096 <= 2 << 20, "{held} pages of {}", bytes / 4096);
}
