//! Access rules in every architecture: networks, and limits that all loops and processes share.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, Server, connect, family, read_all, site, wait_for};

const CLOSE: &str = "HTTP/1.1\r\nHost: h\r\nConnection: close\r\n";

fn ask_from(server: &Server, last: u8, fields: &str) -> Reply {
    let mut stream = server.connect_from(Ipv4Addr::new(127, 0, 0, last));
    stream.write_all(format!("GET /a.txt {CLOSE}{fields}\r\n").as_bytes()).expect("the server takes it");
    reply::only(&read_all(&mut stream))
}

#[test]
fn networks_are_allowed_and_denied() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let flags = ["--allow", "127.0.0.0/29", "--deny", "127.0.0.3", "--processes", "1"];
        let server = Server::start(arch, site.path(), &flags);
        let statuses = [1, 3, 7, 8].map(|last| ask_from(&server, last, "").status);
        assert_eq!(statuses, [200, 403, 200, 403], "{arch}");
        // A forged field changes nothing.
        assert_eq!(ask_from(&server, 8, "X-Forwarded-For: 127.0.0.1\r\n").status, 403, "{arch}");
        let give_up = Instant::now() + Duration::from_secs(10);
        while !server.said().contains("/a.txt: 403: --allow and --deny do not admit the client's address") {
            assert!(Instant::now() < give_up, "{arch}: {}", server.said());
        }
        server.stop();
    }
}

#[test]
fn a_limit_is_one_for_all_loops_and_processes() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--limit", "1/m burst 6"]);
        // Connections at once reach different loops and processes.
        let mut streams: Vec<_> = (0..12).map(|_| connect(server.address)).collect();
        for stream in &mut streams {
            stream.write_all(format!("GET /a.txt {CLOSE}\r\n").as_bytes()).expect("the server takes it");
        }
        let answers: Vec<Reply> = streams.iter_mut().map(|stream| reply::only(&read_all(stream))).collect();
        let refused = answers.iter().filter(|reply| reply.status == 429).count();
        assert_eq!((answers.iter().filter(|reply| reply.status == 200).count(), refused), (6, 6), "{arch}");
        let wait = answers.iter().find_map(|reply| reply.field("Retry-After"));
        let seconds: u64 = wait.and_then(|wait| wait.parse().ok()).expect("a number");
        assert!((1..=60).contains(&seconds), "{arch}: {seconds}");
        assert_eq!(ask_from(&server, 2, "").status, 200, "{arch}: another client");
        assert_eq!(ask_from(&server, 1, "X-Forwarded-For: 127.0.0.5\r\n").status, 429, "{arch}");
        server.stop();
    }
}

/// Connects from this client, and asks for a file. The connection stays open if it may.
fn keep(server: &Server, last: u8) -> (TcpStream, u16) {
    let mut stream = server.connect_from(Ipv4Addr::new(127, 0, 0, last));
    // One that is turned away may be closed already.
    let _ = stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("a status line");
    let status = String::from_utf8_lossy(&head[9..]).parse().expect("a status");
    (stream, status)
}

#[test]
fn a_client_has_so_many_connections() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--connections-per-client", "3"]);
        let kept: Vec<_> = (0..3).map(|_| keep(&server, 2)).collect();
        assert!(kept.iter().all(|(_, status)| *status == 200), "{arch}");
        // Meanwhile mp has parked them.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(keep(&server, 2).1, 429, "{arch}");
        assert_eq!(keep(&server, 3).1, 200, "{arch}: another client");
        wait_for("a line names the client", || server.said().contains("client 127.0.0.2: 429: "));
        drop(kept);
        let give_up = Instant::now() + Duration::from_secs(10);
        while keep(&server, 2).1 != 200 {
            assert!(Instant::now() < give_up, "{arch}: their places are free again");
            std::thread::sleep(Duration::from_millis(20));
        }
        server.stop();
    }
}

