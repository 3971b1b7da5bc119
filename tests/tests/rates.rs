//! Rates of bytes in every architecture: one client over any number of connections, with HTTP/1, TLS and HTTP/2, and programs and links
//! that say a rate.

#![forbid(unsafe_code)]

#[path = "tls/client.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod client;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use client::Authority;
use flash_tests::{PROCESSES, Server, arch_settings, each, need, program, set_mode, site};
use tempfile::TempDir;

const RATE: u64 = 2 << 20;
const BURST: u64 = 512 << 10;
/// What a client gets in a test.
const BYTES: u64 = 6 << 20;
/// How much longer than its rate wants a client may take on a machine that is busy with other tests, and how often even more.
const BUSY: f64 = 1.5;
const ATTEMPTS: usize = 4;

/// A folder with files of a whole, a fifth and a sixteenth of the bytes.
struct Made {
    folder: TempDir,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().join("root");
        fs::create_dir(&root).expect("a folder");
        fs::create_dir(folder.path().join("programs")).expect("a folder");
        for path in [folder.path(), &root] {
            set_mode(path, 0o755);
        }
        for parts in [1, 5, 16] {
            site::write(&root.join(format!("{parts}.bin")), &site::pattern((BYTES / parts) as usize));
        }
        Self { folder }
    }

    fn config(&self, arch: &str) -> PathBuf {
        self.folder.path().join(format!("{arch}.toml"))
    }

    fn configure(&self, arch: &str, of_server: &str, of_site: &str) -> Server {
        let text = format!(
            "listen = '127.0.0.1:0'\nadmin = 'off'\n{}{of_server}\n[site.'*']\nroot = 'root'\n{of_site}\n",
            arch_settings(arch)
        );
        fs::write(self.config(arch), text).expect("the file is written");
        Server::start_configured(&self.config(arch), &[])
    }
}

/// Times the command until it takes about as long as the rate wants it to. It is never faster.
#[track_caller]
fn assert_paced(what: &str, bytes: u64, burst: u64, mut run: impl FnMut() -> Command) {
    let expected = (bytes - burst) as f64 / RATE as f64;
    let mut took = Vec::new();
    for _ in 0..ATTEMPTS {
        // The client has all of its burst again.
        std::thread::sleep(Duration::from_secs_f64(burst as f64 / RATE as f64));
        let begun = Instant::now();
        let output = run().output().expect("the client runs");
        let seconds = begun.elapsed().as_secs_f64();
        assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(seconds > expected * 0.95, "{what}: {seconds:.3} s, not {expected:.3} s");
        if seconds < expected * BUSY {
            return;
        }
        took.push(seconds);
    }
    panic!("{what}: {took:.3?} s, not {expected:.3} s");
}

/// Gets all parts at the same time. Over HTTP/2 they are streams of one connection.
fn curl(server: &Server, scheme: &str, version: &str, parts: u64) -> Command {
    let mut curl = Command::new(need("curl", "curl"));
    curl.args(["-sSkfZ", "--parallel-max", "16", version, "-o", "/dev/null"]);
    curl.arg(format!("{scheme}://{}/{parts}.bin?[1-{parts}]", server.address));
    curl
}

fn paced_in_all(scheme: &str, version: &str, of_server: &str) {
    let made = Made::new();
    each(|arch| {
        let server = made.configure(arch, of_server, "rate = '2M/s burst 512K'");
        for parts in [1, 5, 16] {
            let what = format!("{arch}: {scheme} {version}, {parts} at a time");
            assert_paced(&what, BYTES, BURST, || curl(&server, scheme, version, parts));
        }
        server.stop();
    });
}

#[test]
fn a_client_has_one_rate_over_all_connections_of_http_1() {
    paced_in_all("http", "--http1.1", "");
}

/// The setting of a certificate for this machine.
fn tls(authority: &Authority) -> String {
    let (certificate, key) = authority.issue("localhost", &["localhost", "127.0.0.1"]);
    format!("tls = {{ certificate = '{certificate}', key = '{key}' }}\n")
}

#[test]
fn a_client_has_one_rate_over_all_connections_of_tls() {
    paced_in_all("https", "--http1.1", &tls(&Authority::new()));
}

