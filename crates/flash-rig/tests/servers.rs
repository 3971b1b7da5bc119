//! Every server that is installed starts in every variant, sends the right bytes, is measured, and ends with all that
//! it started.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flash_rig::{
    Cpus, Dynamic, Machine, Program, Running, ServerSpec, Setup, VARIANTS, fetch, raise_descriptors,
};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use tempfile::TempDir;

const CONNECTIONS: usize = 10_000;

struct Bench {
    folder: TempDir,
    machine: Machine,
    cpus: Cpus,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["journal", "site", "work"] {
            fs::create_dir(folder.path().join(name)).expect("a new folder");
        }
        fs::write(folder.path().join("site/a.html"), CONTENT).expect("a file");
        // Workers give up the superuser's rights, and must find the site all the same.
        open_to_all(folder.path());
        let machine = Machine::take_with(&folder.path().join("journal")).expect("a journal of our own");
        Bench { folder, machine, cpus: Cpus::shared().expect("processors") }
    }

    /// Starts a server, or prints what is missing.
    fn start(&self, spec: &ServerSpec, change: impl FnOnce(&mut Setup)) -> Option<Running> {
        let program = match spec.variant.program {
            Program::Flash => {
                std::env::var_os("FLASH_BIN").map(PathBuf::from).map_or_else(|| spec.find(), Ok)
            }
            _ => spec.find(),
        };
        let program = match program {
            Ok(program) => program,
            Err(missing) => {
                eprintln!("NOT TESTED: {spec}: {missing}");
                return None;
            }
        };
        let (site, work) = (self.folder.path().join("site"), self.folder.path().join("work"));
        let mut setup = Setup { program: Some(&program), ..Setup::new(&site, &work, &self.cpus) };
        change(&mut setup);
        Some(self.machine.start(spec, &setup).unwrap_or_else(|error| panic!("{spec}: {error:#}")))
    }
}

const CONTENT: &[u8] = b"<p>as it should be</p>\n";

/// Processes of mp that do not serve: the parent, and the one that executes a successor.
const OF_MP: u64 = 2;

fn open_to_all(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("our folder");
}

/// All servers but the floor, which serves no files.
fn servers() -> impl Iterator<Item = ServerSpec> {
    let variants = VARIANTS.iter().filter(|variant| variant.program != Program::Floor);
    variants.map(|variant| ServerSpec { variant, flags: Vec::new() })
}

#[test]
fn every_server_serves_is_measured_and_ends() {
    let bench = Bench::new();
    for spec in servers() {
        let Some(mut running) = bench.start(&spec, |setup| (setup.loops, setup.threads) = (2, Some(3)))
        else {
            continue;
        };
        running.verify("/a.html", CONTENT).unwrap_or_else(|error| panic!("{spec}: {error:#}"));
        assert!(running.verify("/a.html", b"other").is_err(), "{spec}");
        let used = running.process.usage().expect("figures");
        assert!(used.cpu_ns > 100_000 && used.threads >= used.processes, "{spec}: {used:?}");
        let memory = running.process.memory().expect("figures");
        assert!(memory.pss_bytes > 100_000, "{spec}: {memory:?}");
        let metrics = running.metrics().expect("it speaks");
        assert_eq!(metrics.is_some(), spec.is_flash(), "{spec}");
        if let Some(metrics) = metrics {
            assert_eq!(metrics.count("requests"), Some(2), "{spec}");
        }
        let pids = running.process.pids();
        let last = running.stop();
        assert_eq!(last.is_some(), spec.is_flash() && spec.variant.name != "mp", "{spec}");
        if let Some(last) = last {
            assert_eq!(last.count("requests"), Some(2), "{spec}");
            let turns = last.ready().values().sum::<u64>();
            assert_eq!(turns > 0, spec.variant.name != "mt", "{spec}: {last:?}");
        }
        for pid in pids {
            // What nobody has asked for yet is still listed, as a zombie.
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
            assert!(stat.is_empty() || stat.contains(") Z "), "{spec} left {stat}");
        }
    }
}

#[test]
fn a_server_that_is_asked_to_end_tells_how_it_went() {
    let bench = Bench::new();
    let spec: ServerSpec = "mp --processes 3".parse().expect("a server");
    let Some(running) = bench.start(&spec, |_| {}) else { return };
    // It accepts before all of its processes are there.
    let end = Instant::now() + Duration::from_secs(20);
    while running.process.held().processes < 3 + OF_MP && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let held = running.process.held();
    assert_eq!(held.processes, 3 + OF_MP, "{held:?}");
    assert!(held.descriptors > 8 && held.threads >= 4 && held.anonymous_bytes > 100_000, "{held:?}");
    let ended = running.process.terminate(Duration::from_secs(20));
    assert!(ended.status.is_some_and(|status| status.success()), "{ended:?}");
    assert!(ended.left_behind.is_empty() && ended.took < Duration::from_secs(20), "{ended:?}");
}

#[test]
fn loops_and_threads_are_what_was_asked_for() {
    let bench = Bench::new();
    for (name, processes) in [
        ("nginx", 3),
        ("lighttpd", 3),
        ("apache-worker", 3),
        ("apache-prefork", 6),
        ("mp", 5 + OF_MP as usize),
    ] {
        let spec: ServerSpec = name.parse().expect("a server");
        let Some(running) = bench.start(&spec, |setup| (setup.loops, setup.threads) = (2, Some(5))) else {
            continue;
        };
        // Apache's children come one by one.
        let enough = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            running.process.pids().len() >= processes
        });
        assert!(enough, "{name}: {} of {processes}", running.process.pids().len());
        assert_eq!(running.process.pids().len(), processes, "{name}");
    }
}

