//! Floods of new names that are missing: each gets its 404 from memory, and visitors notice nothing.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{ARCHITECTURES, PATIENCE, PROCESSES, Server, connect, read_all, reply, site};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than helpers' queues take, each on a connection of its own.
const NAMES: usize = 3_000;

/// As many connections as that at a time, where this is allowed.
fn raise_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { limit.current };
    current.map_or(NAMES, |current| current as usize).saturating_sub(200)
}

/// A number of the server's last words.
fn told(said: &str, name: &str) -> Option<u64> {
    let words = said.lines().find_map(|line| line.split_once("stopped: "))?.1;
    words.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?.parse().ok()
}

/// Asks for a name on each connection, all at once, and counts the statuses.
fn flood(server: &Server, name: impl Fn(usize) -> String) -> BTreeMap<u16, usize> {
    let at_once = NAMES.min(raise_descriptors());
    let mut statuses = BTreeMap::new();
    let numbers: Vec<usize> = (0..NAMES).collect();
    for numbers in numbers.chunks(at_once) {
        let ask = |number: &usize| -> TcpStream {
            let mut stream = connect(server.address);
            let request = format!("GET {} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", name(*number));
            stream.write_all(request.as_bytes()).expect("the server takes the request");
            stream
        };
        let streams: Vec<TcpStream> = numbers.iter().map(ask).collect();
        for mut stream in streams {
            *statuses.entry(reply::only(&read_all(&mut stream)).status).or_default() += 1;
        }
    }
    statuses
}

#[test]
fn each_missing_name_gets_its_404_and_visitors_their_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir_all(folder.path().join("sub/deep")).unwrap();
    let pages: Vec<String> = (0..20).map(|number| format!("sub/deep/page-{number}.html")).collect();
    pages.iter().for_each(|page| site::write(&folder.path().join(page), page.as_bytes()));
    thread::sleep(Duration::from_millis(50));
    for arch in ARCHITECTURES {
        // What helper processes tell serves for so long, and on a busy machine a second may pass until the next of them runs.
        let flags: &[&str] = if arch == PROCESSES { &["--revalidate", "20s"] } else { &[] };
        let server = Server::start(arch, folder.path(), flags);
        let is_over = AtomicBool::new(false);
        let answered = thread::scope(|scope| {
            let visitor = scope.spawn(|| {
                let mut visits = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let page = &pages[visits % pages.len()];
                    let reply = server.get(&format!("/{page}"));
                    assert_eq!((reply.status, &*reply.body), (200, page.as_bytes()), "{arch}");
                    visits += 1;
                    thread::sleep(Duration::from_millis(5));
                }
                visits
            });
            let kinds: [fn(usize) -> String; 3] = [
                |number| format!("/new-{number}"),
                |number| format!("/sub/deep/new-{number}.html"),
                |number| format!("/new/{number}/index.php"),
            ];
            let answered = kinds.map(|name| {
                // A helper process needs a while to be there; so somebody has asked for another name before.
                if arch == PROCESSES {
                    assert_eq!(server.get(&name(NAMES)).status, 404, "{arch}");
                }
                (name(0), flood(&server, name))
            });
            is_over.store(true, Ordering::Relaxed);
            assert!(visitor.join().expect("the visitor is served") > 0, "{arch}");
            answered
        });
        let said = server.stop();
        for (name, statuses) in answered {
            assert_eq!(statuses, BTreeMap::from([(404, NAMES)]), "{arch}: {name}: {said}");
        }
        if let Some(jobs) = told(&said, "helper_jobs") {
            // Those that were asked for before the folders had been read.
            assert!(jobs < NAMES as u64, "{arch}: {said}");
            assert_eq!(told(&said, "queue_full"), Some(0), "{arch}: {said}");
        }
    }
}

/// The fallback costs what the missing name costs: the caches hold it.
#[test]
fn each_missing_name_gets_the_fallback_from_memory() {
    let site = site::make();
    for arch in ["amped", PROCESSES, "uring"] {
        let flags = ["--fallback", "/index.html", "--revalidate", "20s"];
        let server = Server::start(arch, site.path(), &flags);
        assert_eq!(server.get("/new").status, 200, "{arch}");
        let statuses = flood(&server, |number| format!("/new-{number}.html"));
        for _ in 0..300 {
            assert_eq!(server.get("/hot").body, b"home\n", "{arch}");
        }
        let said = server.stop();
        assert_eq!(statuses, BTreeMap::from([(200, NAMES)]), "{arch}: {said}");
        let jobs = told(&said, "helper_jobs").expect("it counts them");
        assert!(jobs < 300, "{arch}: {said}");
    }
}

/// Its names are held in memory, and all the same it is there for the first who asks.
#[test]
fn a_file_is_served_as_soon_as_it_is_there() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arch in ARCHITECTURES {
        let _ = fs::remove_dir_all(folder.path().join("sub"));
        fs::create_dir_all(folder.path().join("sub")).unwrap();
        thread::sleep(Duration::from_millis(50));
        let server = Server::start(arch, folder.path(), &[]);
        for number in 0..if arch == PROCESSES { 3 } else { 30 } {
            for other in 0..3 {
                assert_eq!(server.get(&format!("/sub/none-{number}-{other}")).status, 404, "{arch}");
            }
            let page = format!("page-{number}");
            site::write(&folder.path().join("sub").join(&page), page.as_bytes());
            let give_up = Instant::now() + PATIENCE;
            // A helper process tells names that are believed for as long as an answer is.
            while arch == PROCESSES && server.get(&format!("/sub/{page}")).status == 404 {
                assert!(Instant::now() < give_up, "{arch}: {page} is never found");
                thread::sleep(Duration::from_millis(50));
            }
            let reply = server.get(&format!("/sub/{page}"));
            assert_eq!((reply.status, &*reply.body), (200, page.as_bytes()), "{arch}");
            thread::sleep(Duration::from_millis(if number % 2 == 0 { 30 } else { 0 }));
        }
        server.stop();
    }
}
