//! The modules for nginx and Apache: the same responses as without them, and cold files that hold up no hot one. A daemon that is
//! killed under load gives no wrong byte.

#![forbid(unsafe_code)]

mod faults;
mod nginx;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_rig::{Limits, Machine};
use flash_slowdisk::{SlowDisk, SlowImage};
use flash_tests::asker::Daemon;
use flash_tests::peer::{Kind, ask};
use flash_tests::reply::Reply;
use flash_tests::{PATIENCE, is_superuser, need, open_folder, own_addresses, site, wait_for};
use tempfile::TempDir;

const KINDS: [Kind; 5] = [
    Kind::Nginx("root"),
    Kind::Nginx("www-data"),
    Kind::Apache("event"),
    Kind::Apache("worker"),
    Kind::Apache("prefork"),
];

/// Those that can run here. A line says which cannot.
fn kinds() -> impl Iterator<Item = Kind> {
    KINDS.into_iter().filter(|kind| {
        if !is_superuser(&format!("{kind:?}")) {
            return false;
        }
        if let Some(missing) = kind.missing() {
            eprintln!("NOT TESTED: {kind:?} needs {missing}");
        }
        kind.missing().is_none()
    })
}

fn make_site() -> TempDir {
    let root = open_folder();
    for name in ["sub", "empty-folder", "denied"] {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    for (name, bytes) in
        [("a.txt", 10), ("empty.txt", 0), ("page.html", 5_000), ("middle", 200_000), ("large", 3_000_000)]
    {
        site::write(&root.path().join(name), &site::pattern(bytes));
    }
    site::write(&root.path().join("sub/index.html"), b"index");
    site::write(&root.path().join("denied/a.txt"), b"denied");
    site::write(&root.path().join("404.html"), b"nothing here");
    root
}

fn daemon(root: &TempDir, beside: &TempDir, flags: &[&str]) -> Daemon {
    let flags = [&["--allow-user", "www-data", "--sandbox", "required"], flags].concat();
    Daemon::start(&[root.path()], beside.path(), &flags)
}

/// A response without what differs from one to the next.
fn settled(reply: Option<Reply>, port: SocketAddr) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let Reply { status, fields, body } = reply.expect("a whole response");
    let port = format!(":{}", port.port());
    let fields = fields.into_iter().filter(|(name, _)| name != "Date");
    let fields = fields.map(|(name, value)| (name, value.replace(&port, ""))).collect();
    let body = match String::from_utf8(body) {
        Ok(text) => text.replace(&format!("Port {}", &port[1..]), "").into_bytes(),
        Err(bytes) => bytes.into_bytes(),
    };
    (status, fields, body)
}

const REQUESTS: [(&str, &str, &str); 26] = [
    ("GET", "/a.txt", ""),
    ("HEAD", "/a.txt", ""),
    ("GET", "/empty.txt", ""),
    ("HEAD", "/empty.txt", ""),
    ("GET", "/page.html", ""),
    ("GET", "/middle", ""),
    ("GET", "/large", ""),
    ("HEAD", "/large", ""),
    ("GET", "/large?query", ""),
    ("GET", "/none", ""),
    ("GET", "/a.txt/", ""),
    ("GET", "/empty-folder/", ""),
    ("GET", "/a%2etxt", ""),
    ("GET", "/sub/../a.txt", ""),
    ("GET", "/large", "Range: bytes=0-0\r\n"),
    ("GET", "/large", "Range: bytes=100-70000\r\n"),
    ("GET", "/large", "Range: bytes=1000000-\r\n"),
    ("GET", "/large", "Range: bytes=2999999-4000000\r\n"),
    ("GET", "/large", "Range: bytes=-70000\r\n"),
    ("GET", "/large", "Range: bytes=3000000-\r\n"),
    ("HEAD", "/large", "Range: bytes=5-9\r\n"),
    ("GET", "/a.txt", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n"),
    ("GET", "/a.txt", "If-Unmodified-Since: Fri, 01 Jan 1990 00:00:00 GMT\r\n"),
    ("GET", "/a.txt", "If-None-Match: *\r\n"),
    ("GET", "/large", "Range: bytes=5-9\r\nIf-Range: \"other\"\r\n"),
    ("DELETE", "/a.txt", ""),
];

/// The same responses with the module as without it.
fn check_alike(kind: Kind, with: SocketAddr, without: SocketAddr) {
    for (method, path, fields) in REQUESTS {
        let [ours, theirs] = [with, without].map(|server| settled(ask(server, method, path, fields), server));
        assert_eq!((ours.0, &ours.1), (theirs.0, &theirs.1), "{kind:?} {method} {path} {fields}");
        assert!(ours.2 == theirs.2, "{kind:?} {method} {path} {fields}: other bytes");
    }
    let index = ask(with, "GET", "/sub/", "").unwrap();
    assert_eq!((index.status, &index.body[..]), (200, &b"index"[..]), "{kind:?}");
    let redirect = ask(with, "GET", "/sub?x=1", "").unwrap();
    assert_eq!(redirect.status, 301, "{kind:?}");
    assert!(redirect.field("Location").is_some_and(|place| place.ends_with("/sub/?x=1")), "{redirect:?}");
}

#[test]
fn responses_are_the_same_as_without_the_module() {
    let (root, beside) = (make_site(), open_folder());
    for kind in kinds() {
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "");
        check_alike(kind, peer.with, peer.without);
        if matches!(kind, Kind::Nginx(_)) {
            assert!(
                peer.access_log().contains("\"GET /large HTTP/1.1\" 200 3000000"),
                "{}",
                peer.access_log()
            );
        } else {
            assert_eq!(peer.get("/denied/a.txt").status, 403, "sections of the configuration hold");
        }
    }
}