#[test]
fn ten_thousand_connections_stay() {
    let bench = Bench::new();
    raise_descriptors(CONNECTIONS).expect("ten thousand descriptors");
    let names = ["amped", "uring", "sped", "nginx", "nginx-threads", "h2o", "lighttpd", "caddy", "apache"];
    for (name, net) in names.into_iter().zip(0..) {
        let spec: ServerSpec = name.parse().expect("a server");
        let Some(running) = bench.start(&spec, |setup| setup.connections_max = CONNECTIONS) else { continue };
        let mut held: Vec<TcpStream> = (0..CONNECTIONS)
            .map(|n| ask(net, running.port, n).unwrap_or_else(|why| panic!("{name}: {why:#}")))
            .collect();
        // The first is still welcome.
        let again = fetch::exchange(&mut held[0], "/a.html", &[]);
        assert_eq!(again.unwrap_or_else(|why| panic!("{name}: {why:#}")).body, CONTENT);
    }
}

/// A connection that has had one response, from one of several addresses. One address has too few ports, and the ports of the
/// server before are not free yet.
fn ask(net: u8, port: u16, n: usize) -> anyhow::Result<TcpStream> {
    let source = Ipv4Addr::new(127, 1, net, 1 + (n / 2_500) as u8);
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddrV4::new(source, 0))?;
    connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    fetch::exchange(&mut stream, "/a.html", &[])?;
    Ok(stream)
}

#[test]
fn a_server_that_fails_is_quoted() {
    let bench = Bench::new();
    let (site, work) = (bench.folder.path().join("nowhere"), bench.folder.path().join("work"));
    let setup = Setup { program: Some("/bin/sh".as_ref()), ..Setup::new(&site, &work, &bench.cpus) };
    // A shell that is told to serve finds no such script.
    let error = bench.machine.start(&"amped".parse().expect("a server"), &setup).err().expect("no server");
    let error = format!("{error:#}");
    assert!(error.contains("starting amped") && error.contains("ended at once"), "{error}");
    assert!(error.contains("serve"), "its own words are in it: {error}");
}

/// Both say what was asked, as programs do that have been told.
const CGI: &str = r#"#!/bin/sh
said="$QUERY_STRING $DOCUMENT_ROOT"
printf 'Content-Type: text/plain\r\nContent-Length: %s\r\n\r\n%s' ${#said} "$said"
"#;
const SCRIPT: &str = r#"<?php
$said = "{$_SERVER['QUERY_STRING']} {$_SERVER['DOCUMENT_ROOT']}";
header('Content-Length: ' . strlen($said));
echo $said;
"#;

/// The whole answer, without chunks: Apache trusts no length that a program says.
fn ask_once(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: rig\r\n\r\n").expect("a request");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    said
}

#[test]
fn peers_run_programs_and_speak_to_php() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let (site, work) = (bench.folder.path().join("site"), bench.folder.path().join("work"));
    fs::create_dir(site.join("cgi-bin")).expect("a new folder");
    fs::write(site.join("cgi-bin/hello"), CGI).expect("a file");
    fs::set_permissions(site.join("cgi-bin/hello"), fs::Permissions::from_mode(0o755)).expect("our file");
    fs::write(site.join("hello.php"), SCRIPT).expect("a file");
    let php = match flash_rig::Php::find() {
        Ok(program) => {
            assert!(flash_rig::php_version(&program).expect("it runs").starts_with("PHP "));
            let setup = Setup::new(&site, &work, &bench.cpus);
            Some(bench.machine.start_php(&setup).unwrap_or_else(|error| panic!("{error:#}")))
        }
        Err(missing) => {
            eprintln!("NOT TESTED: {missing}");
            None
        }
    };
    let dynamic = Dynamic { php: php.as_ref().map(|php| php.socket.as_path()) };
    for (name, runs_cgi) in [
        ("apache", true),
        ("apache-worker", true),
        ("apache-prefork", true),
        ("lighttpd", true),
        ("nginx", false),
        ("nginx-threads", false),
    ] {
        let spec: ServerSpec = name.parse().expect("a server");
        if let Err(missing) = spec.find() {
            eprintln!("NOT TESTED: {missing}");
            continue;
        }
        let setup = Setup { dynamic: Some(dynamic), ..Setup::new(&site, &work, &bench.cpus) };
        let running = bench.machine.start(&spec, &setup).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let verify = |path: &str, content: &str| {
            let said = ask_once(running.port, path);
            assert!(said.starts_with("HTTP/1.") && said.contains(" 200 "), "{name}: {said}");
            assert_eq!(said.split_once("\r\n\r\n").map(|(_, body)| body), Some(content), "{name}: {said}");
        };
        running.verify("/a.html", CONTENT).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        // More than once: connections are kept, and what started a program starts the next.
        for _ in 0..5 {
            if runs_cgi {
                verify("/cgi-bin/hello?you", &format!("you {}", site.display()));
            }
            if php.is_some() {
                verify("/hello.php?you", &format!("you {}", site.display()));
            }
        }
    }
    let caddy: ServerSpec = "caddy".parse().expect("a server");
    let setup = Setup { dynamic: Some(dynamic), ..Setup::new(&site, &work, &bench.cpus) };
    let error = bench.machine.start(&caddy, &setup).err().map(|error| format!("{error:#}"));
    assert!(error.is_some_and(|error| error.contains("not set up for programs")));
}
