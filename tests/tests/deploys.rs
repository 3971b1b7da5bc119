//! Flash looks at DIR again. It sees a deploy by a symbolic link, and each response is of one release. The error log says
//! when DIR is gone.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{ARCHITECTURES, PATIENCE, PROCESSES, Server, Stop, family, need, site};
use rustix::process::Signal;
use tempfile::TempDir;

/// New content is there so soon after a switch, with `--revalidate 400ms`.
const SEEN_WITHIN: Duration = Duration::from_millis(1400);
const SWITCHES: usize = 200;
const CLIENTS: usize = 3;
/// Each names its release in every line: a small file, a copy in memory, and one that is sent in windows.
const FILES: [(&str, usize); 3] = [("a.txt", 1), ("b.txt", 30_000), ("big.txt", 150_000)];
/// What else leads to a file: an index, a compressed copy, the page of a single-page site, and a listing.
const OTHERS: [&str; 4] = ["/", "/page.html", "/some/route", "/list/"];

/// Releases beside each other, and `current`, which leads to one of them.
struct Releases {
    folder: TempDir,
}

impl Releases {
    fn new() -> Self {
        let releases = Self { folder: tempfile::tempdir().unwrap() };
        releases.publish(0);
        releases
    }

    fn current(&self) -> PathBuf {
        self.folder.path().join("current")
    }

    fn release(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("release-{number}"))
    }

    fn make(&self, number: usize) {
        let release = self.release(number);
        fs::create_dir_all(release.join("list")).unwrap();
        let line = format!("{number:07}\n");
        for (name, lines) in FILES {
            site::write(&release.join(name), line.repeat(lines).as_bytes());
        }
        for name in ["index.html", "page.html", "page.html.gz", &format!("list/{number:07}")] {
            site::write(&release.join(name), line.as_bytes());
        }
    }

    /// `ln -sfn release-N current`, as one rename.
    fn publish(&self, number: usize) {
        self.make(number);
        let next = self.folder.path().join("next");
        symlink(format!("release-{number}"), &next).unwrap();
        fs::rename(next, self.current()).unwrap();
    }
}

/// One response on a kept connection.
fn get(stream: &mut BufReader<TcpStream>, path: &str) -> (u16, String) {
    let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
    stream.get_mut().write_all(head.as_bytes()).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.unwrap_or_else(|| panic!("{path}: no response: {line:?}"));
    let mut length = Some(0);
    loop {
        line.clear();
        stream.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = Some(value.trim().parse().unwrap());
        } else if line.starts_with("Transfer-Encoding: chunked") {
            length = None;
        }
    }
    let mut body = Vec::new();
    let take = |stream: &mut BufReader<TcpStream>, length: usize, body: &mut Vec<u8>| {
        let end = body.len();
        body.resize(end + length, 0);
        stream.read_exact(&mut body[end..]).unwrap();
    };
    match length {
        Some(length) => take(stream, length, &mut body),
        None => loop {
            line.clear();
            stream.read_line(&mut line).unwrap();
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            take(stream, size + 2, &mut body);
            body.truncate(body.len() - 2);
            if size == 0 {
                break;
            }
        },
    }
    // The copies of the releases only say that they are compressed. What Flash makes is.
    if body.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        libflate::gzip::Decoder::new(&*body).unwrap().read_to_end(&mut plain).unwrap();
        body = plain;
    }
    (status, String::from_utf8(body).unwrap())
}

/// The one release that this body is of.
fn release_of(path: &str, body: &str) -> usize {
    if path == "/list/" {
        let names: Vec<&str> = body
            .split("<td><a href=\"")
            .filter(|link| !link.starts_with("../"))
            .filter_map(|rest| rest.get(..7))
            .collect();
        let names: Vec<usize> = names.iter().filter_map(|name| name.parse().ok()).collect();
        assert_eq!(names.len(), 1, "{path}: {body}");
        return names[0];
    }
    let first = body.lines().next().unwrap_or_else(|| panic!("{path} is empty"));
    assert!(body.lines().all(|line| line == first), "{path}: a mixture of releases");
    let lines = FILES.iter().find(|(name, _)| path[1..] == **name).map_or(1, |(_, lines)| *lines);
    assert_eq!(body.lines().count(), lines, "{path}");
    first.parse().unwrap()
}