#[test]
fn a_link_out_of_the_root_is_forbidden() {
    let (root, beside) = (make_site(), open_folder());
    site::write(&beside.path().join("secret"), b"secret");
    symlink(beside.path().join("secret"), root.path().join("out")).unwrap();
    symlink("a.txt", root.path().join("inside")).unwrap();
    for kind in kinds() {
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "");
        assert_eq!(peer.get("/out").status, 403, "{kind:?}");
        assert_eq!(peer.get("/inside").status, 200, "{kind:?}");
    }
}

#[test]
fn nginx_sends_compressed_copies_to_those_who_accept_them() {
    let (root, beside) = (make_site(), open_folder());
    site::write(&root.path().join("page.html.gz"), b"gzipped");
    for kind in kinds().filter(|kind| matches!(kind, Kind::Nginx(_))) {
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "flash_precompressed on;");
        let coded = ask(peer.with, "GET", "/page.html", "Accept-Encoding: br;q=0, gzip\r\n").unwrap();
        assert_eq!((coded.field("Content-Encoding"), &coded.body[..]), (Some("gzip"), &b"gzipped"[..]));
        assert_eq!(coded.field("Content-Type"), Some("text/html"));
        let plain = ask(peer.with, "GET", "/page.html", "Accept-Encoding: gzip;q=0\r\n").unwrap();
        assert_eq!((plain.field("Content-Encoding"), plain.body.len()), (None, 5_000));
    }
}

