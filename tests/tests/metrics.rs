//! Metrics add up: they say exactly what clients were sent, in every architecture, whatever happens to the server meanwhile.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::fs;
use std::io::{Read, Write};
use std::mem;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::SlowDisk;
use flash_tests::{ARCHITECTURES, PATIENCE, Server, admin, family, program, site, tool, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The site that `flash load` asks, which knows it by its address.
const LOADED: &str = "127.0.0.1";
const BYTES: usize = 5_000;
const REQUESTS: u64 = 300;

struct Setup {
    folder: TempDir,
    server: Server,
}

impl Setup {
    /// Two sites, with these further settings.
    fn start(arch: &str, settings: &str) -> Self {
        Self::start_with(arch, settings, "")
    }

    /// And with these further sites, whose files are below `FOLDER`.
    fn start_with(arch: &str, settings: &str, sites: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["a", "b"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
            site::write(&folder.path().join(name).join("a.bin"), &site::pattern(BYTES));
        }
        let path = folder.path().join("flash.toml");
        let sites = sites.replace("FOLDER", &folder.path().display().to_string());
        let text = format!("{}{sites}", text(arch, folder.path(), settings));
        fs::write(&path, text).expect("the file is written");
        let server = Server::start_configured(&path, &[]);
        Self { folder, server }
    }

    /// A request to the admin socket.
    fn ask(&self, method: &str, path: &str) -> (u16, String) {
        admin::ask(&self.folder.path().join("admin.sock"), method, path)
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.ask("GET", "/status.json").1).expect("it is JSON")
    }

    /// The responses that a site has sent with this class of status, and their bytes.
    fn counted(&self, site: &str, class: &str) -> (u64, u64) {
        let status = self.status();
        let named = |list: &Value, name: &str, value: &str| {
            list.as_array().expect("a list").iter().find(|of| of[name] == value).cloned()
        };
        let class =
            named(&status["sites"], "site", site).and_then(|of| named(&of["classes"], "status", class));
        let number = |name| class.as_ref().map_or(0, |of| of[name].as_u64().expect("a number"));
        (number("count"), number("body_bytes"))
    }

    /// A loop counts a response at the end of its turn, when the client may have it already.
    #[track_caller]
    fn wait_for(&self, site: &str, class: &str, expected: (u64, u64)) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let counted = self.counted(site, class);
            if counted == expected {
                return;
            }
            assert!(counted <= expected, "{site}, {class}: {counted:?} are more than {expected:?}");
            assert!(Instant::now() < give_up, "{site}, {class}: {counted:?} instead of {expected:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// `flash load` asks so many times. What it counted: responses of status 200, and bytes of bodies.
    fn load(&self, words: &[&str]) -> (u64, u64) {
        let url = format!("http://{}/a.bin", self.server.address);
        let output = Command::new(tool("load"))
            .args([&url, "-n", &REQUESTS.to_string(), "-c", "4", "--json", "-", "--quiet"])
            .args(words)
            .stderr(Stdio::inherit())
            .output()
            .expect("flash load runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        assert_eq!(report["errors_total"], 0, "{report}");
        (
            report["statuses"]["200"].as_u64().expect("a number"),
            report["body_bytes"].as_u64().expect("a number"),
        )
    }
}

fn text(arch: &str, folder: &Path, settings: &str) -> String {
    let folder = folder.display();
    format!(
        "listen = '127.0.0.1:0'\nadmin = 'unix:{folder}/admin.sock'\narch = '{arch}'\n\
         processes = 2\n{settings}\n[site.'{LOADED}']\nroot = '{folder}/a'\n[site.'b.example']\nroot = '{folder}/b'\n"
    )
}

fn of_host(server: &Server, host: &str, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    flash_tests::reply::only(&server.raw(request.as_bytes())).status
}

#[test]
fn sums_are_exactly_what_clients_were_sent() {
    for arch in ARCHITECTURES.into_iter().filter(|arch| !arch.contains(' ')) {
        let setup = Setup::start(arch, "");
        let (mut responses, mut bytes) = setup.load(&[]);
        assert_eq!((responses, bytes), (REQUESTS, REQUESTS * BYTES as u64), "{arch}");
        for words in [&["--requests-per-connection", "1"][..], &["--http2"]] {
            let more = setup.load(words);
            (responses, bytes) = (responses + more.0, bytes + more.1);
            setup.wait_for(LOADED, "2xx", (responses, bytes));
        }
        assert_eq!(of_host(&setup.server, "b.example", "/missing"), 404);
        assert_eq!(of_host(&setup.server, "b.example", "/a.bin"), 200);
        setup.wait_for("b.example", "2xx", (1, BYTES as u64));
        // Another loop may have answered that, and counts it a moment later.
        wait_for("the count of what is missing", || setup.counted("b.example", "4xx").0 == 1);
        let status = setup.status();
        assert_eq!(status["totals"]["requests"], responses + 2, "{arch}");
        assert_eq!(status["active_requests"], 0, "{arch}");
        setup.server.stop();
    }
}

#[test]
fn reloads_and_ends_of_workers_lose_nothing() {
    for arch in ["amped", "mp"] {
        let setup = Setup::start(arch, "");
        let mut expected = (0, 0);
        for round in 0..4 {
            let more = setup.load(&[]);
            expected = (expected.0 + more.0, expected.1 + more.1);
            setup.wait_for(LOADED, "2xx", expected);
            if round % 2 == 0 {
                let (status, said) = setup.ask("POST", "/reload");
                assert_eq!(status, 200, "{arch}: {said}");
            } else if arch == "mp" {
                let workers = family::of(&setup.server);
                let workers: Vec<_> =
                    workers.into_iter().filter(|process| process.name().starts_with("worker-")).collect();
                assert!(!workers.is_empty(), "there are workers");
                workers.into_iter().for_each(family::Process::kill);
            }
            assert_eq!(setup.counted(LOADED, "2xx"), expected, "{arch}: nothing is forgotten");
        }
        setup.server.stop();
    }
}

#[test]
fn no_request_adds_a_series() {
    let setup = Setup::start("amped", "");
    let names = |text: &str| -> Vec<String> {
        let series = text.lines().filter(|line| line.contains("site="));
        series.map(|line| line.rsplit_once(' ').expect("a value").0.to_owned()).collect()
    };
    of_host(&setup.server, "nobody.example", "/");
    wait_for("the count of the first", || setup.counted("_other", "4xx").0 == 1);
    let before = names(&setup.ask("GET", "/metrics").1);
    let mut stream = setup.server.connect();
    for number in 0..200 {
        let requests: String =
            (0..50).map(|of| format!("HEAD /{of} HTTP/1.1\r\nHost: {number}-{of}.example\r\n\r\n")).collect();
        stream.write_all(requests.as_bytes()).expect("it takes them");
        let mut answers = 0;
        let mut buffer = [0; 64 << 10];
        let mut got = Vec::new();
        while answers < 50 {
            let count = stream.read(&mut buffer).expect("it answers");
            assert!(count > 0, "the connection stays open");
            got.extend_from_slice(&buffer[..count]);
            answers = got.windows(4).filter(|end| end == b"\r\n\r\n").count();
        }
    }
    let give_up = Instant::now() + PATIENCE;
    while setup.counted("_other", "4xx").0 < 10_001 {
        assert!(Instant::now() < give_up, "{:?}", setup.counted("_other", "4xx"));
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(names(&setup.ask("GET", "/metrics").1), before);
    assert!(!before.is_empty() && before.iter().all(|name| name.contains("site=\"_other\"")), "{before:?}");
    setup.server.stop();
}

/// Requests with a host each that no other has, from a few clients for this long. Returns how many were answered.
fn ask_for_random_hosts(server: &Server, seed: u64, time: Duration) -> u64 {
    const AT_ONCE: u64 = 100;
    let ask = |client: u64| {
        let (end, mut stream, mut asked) = (Instant::now() + time, server.connect(), 0);
        let mut state = (seed << 8 | client).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (mut buffer, mut left) = (vec![0; 256 << 10], Vec::new());
        while Instant::now() < end {
            let request = |_| {
                let (host, length) = (random(), 1 + random() as usize % 60);
                format!("HEAD /a.bin HTTP/1.1\r\nHost: {host:x}.{}.example\r\n\r\n", "x".repeat(length))
            };
            let requests: String = (0..AT_ONCE).map(request).collect();
            stream.write_all(requests.as_bytes()).expect("it takes them");
            let mut answers = 0;
            while answers < AT_ONCE {
                let count = stream.read(&mut buffer).expect("it answers");
                assert!(count > 0, "the connection stays open");
                left.extend_from_slice(&buffer[..count]);
                answers += left.windows(4).filter(|end| end == b"\r\n\r\n").count() as u64;
                // An end may be divided between two reads.
                left.drain(..left.len().saturating_sub(if left.ends_with(b"\r\n\r\n") { 0 } else { 3 }));
            }
            asked += AT_ONCE;
        }
        asked
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..2).map(|client| scope.spawn(move || ask(client))).collect();
        clients.into_iter().map(|client| client.join().expect("it ends")).sum()
    })
}

/// Neither hosts that no site has, nor those that a site for all has, add anything that stays.
#[test]
fn random_hosts_add_neither_series_nor_memory() {
    const GROWTH_KB_MAX: u64 = 512;
    const ROUNDS_MAX: u64 = 8;
    let seconds = std::env::var("FLASH_HOSTS_SECONDS").ok().and_then(|of| of.parse().ok()).unwrap_or(3);
    for (arch, site) in [("amped", "_other"), ("amped", "*"), ("mt", "_other"), ("mp", "_other"), ("mp", "*")]
    {
        let setup =
            Setup::start_with(arch, "", if site == "*" { "[site.'*']\nroot = 'FOLDER/a'\n" } else { "" });
        let anonymous_kb = || -> u64 {
            let of = |process: family::Process| {
                let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
                let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
                line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
            };
            family::of(&setup.server).into_iter().map(of).sum()
        };
        let series = || {
            let (_, text) = setup.ask("GET", "/metrics");
            assert!(text.contains(&format!("site=\"{site}\"")), "{arch}: {text}");
            // A loop is told from its first connection on.
            let others = text.lines().filter(|line| !line.starts_with('#') && !line.contains("loop="));
            (others.clone().count(), others.map(str::len).sum::<usize>())
        };
        ask_for_random_hosts(&setup.server, 0, Duration::from_secs(1));
        let before = series();
        // Caches and buffers reach their size, sooner or later. What each host adds never ends.
        let (mut kb, mut rounds, mut asked) = (anonymous_kb(), 0, 0);
        loop {
            rounds += 1;
            asked += ask_for_random_hosts(&setup.server, rounds, Duration::from_secs(seconds));
            let before_kb = mem::replace(&mut kb, anonymous_kb());
            eprintln!("{arch}, {site}: {asked} hosts, RssAnon {before_kb} and {kb} kB");
            if kb <= before_kb + GROWTH_KB_MAX {
                break;
            }
            assert!(rounds < ROUNDS_MAX, "{arch}, {site}: {before_kb} kB, then {kb} kB, in round {rounds}");
        }
        let after = series();
        assert!(asked > 1000, "{arch}: {asked}");
        assert!(before.0 == after.0 && before.0 < 200, "{arch}, {site}: {} and {}", before.0, after.0);
        // Only digits of counts are more.
        assert!(after.1 < before.1 + 20 * before.0, "{arch}, {site}: {before:?} {after:?}");
        setup.server.stop();
    }
}

#[test]
fn a_parser_reads_the_text() {
    const PARSER: &str = "import sys\n\
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n\
        print(sum(len(f.samples) for f in parse(sys.stdin.read())))";
    for arch in ["amped", "mp"] {
        let setup = Setup::start(arch, "");
        setup.load(&[]);
        setup.wait_for(LOADED, "2xx", (REQUESTS, REQUESTS * BYTES as u64));
        let (status, text) = setup.ask("GET", "/metrics");
        assert_eq!(status, 200);
        let mut parser = Command::new("/usr/bin/python3")
            .args(["-c", PARSER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs: apt-get install python3-prometheus-client");
        parser.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        let output = parser.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{arch}: a parser refuses it:\n{text}");
        let samples = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0);
        let lines = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(samples, lines, "{arch}: each line is a sample");
        let count = format!(
            "http_server_request_duration_seconds_count{{site=\"{LOADED}\",status_class=\"2xx\"}} {REQUESTS}"
        );
        assert!(text.lines().any(|line| line == count), "{arch}: {text}");
        setup.server.stop();
    }
}

/// It stays at its address in an upgrade, too.
#[test]
fn an_address_for_those_who_read_changes_nothing() {
    for arch in ["amped", "mp"] {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        let mut setup = Setup::start(arch, &format!("admin-listen = '{address}'\n"));
        let ask_there = |method: &str, path: &str| admin::ask_at(address, method, path);
        for path in ["/healthz", "/metrics", "/status", "/status.json", "/status.txt"] {
            assert_eq!(ask_there("GET", path).0, 200, "{arch}: {path}");
        }
        for path in ["/reload", "/reopen", "/counters", "/upgrade"] {
            assert_eq!(ask_there("POST", path).0, 403, "{arch}: {path}");
        }
        assert_eq!(setup.status()["generation"], 1, "{arch}: nothing was reloaded");
        let socket = format!("unix:{}/admin.sock", setup.folder.path().display());
        let upgrade = Command::new(program()).args(["upgrade", "--admin", &socket]).output();
        let upgrade = upgrade.expect("flash runs");
        assert!(upgrade.status.success(), "{arch}: {upgrade:?}");
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}: the earlier server ends");
        let status: Value = serde_json::from_str(&ask_there("GET", "/status.json").1).expect("it is JSON");
        assert_eq!(status["pid"], setup.status()["pid"], "{arch}");
        let pid = status["pid"].as_u64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        kill_process(pid.expect("its number"), Signal::TERM).expect("it is there");
    }
}

/// A browser asks under any name that leads there, and a page of that name could read the answers.
#[test]
fn an_address_answers_under_no_name_that_a_page_can_have() {
    for arch in ARCHITECTURES {
        let arch = arch.split(' ').next().expect("a name");
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        let hosts = "admin-hosts = ['flash.example', '*.svc.example']";
        let setup = Setup::start(arch, &format!("admin-listen = '{address}'\n{hosts}\n"));
        let port = address.port();
        for (host, expected) in [
            ("evil.example", 421),
            ("flash.example.evil", 421),
            ("127.0.0.1.evil.example", 421),
            ("flash", 421),
            ("localhost", 200),
            ("127.0.0.1", 200),
            ("10.2.3.4", 200),
            ("[::1]", 200),
            ("flash.example", 200),
            ("a.svc.example", 200),
        ] {
            for path in ["/metrics", "/status.json", "/status", "/healthz"] {
                for host in [host.to_owned(), format!("{host}:{port}")] {
                    let (status, text) = admin::ask_host_at(address, "GET", path, &host);
                    assert_eq!(status, expected, "{arch}: {host}{path}: {text}");
                }
            }
        }
        setup.server.stop();
    }
}

#[test]
fn they_are_told_while_a_disk_hangs_and_clients_are_slow() {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return;
    }
    let setup = Setup::start("amped", "disk-deadline = '1s'\nhelpers-max = 2\n");
    let (behind, point) = (TempDir::new().unwrap(), setup.folder.path().join("a/slow"));
    for number in 0..400 {
        site::write(&behind.path().join(format!("{number}.txt")), b"far");
    }
    fs::create_dir(&point).unwrap();
    let disk = SlowDisk::mount(behind.path(), &point, "lookup delay fixed:1ms").unwrap();
    let number = Cell::new(10);
    let line = format!("flash_device_healthy{{mount=\"{} (fuse)\",kind=\"files\"}}", point.display());
    let wait_for = |value: &str| {
        let (line, give_up) = (format!("{line} {value}"), Instant::now() + PATIENCE);
        while !setup.ask("GET", "/metrics").1.lines().any(|of| of == line) {
            assert!(Instant::now() < give_up, "{line}: {}", setup.ask("GET", "/metrics").1);
            // Requests lead to a mount, and probe one that is down.
            let status =
                of_host(&setup.server, LOADED, &format!("/slow/{}.txt", number.replace(number.get() + 1)));
            assert!([200, 503].contains(&status), "{status}");
            thread::sleep(Duration::from_millis(50));
        }
    };
    // The server has found the new mount.
    wait_for("1");
    disk.rule("hang prefix /").unwrap();
    // These say nothing, and occupy what they can.
    let silent = || UnixStream::connect(setup.folder.path().join("admin.sock")).unwrap();
    let _silent: Vec<_> = (0..8).map(|_| silent()).collect();
    thread::scope(|scope| {
        let waiting: Vec<_> = (1..9)
            .map(|number| {
                let server = &setup.server;
                scope.spawn(move || of_host(server, LOADED, &format!("/slow/{number}.txt")))
            })
            .collect();
        thread::sleep(Duration::from_millis(300));
        let asked = Instant::now();
        let (status, text) = setup.ask("GET", "/metrics");
        assert!(status == 200 && asked.elapsed() < Duration::from_millis(900), "{:?}", asked.elapsed());
        let active = text.lines().find_map(|line| line.strip_prefix("http_server_active_requests "));
        assert!(active.is_some_and(|active| active.parse::<u64>().unwrap() >= 1), "they wait: {active:?}");
        waiting.into_iter().for_each(|waiting| assert_eq!(waiting.join().unwrap(), 503));
    });
    wait_for("0");
    disk.rule("clear").unwrap();
    wait_for("1");
    setup.server.stop();
}
