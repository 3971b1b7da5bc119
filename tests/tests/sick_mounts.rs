//! Mounts that hang below the root: what becomes of their own requests, and that nothing becomes of others.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::SlowDisk;
use flash_tests::{PATIENCE, Server, admin, site, wait_for};
use tempfile::TempDir;

/// A site with two network mounts, `a` and `b`, and a file of its own.
struct Site {
    a: SlowDisk,
    b: SlowDisk,
    root: TempDir,
    behind: TempDir,
}

const FILES: usize = 5000;

impl Site {
    /// None, and a line about it, where nothing can be mounted.
    fn mount() -> Option<Self> {
        if let Some(missing) = flash_slowdisk::missing() {
            eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
            return None;
        }
        let (root, behind) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        site::write(&root.path().join("near.txt"), b"near\n");
        for n in 0..FILES {
            site::write(&behind.path().join(format!("{n}.txt")), n.to_string().as_bytes());
        }
        let mount = |name: &str| {
            let point = root.path().join(name);
            fs::create_dir(&point).unwrap();
            SlowDisk::mount(behind.path(), &point, "lookup delay fixed:1ms").unwrap()
        };
        Some(Self { a: mount("a"), b: mount("b"), root, behind })
    }

    fn serve(&self, flags: &[&str]) -> Server {
        Server::start("amped", self.root.path(), flags)
    }
}

/// How long a request takes, and its status.
fn timed(server: &Server, path: &str) -> (u16, Duration) {
    let asked = Instant::now();
    (server.get(path).status, asked.elapsed())
}

fn threads(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().count()
}

const AT_ONCE: Duration = Duration::from_millis(3500);