#[test]
fn a_killed_worker_leaves_no_count() {
    let site = site::make();
    let server = Server::start("mp", site.path(), &["--connections-per-client", "1", "--processes", "2"]);
    // A head that is not complete keeps its worker.
    let mut stream = server.connect_from(Ipv4Addr::new(127, 0, 0, 2));
    stream.write_all(b"GET /a.txt HTTP/1.1\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(keep(&server, 2).1, 429);
    for worker in family::of(&server).into_iter().filter(|process| process.name().starts_with("worker-")) {
        worker.kill();
    }
    let give_up = Instant::now() + Duration::from_secs(10);
    while keep(&server, 2).1 != 200 {
        assert!(Instant::now() < give_up, "the count of the killed worker is gone");
        std::thread::sleep(Duration::from_millis(50));
    }
    server.stop();
}

/// Behind a proxy a connection is counted once its header has named the client.
#[test]
fn a_killed_worker_leaves_no_count_behind_a_proxy() {
    let site = site::make();
    let flags =
        ["--listen", "127.0.0.1:0,proxy-protocol", "--connections-per-client", "1", "--processes", "2"];
    let server = Server::start("mp", site.path(), &flags);
    let said = server.said();
    let address = said.split("http://").nth(2).and_then(|rest| rest.split('/').next()).expect("an address");
    let address = address.parse().expect("it is one");
    let begin = |rest: &str| {
        let mut stream = flash_tests::connect(address);
        let header = "PROXY TCP4 198.51.100.9 192.0.2.1 4711 80\r\nGET /a.txt HTTP/1.1\r\n";
        stream.write_all(format!("{header}{rest}").as_bytes()).expect("it is taken");
        stream
    };
    let status =
        || reply::only(&flash_tests::read_all(&mut begin("Host: h\r\nConnection: close\r\n\r\n"))).status;
    let wait_for = |what: &str, wanted: u16| {
        let give_up = Instant::now() + Duration::from_secs(10);
        while status() != wanted {
            assert!(Instant::now() < give_up, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    // A head that is not complete keeps its worker.
    let _kept = begin("");
    wait_for("the connection is counted", 429);
    for worker in family::of(&server).into_iter().filter(|process| process.name().starts_with("worker-")) {
        worker.kill();
    }
    wait_for("the count of the killed worker is gone", 200);
    server.stop();
}

#[test]
fn sites_and_places_have_rules_of_their_own() {
    let (folder, site) = (tempfile::tempdir().unwrap(), site::make());
    let file = folder.path().join("flash.toml");
    let root = site.path().display();
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n\
         [site.\"open\"]\nroot = \"{root}\"\n\"/sub\" = {{ allow = [\"10.0.0.0/8\"] }}\n\
         [site.\"few\"]\nroot = \"{root}\"\nlimit = \"1/h\"\n\
         [site.\"others\"]\nroot = \"{root}\"\nlimit = \"1/h\"\n\
         [site.\"closed\"]\nroot = \"{root}\"\ndeny = [\"127.0.0.0/8\", \"*.css\"]\n"
    );
    fs::write(&file, text).unwrap();
    let server = Server::start_configured(&file, &[]);
    let ask = |(host, path): (&str, &str)| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        reply::only(&server.raw(request.as_bytes())).status
    };
    let statuses =
        ["open", "few", "few", "others", "others", "closed", "open"].map(|host| ask((host, "/a.txt")));
    assert_eq!(statuses, [200, 200, 429, 200, 429, 403, 200]);
    assert_eq!(["/sub", "/sub/x", "/subway"].map(|path| ask(("open", path))), [403, 403, 404]);
    server.stop();
}

/// Addresses behind a proxy.
#[test]
fn a_flood_of_addresses_takes_no_memory() {
    let site = site::make();
    let listen = ["--listen", "127.0.0.1:0,proxy-protocol", "--limit", "5/s", "--loops", "1"];
    let server = Server::start("amped", site.path(), &listen);
    let said = server.said();
    let proxied =
        said.split("http://").nth(2).and_then(|rest| rest.split('/').next()).unwrap().parse().unwrap();
    let flood = |from: u32, count: u32| {
        for number in from..from + count {
            let ip = Ipv4Addr::from_bits(0x0a00_0000 + number * 251);
            let header = format!("PROXY TCP4 {ip} 192.0.2.1 1 80\r\nGET /a.txt {CLOSE}\r\n");
            let mut stream = connect(proxied);
            stream.write_all(header.as_bytes()).expect("the server takes it");
            assert_eq!(reply::only(&read_all(&mut stream)).status, 200, "{ip}");
        }
    };
    flood(0, 500);
    let before = resident_kib(&server);
    flood(1000, 3000);
    let after = resident_kib(&server);
    // The table has its pages touched, at most a MiB of them.
    assert!(after < before + 1024 + 512, "{before} KiB, and then {after}");
    server.stop();
}

fn resident_kib(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