fn wait_until(what: &str, within: Duration, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < within, "{what}: not within {within:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn deploys_under_load_mix_no_releases() {
    for arch in ARCHITECTURES {
        let releases = Releases::new();
        // Little memory for copies, so that the largest file is sent from its descriptor.
        let flags = ["--revalidate", "40ms", "--list", "--spa", "index.html", "--file-cache-bytes", "2M"];
        let server = Server::start(arch, &releases.current(), &flags);
        let (stop, requests, seen) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
        // The newest release that each client has seen.
        let newest_of = [const { AtomicUsize::new(0) }; CLIENTS];
        thread::scope(|scope| {
            for (client, newest_seen) in newest_of.iter().enumerate() {
                let (server, stop, requests, seen) = (&server, &stop, &requests, &seen);
                scope.spawn(move || {
                    let _stop = Stop(stop);
                    let paths: Vec<String> = FILES.iter().map(|(name, _)| format!("/{name}")).collect();
                    let paths: Vec<&str> =
                        paths.iter().map(String::as_str).chain(OTHERS).cycle().skip(client).take(7).collect();
                    let mut stream = BufReader::new(server.connect());
                    let mut newest = 0;
                    while !stop.load(Ordering::Relaxed) {
                        for path in &paths {
                            let (status, body) = get(&mut stream, path);
                            assert_eq!(status, 200, "{arch}: {path} after release {newest}: {body}");
                            let release = release_of(path, &body);
                            assert!(release >= newest, "{arch}: {path} of {release} after {newest}");
                            if release > newest {
                                seen.fetch_add(1, Ordering::Relaxed);
                            }
                            newest = release;
                            newest_seen.store(newest, Ordering::Relaxed);
                            requests.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            let _stop = Stop(&stop);
            let mut removed = 0;
            for number in 1..=SWITCHES {
                let before = requests.load(Ordering::Relaxed);
                releases.publish(number);
                // As tools for deploys do, once nobody is sent an earlier release.
                let oldest = newest_of.iter().map(|newest| newest.load(Ordering::Relaxed)).min().unwrap();
                (removed..oldest).for_each(|number| fs::remove_dir_all(releases.release(number)).unwrap());
                removed = oldest;
                thread::sleep(Duration::from_millis(15));
                wait_until("requests go on", PATIENCE, || {
                    requests.load(Ordering::Relaxed) > before || stop.load(Ordering::Relaxed)
                });
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for path in ["/a.txt", "/b.txt", "/big.txt", "/page.html"] {
            let is_new = || server.get(path).body.starts_with(format!("{SWITCHES:07}\n").as_bytes());
            wait_until(&format!("{arch}: {path} of the last release"), SEEN_WITHIN, is_new);
        }
        let seen = seen.into_inner();
        assert!(seen > SWITCHES / 4, "{arch}: only {seen} switches were seen");
        server.stop();
    }
}

#[test]
fn a_switch_is_seen_for_content_and_for_missing_names_and_the_log_says_so() {
    for arch in ARCHITECTURES {
        let releases = Releases::new();
        site::write(&releases.release(0).join("goes.txt"), b"old");
        let server = Server::start(arch, &releases.current(), &["--revalidate", "400ms"]);
        for _ in 0..3 {
            assert_eq!(server.get("/a.txt").body, b"0000000\n");
            assert_eq!(server.get("/goes.txt").body, b"old");
            assert_eq!(server.get("/comes.txt").status, 404);
        }
        releases.make(1);
        site::write(&releases.release(1).join("comes.txt"), b"new");
        releases.publish(1);
        wait_until(arch, SEEN_WITHIN, || server.get("/a.txt").body == b"0000001\n");
        // From one release, as soon as anything is of it. The processes of mp look for themselves.
        if arch == "mp" {
            thread::sleep(SEEN_WITHIN);
        }
        assert_eq!(server.get("/goes.txt").status, 404, "{arch}");
        assert_eq!(server.get("/comes.txt").body, b"new", "{arch}");
        let said = server.stop();
        let line = format!("is another folder now: serving {}", releases.release(1).display());
        assert_eq!(said.matches(&line).count(), 1, "{arch}: {said}");
    }
}

#[test]
fn a_download_ends_with_the_bytes_that_it_began_with() {
    for arch in ARCHITECTURES {
        let releases = Releases::new();
        let old = site::pattern(40_000_000);
        site::write(&releases.release(0).join("large.bin"), &old);
        let server = Server::start(arch, &releases.current(), &["--revalidate", "400ms"]);
        let mut stream = server.connect();
        stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut begun = vec![0; 1 << 20];
        stream.read_exact(&mut begun).unwrap();
        releases.make(1);
        site::write(&releases.release(1).join("large.bin"), &vec![b'n'; 40_000_000]);
        releases.publish(1);
        fs::remove_dir_all(releases.release(0)).unwrap();
        let is_new = || server.get("/a.txt").body == b"0000001\n";
        wait_until(&format!("{arch}: the new release"), SEEN_WITHIN, is_new);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        let response = [begun, rest].concat();
        assert!(response.ends_with(&old), "{arch}: {} bytes", response.len());
        assert_eq!(server.get("/large.bin").body, vec![b'n'; 40_000_000], "{arch}");
        server.stop();
    }
}

#[test]
fn a_folder_that_is_gone_is_503_until_it_is_back() {
    for arch in ARCHITECTURES {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("site");
        let build = |content: &str| {
            fs::create_dir(&folder).unwrap();
            site::write(&folder.join("index.html"), content.as_bytes());
            site::write(&folder.join("a.txt"), content.as_bytes());
        };
        build("old");
        let server = Server::start(arch, &folder, &["--revalidate", "400ms", "--list"]);
        assert_eq!(server.get("/a.txt").body, b"old");
        assert_eq!(server.get("/").body, b"old");
        fs::remove_dir_all(&folder).unwrap();
        let is_gone = || ["/", "/a.txt", "/none/"].iter().all(|path| server.get(path).status == 503);
        wait_until(&format!("{arch}: 503"), SEEN_WITHIN, is_gone);
        wait_until(&format!("{arch}: is said to be gone"), PATIENCE, || server.said().contains("is gone"));
        build("new");
        let is_back = || ["/", "/a.txt"].iter().all(|path| server.get(path).body == b"new");
        wait_until(&format!("{arch}: back"), SEEN_WITHIN, is_back);
        if arch == "mp" {
            thread::sleep(SEEN_WITHIN);
            assert!((0..20).all(|_| is_back()));
        }
        wait_until(&format!("{arch}: is said to be back"), PATIENCE, || server.said().contains("is back"));
        let said = server.stop();
        let count = |words: &str| said.matches(words).count();
        assert_eq!((count("is gone: requests get 503"), count("is back: serving")), (1, 1), "{arch}: {said}");
    }
}

/// PHP keeps the real paths of files for two minutes, so it has to be told the new one.
#[test]
fn php_runs_the_scripts_of_the_new_release() {
    need("php-cgi", "php-cgi");
    for arch in ["amped", "mt"] {
        let releases = Releases::new();
        let page = |release: &str| format!("<?php echo '{release} ', basename($_SERVER['DOCUMENT_ROOT']);");
        site::write(&releases.release(0).join("a.php"), page("old").as_bytes());
        let flags = ["--revalidate", "400ms", "--app", ".php=php-cgi"];
        let server = Server::start(arch, &releases.current(), &flags);
        assert_eq!(server.get("/a.php").body, b"old release-0", "{arch}");
        releases.make(1);
        site::write(&releases.release(1).join("a.php"), page("new").as_bytes());
        releases.publish(1);
        let is_new = || server.get("/a.php").body == b"new release-1";
        wait_until(&format!("{arch}: the new script"), SEEN_WITHIN, is_new);
        fs::remove_dir_all(releases.release(0)).unwrap();
        assert!((0..5).all(|_| is_new()), "{arch}");
        server.stop();
    }
}

#[test]
fn php_is_told_the_present_release_after_a_reload_and_by_a_new_worker() {
    need("php-cgi", "php-cgi");
    for arch in ["amped", "mt", "mp", PROCESSES] {
        let releases = Releases::new();
        let flags =
            ["--revalidate", "400ms", "--app", ".php=php-cgi", "--sandbox", "off", "--processes", "1"];
        site::write(&releases.release(0).join("a.php"), b"old");
        let server = Server::start(arch, &releases.current(), &flags);
        releases.make(1);
        let page = b"<?php echo basename($_SERVER['DOCUMENT_ROOT']), basename(dirname($_SERVER['SCRIPT_FILENAME']));";
        site::write(&releases.release(1).join("a.php"), page);
        releases.publish(1);
        let is_new = || server.get("/a.php").body == b"release-1release-1";
        wait_until(&format!("{arch}: the new script"), SEEN_WITHIN, is_new);
        if arch == "mp" {
            let worker = || family::named(&server, "worker-0").filter(|worker| worker.lives());
            let before = worker().expect("there is a worker");
            before.kill();
            wait_until("mp: another worker", PATIENCE, || worker().is_some_and(|worker| worker != before));
        } else {
            server.signal(Signal::HUP);
            let is_done = || server.said().contains("configuration 2 serves");
            wait_until(&format!("{arch}: the reload"), PATIENCE, is_done);
        }
        fs::remove_dir_all(releases.release(0)).unwrap();
        for _ in 0..20 {
            assert_eq!(server.get("/a.php").body, b"release-1release-1", "{arch}");
            thread::sleep(Duration::from_millis(10));
        }
        server.stop();
    }
}

/// A rebuild in which the folder is gone for a moment is no time without a site.
#[test]
fn a_folder_that_is_replaced_by_two_renames_is_always_there() {
    let parent = tempfile::tempdir().unwrap();
    let path = |name: &str| parent.path().join(name);
    let build = |name: &str, content: &str| {
        fs::create_dir(path(name)).unwrap();
        site::write(&path(name).join("a.txt"), content.as_bytes());
    };
    build("site", "old");
    build("new", "new");
    for arch in ["amped", PROCESSES] {
        let server = Server::start(arch, &path("site"), &["--revalidate", "2s"]);
        let old = server.get("/a.txt").body;
        fs::rename(path("site"), path("old")).unwrap();
        fs::rename(path("new"), path("site")).unwrap();
        let begun = Instant::now();
        loop {
            let reply = server.get("/a.txt");
            assert_eq!(reply.status, 200, "{arch}");
            if reply.body != old {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(3), "{arch}: not seen");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!server.stop().contains("is gone"));
        fs::rename(path("old"), path("new")).unwrap();
    }
}

/// What a hot file costs while DIR stays what it is: loops look for themselves.
#[test]
fn a_folder_that_stays_costs_no_jobs() {
    let site = site::make();
    let server = Server::start("amped", site.path(), &["--revalidate", "100ms"]);
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        assert_eq!(server.get("/a.txt").status, 200);
    }
    let said = server.stop();
    let jobs = said.split(" helper_jobs=").nth(1).and_then(|rest| rest.split(' ').next());
    // The first look may be a helper's.
    assert!(jobs.is_some_and(|jobs| jobs.parse::<u64>().is_ok_and(|jobs| jobs <= 2)), "{said}");
}