#[test]
fn a_mount_that_hangs_is_given_up_alone_until_it_answers_again() {
    let Some(site) = Site::mount() else { return };
    let server = site.serve(&["--disk-deadline", "4s", "--revalidate", "100ms", "--helpers-max", "8"]);
    for path in ["/near.txt", "/a/1.txt", "/b/1.txt"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    site.a.rule("hang prefix /").unwrap();
    let (status, waited) = timed(&server, "/a/2.txt");
    assert_eq!(status, 503);
    assert!((AT_ONCE..Duration::from_secs(12)).contains(&waited), "{waited:?}");
    wait_for("the line about it", || server.said().contains("does not answer"));
    // From here on it is known to be sick: nobody waits for it any more.
    for n in 3..60 {
        let asked = Instant::now();
        let reply = server.get(&format!("/a/{n}.txt"));
        assert_eq!((reply.status, reply.field("Retry-After").is_some()), (503, true));
        assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
        // What was cached of it is served and says how old it is, and the others do not notice.
        let cached = server.get("/a/1.txt");
        assert_eq!((cached.status, cached.field("Age").is_some()), (200, true));
        let (status, waited) = timed(&server, &format!("/b/{n}.txt"));
        assert!(status == 200 && waited < AT_ONCE, "{status} {waited:?}");
        assert_eq!(server.get("/near.txt").status, 200);
    }
    // Eight of its own at most; the rest are the loops', the logs', and those of the others.
    assert!(threads(&server) < 40, "{} threads", threads(&server));
    site.a.clear();
    let cleared = Instant::now();
    while timed(&server, "/a/100.txt").0 != 200 {
        assert!(cleared.elapsed() < PATIENCE, "it does not recover");
        thread::sleep(Duration::from_millis(50));
    }
    let said = server.stop();
    assert!(said.contains("/a (fuse") && said.contains("does not answer"), "{said}");
    assert!(said.contains("answers again") && said.contains("loop_blocks=0"), "{said}");
}

#[test]
fn a_disk_that_fails_is_named_in_the_log_and_counts_in_the_status() {
    let Some(site) = Site::mount() else { return };
    for (kind, number) in [("thread", 10), ("process", 20)] {
        for (rule, error) in [("open fail ESTALE", "os error 116"), ("read fail EIO", "os error 5")] {
            let number = number + usize::from(rule.starts_with("read"));
            let (socket, path) = (site.root.path().join(".admin"), format!("/a/{number}.txt"));
            let admin = format!("unix:{}", socket.display());
            let server = site.serve(&["--helpers", kind, "--admin", &admin]);
            site.a.rule(&format!("{rule} prefix /{number}.txt")).unwrap();
            assert_eq!(server.get(&path).status, 500, "{kind}: {rule}");
            let line = format!("flash: {}{path}: ", site.root.path().display());
            let is_it = |of: &str| of.starts_with(&line) && of.contains(error);
            wait_for("a line in the log", || server.said().lines().any(is_it));
            let (_, metrics) = admin::ask(&socket, "GET", "/metrics");
            // A mount that is new to the server is elsewhere.
            let is_counted = |of: &str| of.starts_with("flash_device_errors_total") && !of.ends_with(" 0");
            assert!(metrics.lines().any(is_counted), "{kind}: {metrics}");
            let (_, status) = admin::ask(&socket, "GET", "/status.json");
            assert!(status.contains("\"fails\": true"), "{kind}: {status}");
            site.a.rule("clear").unwrap();
            assert_eq!(server.get(&path).status, 200, "{kind}: {rule}");
            server.stop();
        }
    }
}

#[test]
fn files_that_hang_one_by_one_do_not_make_their_mount_sick() {
    let Some(site) = Site::mount() else { return };
    let server = site.serve(&["--disk-deadline", "4s", "--helpers-max", "16"]);
    assert_eq!(server.get("/a/0.txt").status, 200);
    site.a.rule("hang prefix /7.txt\nhang prefix /8.txt").unwrap();
    thread::scope(|scope| {
        for path in ["/a/7.txt", "/a/8.txt"] {
            let server = &server;
            scope.spawn(move || assert_eq!(timed(server, path).0, 503));
        }
        let begun = Instant::now();
        for n in (20..FILES).cycle().take_while(|_| begun.elapsed() < Duration::from_secs(6)) {
            let (status, waited) = timed(&server, &format!("/a/{n}.txt"));
            assert!(status == 200 && waited < AT_ONCE, "/a/{n}.txt: {status} after {waited:?}");
        }
    });
    site.a.clear();
    assert!(!server.stop().contains("does not answer"));
}

#[test]
fn mounts_that_are_gone_leave_no_helpers_behind() {
    let Some(site) = Site::mount() else { return };
    let server = site.serve(&[]);
    let point = site.root.path().join("c");
    fs::create_dir(&point).unwrap();
    assert_eq!(server.get("/near.txt").status, 200);
    let before = threads(&server);
    for n in 0..12 {
        let mounted = SlowDisk::mount(site.behind.path(), &point, "lookup delay fixed:1ms").unwrap();
        wait_for("the mount", || server.get(&format!("/c/{n}.txt")).status == 200);
        drop(mounted);
        // So that the next one is another.
        thread::sleep(Duration::from_millis(200));
    }
    wait_for("helpers of a mount that is gone end", || threads(&server) <= before + 1);
    server.stop();
}

#[test]
fn a_full_queue_refuses_at_once() {
    let Some(site) = Site::mount() else { return };
    let flags = ["--disk-deadline", "15s", "--helpers-max", "1", "--helper-queue-max", "2"];
    let server = site.serve(&flags);
    assert_eq!(server.get("/b/1.txt").status, 200);
    site.b.rule("hang prefix /").unwrap();
    thread::scope(|scope| {
        let waiting: Vec<_> = (10..13)
            .map(|n| {
                let server = &server;
                let client = scope.spawn(move || server.get(&format!("/b/{n}.txt")).status);
                // One is being done and two wait; each must have arrived before the next.
                thread::sleep(Duration::from_millis(200));
                client
            })
            .collect();
        let asked = Instant::now();
        let reply = server.get("/b/20.txt");
        assert_eq!((reply.status, reply.field("Retry-After").is_some()), (503, true));
        assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
        assert_eq!(server.get("/near.txt").status, 200);
        site.b.clear();
        for client in waiting {
            assert_eq!(client.join().unwrap(), 200, "who was let in is served");
        }
    });
    assert_eq!(server.get("/b/20.txt").status, 200);
    assert!(server.stop().contains("queue_full=1"));
}

#[test]
fn a_server_stops_while_a_mount_hangs() {
    let Some(site) = Site::mount() else { return };
    let mut server = site.serve(&["--drain", "1s"]);
    assert_eq!(server.get("/a/1.txt").status, 200);
    site.a.rule("hang prefix /").unwrap();
    let mut client = server.connect();
    std::io::Write::write_all(&mut client, b"GET /a/2.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    thread::sleep(Duration::from_millis(200));
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.wait(PATIENCE), Some(Some(0)));
}

/// The root that hangs is a folder of its mount, because a slow disk answers for its own root at once.
#[test]
fn a_deploy_is_seen_while_the_root_of_another_site_hangs() {
    let Some(site) = Site::mount() else { return };
    fs::create_dir(site.behind.path().join("site")).unwrap();
    site::write(&site.behind.path().join("site/far.txt"), b"far");
    let releases = TempDir::new().unwrap();
    let publish = |release: &str| {
        fs::create_dir(releases.path().join(release)).unwrap();
        site::write(&releases.path().join(release).join("a.txt"), release.as_bytes());
        let (next, current) = (releases.path().join("next"), releases.path().join("current"));
        symlink(release, &next).unwrap();
        fs::rename(next, current).unwrap();
    };
    publish("one");
    let file = releases.path().join("flash.toml");
    let (far, near) = (site.root.path().join("a/site"), releases.path().join("current"));
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nrevalidate = \"200ms\"\n\
         [site.\"a.example\"]\nroot = {far:?}\n[site.\"b.example\"]\nroot = {near:?}\n"
    );
    fs::write(&file, text).unwrap();
    let server = Server::start_configured(&file, &["--admin", "off"]);
    let get = |host: &str, path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        String::from_utf8(server.raw(head.as_bytes())).unwrap()
    };
    assert!(get("a.example", "/far.txt").ends_with("\r\n\r\nfar"));
    assert!(get("b.example", "/a.txt").ends_with("\r\n\r\none"));
    site.a.rule("hang prefix /").unwrap();
    // Until a look at the root has begun to wait.
    thread::sleep(Duration::from_millis(1500));
    publish("two");
    let give_up = Instant::now() + Duration::from_millis(1500);
    while !get("b.example", "/a.txt").ends_with("\r\n\r\ntwo") {
        assert!(Instant::now() < give_up, "{}", get("b.example", "/a.txt"));
        thread::sleep(Duration::from_millis(20));
    }
    site.a.clear();
    server.stop();
}