#[test]
fn a_client_has_one_rate_over_all_streams_of_http_2() {
    paced_in_all("https", "--http2", &tls(&Authority::new()));
}

#[test]
fn aria2_gets_no_more_over_sixteen_connections() {
    let (made, aria2) = (Made::new(), need("aria2c", "aria2"));
    site::write(&made.folder.path().join("root/large.bin"), &site::pattern(3 * BYTES as usize));
    for arch in ["amped", "uring", "mp"] {
        let server = made.configure(arch, "", "rate = '2M/s burst 512K'");
        assert_paced(arch, 3 * BYTES, BURST, || {
            let mut aria2 = Command::new(&aria2);
            aria2.args([
                "-q",
                "--no-conf",
                "-x16",
                "-s16",
                "-k1M",
                "--file-allocation=none",
                "--allow-overwrite=true",
                "-d",
            ]);
            aria2.arg(made.folder.path()).arg(format!("http://{}/large.bin", server.address));
            aria2
        });
        assert_eq!(
            fs::read(made.folder.path().join("large.bin")).unwrap(),
            site::pattern(3 * BYTES as usize),
            "{arch}"
        );
        server.stop();
    }
}

#[test]
fn programs_and_links_say_another_rate() {
    let made = Made::new();
    fs::write(made.folder.path().join("links.key"), "0123456789abcdef").expect("a key");
    let script = made.folder.path().join("programs/slow");
    let says = format!("#!/bin/sh\nprintf 'X-Accel-Limit-Rate: {RATE}\\n\\n'\nhead -c {BYTES} /dev/zero\n");
    fs::write(&script, says).expect("a script");
    set_mode(&script, 0o755);
    each(|arch| {
        // In a sandbox a server connects to nobody.
        let sandbox = if arch == PROCESSES { "sandbox = 'off'\n" } else { "" };
        let rules = "cgi = { '/cgi' = 'programs' }\nrate = '200M/s burst 100M'\n'/16.bin' = { rate = '64K/s' }\n\
                     '/1.bin' = { signed = { key = { file = 'links.key' } } }";
        let server = made.configure(arch, sandbox, rules);
        let get = |target: &str| {
            let mut curl = Command::new(need("curl", "curl"));
            curl.args(["-sSf", "-o", "/dev/null"]).arg(format!("http://{}{target}", server.address));
            curl
        };
        assert_paced(&format!("{arch}: a program"), BYTES, RATE / 4, || get("/cgi/slow"));
        let url = format!("http://{}/1.bin", server.address);
        let mut sign = Command::new(program());
        sign.args(["sign", &url, "--expires", "1h", "--rate", "2M/s burst 512K", "--config"])
            .arg(made.config(arch));
        let link = String::from_utf8(sign.output().expect("flash runs").stdout).expect("a link");
        let target = link.trim_end().strip_prefix(&format!("http://{}", server.address)).expect("its URL");
        assert_paced(&format!("{arch}: a link"), BYTES, BURST, || get(target));
        // The rate of the site is not in the way of others.
        let begun = Instant::now();
        assert!(get("/5.bin?[1-10]").status().expect("curl runs").success(), "{arch}");
        assert!(begun.elapsed() < Duration::from_secs(2 * BYTES / RATE - 1), "{arch}");
        server.stop();
    });
}

#[test]
fn wrong_rates_are_errors_with_their_lines() {
    let made = Made::new();
    for (rules, why) in [
        ("rate = '0/s'", "a rate has 1 byte per second at least"),
        ("rate = '2M'", "write it as \"2M/s\" or \"2M/s burst 20M\""),
        ("rate = 2", "`rate` takes a text in quotes"),
        ("'/a' = { rate = '2M/s burst 0' }", "a burst has 1 byte at least"),
        ("'/a' = { rate-total = '2M/s' }", "`rate-total` holds for a whole site"),
        ("rate-total = '0M/s'", "a rate has 1 byte per second at least"),
    ] {
        let config = made.config("wrong");
        fs::write(&config, format!("[site.'*']\nroot = 'root'\n{rules}\n")).unwrap();
        let output = Command::new(program()).args(["check", "--config"]).arg(&config).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(2) && said.contains(why) && said.contains("wrong.toml:3:"),
            "{rules}: {said}"
        );
    }
}
