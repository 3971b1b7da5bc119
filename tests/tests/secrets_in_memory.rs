//! Keys and passwords are in the memory of the processes that serve, and of no other.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flash_tests::family::{self, Process};
use flash_tests::{ARCHITECTURES, Server, arch_settings, is_superuser, scripts, set_mode, wait_for};
use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use tempfile::TempDir;

const HASH: &str = "$2b$04$abcdefghijklmnopqrstuuuz8dLDKHdaIkqWTeEJl8dWScfl4UwcG";
const PAGE_BYTES: u64 = 4096;
const STICKY_KEY: &str = "another key that nobody has but the server of this test";
const LINK_KEY: &str = "one key that nobody has but the server of this test";

/// Files of secrets that the server's user may read: nothing but the order of things keeps its other processes from having them.
fn folder() -> (TempDir, Vec<(&'static str, Vec<u8>)>) {
    let folder = scripts::make();
    scripts::script(folder.path(), "x", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nx'\n");
    let key = KeyPair::generate().expect("a key");
    let certificate =
        CertificateParams::new(["localhost".into()]).and_then(|params| params.self_signed(&key));
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("the file is written");
        set_mode(path, 0o644);
    };
    write("certificate", &certificate.expect("a certificate").pem());
    write("key", &key.serialize_pem());
    write("users", &format!("bob:{HASH}\n"));
    write("links", LINK_KEY);
    write("sticky", STICKY_KEY);
    // RFC 5915: the number that is secret stands behind the version and the curve.
    let number = key.serialize_der()[36..68].to_vec();
    let text = key.serialize_pem().lines().nth(2).expect("a line").as_bytes().to_vec();
    // The lowest byte is first.
    let limbs = number.iter().rev().copied().collect();
    let secrets = [
        ("the key of the certificate", number),
        ("the key as numbers of this processor", limbs),
        ("the file of the certificate's key", text),
        ("a password's hash", HASH.into()),
        ("the key of links", LINK_KEY.into()),
        ("the key of sessions", STICKY_KEY.into()),
    ];
    (folder, secrets.into())
}

fn write_config(folder: &Path, arch: &str, round: u32) {
    let path = |name: &str| folder.join(name).display().to_string();
    let (proxy, upstream) = match is_confined(arch) {
        true => (
            "'/app' = { proxy = 'app' }\n",
            format!(
                "[upstream.app]\nservers = 'http://127.0.0.1:9'\nsticky = {{ cookie = 'a', key = {{ file = '{}' }} }}\n",
                path("sticky")
            ),
        ),
        false => ("", String::new()),
    };
    let text = format!(
        "listen = ['127.0.0.1:0', 'https://127.0.0.1:0']\nuser = 'nobody'\ncgi = {{ '/cgi' = '{cgi}' }}\n{arch}\
         tls = {{ certificate = '{certificate}', key = '{key}' }}\nheader = {{ X-Round = '{round}' }}\n{upstream}\
         [site.'*']\nroot = '{root}'\n'/a' = {{ auth = '{users}' }}\n'/b' = {{ signed = {{ key = {{ file = '{links}' }} }} }}\n{proxy}",
        cgi = folder.display(),
        arch = arch_settings(arch),
        certificate = path("certificate"),
        key = path("key"),
        root = folder.display(),
        users = path("users"),
        links = path("links"),
    );
    fs::write(folder.join("flash.toml"), text).expect("the file is written");
}

/// A server in its sandbox, which needs most other processes.
fn is_confined(arch: &str) -> bool {
    arch.contains("process")
}

/// Which secrets a process has.
fn has(process: Process, secrets: &[(&'static str, Vec<u8>)]) -> BTreeSet<&'static str> {
    let open = |name: &str| File::open(format!("/proc/{}/{name}", process.pid));
    // It may have ended.
    let (Ok(memory), Ok(pages)) = (open("mem"), open("pagemap")) else { return BTreeSet::new() };
    let maps = fs::read_to_string(format!("/proc/{}/maps", process.pid)).unwrap_or_default();
    let mut found = BTreeSet::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, rest) = line.split_once('-').expect("a range");
        let to = rest.split(' ').next().unwrap_or_default();
        let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).expect("an address"));
        let mut entries = vec![0; ((to - from) / PAGE_BYTES * 8) as usize];
        if pages.read_exact_at(&mut entries, from / PAGE_BYTES * 8).is_err() {
            continue;
        }
        // Present, or swapped out. What was never touched is most of it.
        let is_used = |entry: &[u8]| entry[7] & 0b1100_0000 != 0;
        let mut bytes = Vec::new();
        for (number, _) in entries.chunks(8).enumerate().filter(|(_, entry)| is_used(entry)) {
            let mut page = [0; PAGE_BYTES as usize];
            let is_read = memory.read_exact_at(&mut page, from + number as u64 * PAGE_BYTES).is_ok();
            bytes.extend_from_slice(if is_read { &page } else { &[] });
        }
        let is_there = |secret: &[u8]| memchr::memmem::find(&bytes, secret).is_some();
        found.extend(secrets.iter().filter(|(_, secret)| is_there(secret)).map(|(name, _)| name));
    }
    found
}

#[test]
fn no_process_but_those_that_serve_has_keys_and_passwords() {
    if !is_superuser("memory of other processes") {
        return;
    }
    for arch in ARCHITECTURES.into_iter().chain(["uring --helpers process"]) {
        let (folder, secrets) = folder();
        write_config(folder.path(), arch, 0);
        let server = Server::start_configured(&folder.path().join("flash.toml"), &[]);
        for round in 0..2 {
            if round > 0 {
                write_config(folder.path(), arch, round);
                server.signal(Signal::HUP);
                wait_for("the reload", || server.get("/").field("X-Round") == Some(&round.to_string()));
            }
            let own = has(Process { pid: server.pid() }, &secrets);
            // Otherwise the search would say nothing.
            for needed in ["a password's hash", "the key of links", "the key as numbers of this processor"] {
                assert!(own.contains(needed), "{arch}: the search finds {own:?} in the server itself");
            }
            assert_eq!(own.contains("the key of sessions"), is_confined(arch), "{arch}: {own:?}");
            let serves =
                |process: &Process| process.pid == server.pid() || process.name().starts_with("worker-");
            let others: Vec<_> = family::of(&server).into_iter().filter(|process| !serves(process)).collect();
            let names: Vec<_> = others.iter().map(|process| process.name()).collect();
            for needed in ["flash-upgrade", "flash-supervise", "flash-opener", "flash-fork"] {
                assert!(names.iter().any(|name| name == needed), "{arch}: {names:?}");
            }
            assert!(
                !is_confined(arch) || names.iter().any(|name| name == "flash-connect"),
                "{arch}: {names:?}"
            );
            for process in others {
                let found = has(process, &secrets);
                assert!(found.is_empty(), "{arch}: {} has {found:?}", process.name());
            }
        }
        server.stop();
    }
}