/// What clients of everybody else see while one mount is asked for more than it answers.
struct Seen {
    hot_p99: Duration,
    other_per_second: f64,
}

/// Asks for cold files of both mounts, and for the hot one at a steady rate, for so long.
fn load(server: &Server, lasting: Duration) -> Seen {
    let until = Instant::now() + lasting;
    let cold = |mount: &'static str, seed: usize| {
        let mut asked = 0;
        let mut n = seed;
        while Instant::now() < until {
            n = (n * 1_103_515_245 + 12_345) % FILES;
            server.get(&format!("/{mount}/{n}.txt"));
            asked += 1;
        }
        asked
    };
    thread::scope(|scope| {
        (0..8).for_each(|seed| drop(scope.spawn(move || cold("a", seed))));
        let others: Vec<_> = (0..4).map(|seed| scope.spawn(move || cold("b", 100 + seed))).collect();
        let mut waits = Vec::new();
        while Instant::now() < until {
            let (status, waited) = timed(server, "/near.txt");
            assert_eq!(status, 200);
            waits.push(waited);
            thread::sleep(Duration::from_millis(2));
        }
        waits.sort();
        let asked: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
        Seen {
            hot_p99: waits[waits.len() * 99 / 100],
            other_per_second: asked as f64 / lasting.as_secs_f64(),
        }
    })
}

/// `FLASH_SICK_SECONDS` makes both parts longer than the suite has time for.
#[test]
fn one_file_in_a_hundred_that_hangs_is_felt_by_nobody_else() {
    let Some(site) = Site::mount() else { return };
    let seconds = std::env::var("FLASH_SICK_SECONDS").map_or(4, |text| text.parse().expect("a number"));
    // Few paths are remembered, so that most requests go to the disk.
    let server = site.serve(&["--path-cache", "100", "--disk-deadline", "2s", "--helpers-max", "32"]);
    assert_eq!(server.get("/near.txt").status, 200);
    let lasting = Duration::from_secs(seconds);
    let well = load(&server, lasting);
    site.a.rule("hang fraction 0.01 seed 7").unwrap();
    let sick = load(&server, lasting);
    let threads = threads(&server);
    site.a.clear();
    println!(
        "hot p99 {:?} and {:?}, the other mount {:.0} and {:.0} requests a second, {threads} threads",
        well.hot_p99, sick.hot_p99, well.other_per_second, sick.other_per_second
    );
    // Wide enough for a machine on which much else goes on; one that waited would wait for seconds.
    assert!(sick.hot_p99 < well.hot_p99 * 3 + Duration::from_millis(20), "{:?}", sick.hot_p99);
    assert!(sick.other_per_second > well.other_per_second * 0.6, "{}", sick.other_per_second);
    assert!(threads < 32 + 32 + 40, "{threads} threads");
    let said = server.stop();
    assert!(said.contains("loop_blocks=0"), "{said}");
}