#[test]
fn an_asker_tries_what_it_has_seen_lately_enough() {
    let (beside, sources) = (open_folder(), concat!(env!("CARGO_MANIFEST_DIR"), "/../modules"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/modules/asker.c");
    let program = beside.path().join("asker");
    let mut compiler = Command::new(need("cc", "gcc"));
    compiler
        .args(["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", sources, source, "-o"])
        .arg(&program);
    assert!(compiler.status().unwrap().success());
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A site on an ext4 whose disk answers each read after a while, with a hot file that is in memory.
fn slow_site(rules: &str) -> Option<(SlowImage, TempDir)> {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return None;
    }
    let (behind, root) = (make_site(), open_folder());
    for folder in 0..20 {
        fs::create_dir(behind.path().join(folder.to_string())).unwrap();
        site::write(&behind.path().join(format!("{folder}/cold")), &site::pattern(600_000 + folder));
    }
    let image = SlowImage::mount(behind.path(), root.path(), 64, rules).unwrap();
    Some((image, root))
}

fn cold(n: usize) -> String {
    format!("/{n}/cold")
}

#[test]
fn slashes_in_a_row_are_one_in_cold_paths_too() {
    for kind in kinds() {
        let Some((_image, root)) = slow_site("") else { return };
        let beside = open_folder();
        let daemon = daemon(&root, &beside, &[]);
        let folder = root.path().display();
        let words = match kind {
            Kind::Nginx(_) => format!("location /other {{ alias {folder}/; }}"),
            Kind::Apache(_) => format!("Alias /other {folder}/"),
        };
        let peer = kind.start(root.path(), &daemon.socket, &words);
        for when in ["cold", "hot"] {
            let reply = peer.get(&format!("/other{}", cold(2)));
            assert_eq!(reply.status, 200, "{kind:?}, {when}: {}", peer.said());
        }
    }
}

#[test]
fn cold_files_come_whole_and_hold_up_no_hot_one() {
    for kind in kinds() {
        let Some((image, root)) = slow_site("") else { return };
        let beside = open_folder();
        let daemon = daemon(&root, &beside, &[]);
        // Of a quarter of the workers no one waits for the disk.
        let words = if matches!(kind, Kind::Nginx(_)) { "" } else { "FlashDeadline 10" };
        let peer = kind.start(root.path(), &daemon.socket, words);
        for _ in 0..3 {
            assert_eq!(peer.get("/a.txt").status, 200);
        }
        image.disk().rule("read delay fixed:400ms").unwrap();
        let most = thread::scope(|scope| {
            let waiting: Vec<_> = (0..16)
                .map(|n| {
                    let peer = &peer;
                    scope.spawn(move || {
                        let reply = peer.get(&cold(n));
                        assert_eq!(reply.status, 200, "{kind:?}: {}", peer.said());
                        assert!(reply.body == site::pattern(600_000 + n), "{kind:?}: other bytes");
                    })
                })
                .collect();
            thread::sleep(Duration::from_millis(100));
            let mut hot = Vec::new();
            while !waiting.iter().all(|thread| thread.is_finished()) {
                let asked = Instant::now();
                assert_eq!(peer.get("/a.txt").body.len(), 10);
                hot.push(asked.elapsed());
            }
            hot.sort_unstable();
            hot[hot.len() * 9 / 10]
        });
        // A busy machine may hold one up. A worker that waits for the disk holds up nearly all.
        assert!(most < Duration::from_millis(300), "{kind:?}: one hot file of ten took {most:?}");
    }
}

/// The kernel keeps pages that are used twice, and would evict hot files for those that are requested once.
#[test]
fn a_page_of_a_cold_file_is_used_once() {
    const FILES: usize = 16;
    const BYTES: usize = 500_000;
    let journal = TempDir::new().unwrap();
    let machine = Machine::take_with(journal.path()).unwrap();
    let limits = Limits { memory_bytes: Some(256 << 20), ..Limits::default() };
    if let Err(why) = machine.group(&limits, None) {
        return eprintln!("NOT TESTED, pages cannot be counted: {why:#}");
    }
    for kind in kinds() {
        let (root, beside) = (open_folder(), open_folder());
        for number in 0..FILES {
            let path = root.path().join(number.to_string());
            site::write(&path, &site::pattern(BYTES));
            site::make_cold(&path);
        }
        // Pages count for the group of who brings them into memory.
        let group = machine.group(&limits, None).unwrap();
        let flags = ["--allow-user", "www-data"];
        let daemon = Daemon::start_under(&group.wrapper(), &[root.path()], beside.path(), &flags);
        let peer = kind.start(root.path(), &daemon.socket, "");
        for number in 0..FILES {
            let reply = ask(peer.with, "GET", &format!("/{number}"), "").expect("a response");
            assert_eq!((reply.status, reply.body.len()), (200, BYTES), "{kind:?}: {}", peer.said());
        }
        let memory = group.memory().unwrap();
        // The kernel reads ahead for whoever reaches the end of what was read, so some pages may count for the peer.
        let all = (FILES * BYTES) as u64;
        assert!(memory.cached_bytes > all / 20, "{kind:?}: they were in memory before: {memory:?}");
        assert!(memory.active_bytes < memory.cached_bytes / 4, "{kind:?}: {memory:?} for {all} bytes");
    }
}

#[test]
fn a_hung_disk_costs_cold_requests_one_deadline_and_hot_ones_nothing() {
    for kind in kinds() {
        let Some((image, root)) = slow_site("") else { return };
        let beside = open_folder();
        let daemon = daemon(&root, &beside, &["--disk-deadline", "6s"]);
        let words = if matches!(kind, Kind::Nginx(_)) { "flash_deadline 6s;" } else { "FlashDeadline 6" };
        let peer = kind.start(root.path(), &daemon.socket, words);
        assert_eq!(peer.get("/a.txt").status, 200);
        image.disk().rule("hang").unwrap();
        let asked = Instant::now();
        let (hot, colds) = thread::scope(|scope| {
            let ask_cold = |n| {
                let peer = &peer;
                scope.spawn(move || (peer.get(&cold(n)).status, asked.elapsed()))
            };
            let waiting: Vec<_> = (0..5).map(ask_cold).collect();
            let ask_hot = |_| (peer.get("/a.txt").status, asked.elapsed());
            let hot: Vec<(u16, Duration)> = (0..20).map(ask_hot).collect();
            (hot, waiting.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>())
        });
        // Before anything can fail: what hangs could not be ended.
        image.disk().clear();
        let first = colds.iter().map(|(_, at)| *at).min().expect("five were asked");
        assert!(hot.iter().all(|(status, at)| *status == 200 && *at < first), "{kind:?}: {hot:?}, {colds:?}");
        // One deadline, and not one after the other.
        let right = |(status, at): &(u16, Duration)| *status == 503 && *at < Duration::from_secs(2 * 6);
        assert!(colds.iter().all(right), "{kind:?}: {colds:?}");
        let give_up = Instant::now() + PATIENCE;
        // A response whose head was sent before the disk failed again is cut.
        while ask(peer.with, "GET", &cold(7), "").is_none_or(|reply| reply.status != 200) {
            assert!(Instant::now() < give_up, "{kind:?} never recovers: {}", peer.said());
            thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn files_of_a_remote_mount_come_whole() {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return;
    }
    let (behind, root, beside) = (make_site(), open_folder(), open_folder());
    site::write(&behind.path().join("huge"), &site::pattern(6 << 20));
    let _disk = SlowDisk::mount(behind.path(), root.path(), "read delay fixed:1ms").unwrap();
    for kind in kinds() {
        let daemon = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &daemon.socket, "");
        for (name, bytes) in [("a.txt", 10), ("middle", 200_000), ("large", 3_000_000), ("huge", 6 << 20)] {
            let reply = peer.get(&format!("/{name}"));
            assert_eq!(reply.status, 200, "{kind:?} {name}: {}", peer.said());
            assert!(reply.body == site::pattern(bytes), "{kind:?} {name}: other bytes");
            let last = ask(peer.with, "GET", &format!("/{name}"), "Range: bytes=-5\r\n").unwrap();
            assert_eq!((last.status, &last.body[..]), (206, &site::pattern(bytes)[bytes - 5..]), "{kind:?}");
        }
        assert_eq!(peer.get("/none").status, 404, "{kind:?}");
    }
}

#[test]
fn a_daemon_that_is_killed_under_load_gives_no_wrong_byte() {
    let both = |kind| match kind {
        Kind::Nginx("root") | Kind::Apache("event") => vec![(kind, false), (kind, true)],
        _ => vec![(kind, false)],
    };
    for (kind, fallback) in kinds().flat_map(both) {
        let Some((image, root)) = slow_site("read delay fixed:3ms") else { return };
        let beside = open_folder();
        let words = match (kind, fallback) {
            (_, false) => "",
            (Kind::Nginx(_), true) => "flash_fallback block;",
            (Kind::Apache(_), true) => "FlashFallback block",
        };
        let first = daemon(&root, &beside, &[]);
        let peer = kind.start(root.path(), &first.socket, words);
        let (ends, whole, refused, cut) =
            (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for client in 0..6 {
                let (peer, ends, whole, refused, cut) = (&peer, &ends, &whole, &refused, &cut);
                scope.spawn(move || {
                    for n in (0..20).cycle().skip(client * 3) {
                        if ends.load(Ordering::Relaxed) {
                            return;
                        }
                        match ask(peer.with, "GET", &cold(n), "") {
                            Some(Reply { status: 200, body, .. }) => {
                                assert!(body == site::pattern(600_000 + n), "{kind:?}: a wrong byte");
                                whole.fetch_add(1, Ordering::Relaxed);
                            }
                            Some(Reply { status: 503, .. }) => _ = refused.fetch_add(1, Ordering::Relaxed),
                            // Its head was sent before. The client sees that it is cut.
                            None => _ = cut.fetch_add(1, Ordering::Relaxed),
                            Some(other) => panic!("{kind:?}: {}: {}", other.status, peer.said()),
                        }
                    }
                });
            }
            let mut running = first;
            let more = || {
                let before = whole.load(Ordering::Relaxed);
                wait_for("a whole response", || whole.load(Ordering::Relaxed) > before);
            };
            for _ in 0..2 {
                more();
                running.kill();
                thread::sleep(Duration::from_millis(100));
                // Nothing that was read stays in memory.
                (0..20).for_each(|n| flash_rig::drop_pages(&root.path().join(n.to_string())).unwrap());
                running = daemon(&root, &beside, &[]);
            }
            more();
            ends.store(true, Ordering::Relaxed);
        });
        drop(image);
        if fallback {
            assert_eq!(refused.into_inner(), 0, "{kind:?}: {}", peer.said());
        }
    }
}

#[test]
fn apache_refuses_htaccess_files_at_its_start() {
    for kind in kinds().filter(|kind| *kind == Kind::Apache("event")) {
        let (root, work) = (make_site(), open_folder());
        let text =
            kind.configuration(work.path(), root.path(), &work.path().join("h.sock"), "", own_addresses());
        let file = work.path().join("server.conf");
        fs::write(&file, text.replace("AllowOverride None", "AllowOverride All")).unwrap();
        let mut command = Command::new("apache2");
        let output = command.arg("-f").arg(&file).arg("-DFOREGROUND").process_group(0).output().unwrap();
        let said = [output.stderr, fs::read(work.path().join("error.log")).unwrap()].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!output.status.success() && said.contains("write AllowOverride None there"), "{said}");
    }
}
