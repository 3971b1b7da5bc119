//! What the processes of mp tell of themselves: jobs, blocks, slow requests, devices and certificates.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

use flash_slowdisk::SlowDisk;
use flash_tests::{site, wait_for};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::Value;

use crate::setup::Setup;

fn status(setup: &Setup) -> Value {
    serde_json::from_str(&setup.ask("/status.json").1).expect("it is JSON")
}

fn list<'v>(of: &'v Value, name: &str) -> &'v [Value] {
    of[name].as_array().expect("a list")
}

#[test]
fn processes_that_wait_for_a_disk_say_so() {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return;
    }
    let (folder, behind) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    for n in 0..20 {
        site::write(&behind.path().join(format!("{n}.txt")), b"far");
    }
    fs::create_dir(folder.path().join("far")).expect("a folder");
    site::write(&folder.path().join("a.txt"), b"a");
    let disk = SlowDisk::mount(behind.path(), &folder.path().join("far"), "lookup delay fixed:30ms")
        .expect("a slow disk");
    let setup = Setup::start_in(folder.path(), "mp", &[]);
    assert_eq!(setup.server.get("/a.txt").status, 200);
    assert_eq!(setup.server.get("/far/1.txt").status, 200);
    let mut blocked = Value::Null;
    wait_for("the block", || {
        let status = status(&setup);
        let found =
            list(&status["workers"], "list").iter().find(|of| of["last_block"]["path"] == "/far/1.txt");
        blocked = found.cloned().unwrap_or_default();
        found.is_some()
    });
    assert!(blocked["blocks"].as_u64() >= Some(1) && blocked["pid"].as_u64() > Some(0), "{blocked}");
    let block = &blocked["last_block"];
    assert_eq!(
        (&block["call"], &block["cause"]),
        (&"openat2".into(), &"FUSE or NFS request".into()),
        "{blocked}"
    );
    assert!(block["duration_us"].as_u64() >= Some(25_000), "{block}");
    wait_for("the slow request", || {
        list(&status(&setup), "slowest").iter().any(|of| of["request"] == "GET /far/1.txt HTTP/1.1")
    });
    disk.rule("hang prefix /").expect("a rule");
    let mount = format!("{} (fuse)", folder.path().join("far").display());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| setup.server.get("/far/2.txt").status);
        wait_for("the job", || {
            let status = status(&setup);
            let job = |of: &Value| of["job"]["path"] == "/far/2.txt" && of["job"]["mount"] == *mount;
            let device =
                |of: &Value| of["mount"] == *mount && of["in_flight"] == 1 && of["healthy"].is_null();
            list(&status["workers"], "list").iter().any(job) && list(&status, "devices").iter().any(device)
        });
        wait_for("a second", || setup.ask("/status.txt").1.contains("! slow"));
        let metrics = setup.ask("/metrics").1;
        let series = format!("flash_device_jobs_in_flight{{mount=\"{mount}\",kind=\"files\"}} 1\n");
        assert!(metrics.contains(&series) && !metrics.contains("flash_device_healthy{"), "{metrics}");
        // The disk goes on.
        disk.clear();
        assert_eq!(waiting.join().expect("it ends"), 200);
    });
    wait_for("the end of the job", || {
        list(&status(&setup)["workers"], "list").iter().all(|of| of["job"].is_null())
    });
    setup.server.stop();
}

/// Puts a certificate that ends with this year in the place of the present one.
fn certify(certificate: &Path, key: &Path, year: i32) {
    let mut params = CertificateParams::new(vec!["own.example".into()]).expect("names");
    params.not_after = date_time_ymd(year, 12, 31);
    let pair = KeyPair::generate().expect("keys");
    let signed = params.self_signed(&pair).expect("a certificate");
    let before = fs::metadata(certificate).ok();
    for (path, text) in [(key, pair.serialize_pem()), (certificate, signed.pem())] {
        fs::write(path.with_extension("new"), text).expect("a file");
        fs::rename(path.with_extension("new"), path).expect("it takes its place");
    }
    assert_ne!(before.map(|of| of.ino()), fs::metadata(certificate).ok().map(|of| of.ino()));
}

#[test]
fn certificates_are_those_that_processes_show() {
    for arch in ["amped", "mp"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
        certify(&certificate, &key, 2040);
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let (c, k) = (text(&certificate), text(&key));
        let flags = ["--tls-certificate", &c, "--tls-key", &k, "--tls-renewal", "1s"];
        let setup = Setup::start(arch, &flags);
        let ends_in = |year: i64| {
            let status = status(&setup);
            let [own] = list(&status, "certificates") else { return false };
            assert_eq!(own["names"], "own.example", "{arch}");
            let years = own["not_after_unix_s"].as_i64().expect("a number") / (365 * 86_400 + 86_400 / 4);
            // The last day of a year.
            (1970 + years - year).abs() <= 1
        };
        wait_for("the certificate", || ends_in(2040));
        assert!(setup.ask("/status.txt").1.contains("CERTIFICATES"), "{arch}");
        certify(&certificate, &key, 2060);
        wait_for("the renewed certificate", || ends_in(2060));
        setup.server.stop();
    }
}

#[test]
fn a_process_that_is_killed_is_forgotten() {
    let setup = Setup::start("mp", &[]);
    let pids = || -> Vec<u64> {
        let status = status(&setup);
        list(&status["workers"], "list").iter().map(|of| of["pid"].as_u64().expect("a number")).collect()
    };
    wait_for("both workers", || pids().len() == 2);
    let before = pids();
    let victim = rustix::process::Pid::from_raw(before[0] as i32).expect("its number");
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).expect("it is there");
    wait_for("its successor", || {
        let now = pids();
        now.len() == 2 && now.contains(&before[1]) && !now.contains(&before[0])
    });
    setup.server.stop();
}
