//! The program itself: its report, Ctrl-C, and what it says when it cannot begin.

#![forbid(unsafe_code)]

mod common;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::answer;
use flash_load::Report;
use rustix::process::{Pid, Signal, kill_process};

fn flash_load() -> Command {
    Command::new(env!("CARGO_BIN_EXE_flash-load"))
}

fn run(arguments: &[&str]) -> Output {
    flash_load().args(arguments).output().expect("the program runs")
}

#[test]
fn a_run_reports_in_words_and_as_json() {
    let server = answer(|visitor, _| visitor.ok("hello"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.json");
    let url = format!("http://{server}/a?b");
    let output = run(&[&url, "-n", "50", "-c", "3", "--json", path.to_str().expect("a name")]);
    assert!(output.status.success(), "{output:?}");
    let words = String::from_utf8(output.stdout).expect("text");
    assert!(words.contains("requests    50 in "), "{words}");
    let json = std::fs::read_to_string(&path).expect("a file");
    let report: Report = serde_json::from_str(&json).expect("a report");
    assert_eq!(
        (report.requests, report.body_bytes, report.errors_total, report.interrupted),
        (50, 250, 0, false)
    );
    assert!(report.latency_us.p50 <= report.latency_us.p99 && report.latency_us.p99 <= report.latency_us.max);
    assert_eq!(report.classes["all"].waits_us.iter().map(|(_, count)| count).sum::<u64>(), 50);
    let fields: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let fields = fields.as_object().expect("an object");
    let documented = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/load.md"));
    let documented = documented.expect("the page is there");
    for field in fields.keys().chain(
        [
            "capacity_requests_per_second",
            "clients",
            "conformance",
            "conforming_clients",
            "level",
            "size_bytes",
            "steps",
        ]
        .map(String::from)
        .iter(),
    ) {
        assert!(documented.contains(&format!("`{field}`")), "docs/load.md says nothing of `{field}`");
    }
}

#[test]
fn a_run_is_a_table_of_csv() {
    let server = answer(|visitor, _| visitor.ok("hello"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.csv");
    let url = format!("http://{server}/");
    let run = |csv: &str| run(&[&url, "-n", "50", "-c", "3", "-q", "--csv", csv]);
    let silent = run(path.to_str().expect("a name"));
    assert!(silent.status.success() && silent.stdout.is_empty(), "{silent:?}");
    let file = std::fs::read_to_string(&path).expect("a file");
    let printed = String::from_utf8(run("-").stdout).expect("text");
    for table in [file, printed] {
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
        let column = |name| rows[0].iter().position(|column| *column == name).expect("a column");
        let [row, class, requests] = ["row", "class", "requests"].map(column);
        let what: Vec<_> =
            rows[1..].iter().map(|cells| (cells[row], cells[class], cells[requests])).collect();
        assert_eq!(what, [("run", "", "50"), ("run", "all", "50")], "{table}");
        let p50: f64 = rows[1][column("latency_p50_us")].parse().expect("a number");
        assert!(p50 > 0.0, "{table}");
    }
}

#[test]
fn a_run_that_went_wrong_ends_with_a_failure() {
    let broken = answer(|visitor, _| visitor.say("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"));
    let output = run(&[&format!("http://{broken}/"), "-n", "5", "-q"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), &*said), (Some(1), "flash load: 5 requests failed\n"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("errors      5 (status_5xx 5)"), "{output:?}");

    let slow = answer(|visitor, _| {
        thread::sleep(Duration::from_millis(50));
        visitor.ok("hello");
    });
    let url = format!("http://{slow}/");
    let words = [&*url, "--rate", "200", "--connections", "2", "-d", "1s", "-q"];
    let full = |more: &[&str]| -> String {
        let output = run(&[&words, more].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("this is not a result: full"), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let page = full(&[]);
    for part in [
        "up to 2 connections",
        "NO RESULT   full",
        " of 200 at the end (",
        " found all connections busy",
        "≥ ",
    ] {
        assert!(page.contains(part), "no {part}: {page}");
    }
    let report: serde_json::Value = serde_json::from_str(&full(&["--json", "-"])).expect("JSON");
    assert_eq!(report["invalid"], "full");
    assert!(full(&["--csv", "-"]).contains(",full,"));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let url = format!("http://{}/", answer(|visitor, _| visitor.ok("hello")));
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    let site = site.to_str().expect("a name");
    for words in [
        &[&*url, "-n", "5"][..],
        &[&url, "-n", "5", "--json", "-"],
        &[&url, "-n", "5", "--csv", "-"],
        &["make-site", site, "--sizes", "1K"],
        &["--help"],
        &["--man"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = flash_load().args(words).stdout(writer).output().expect("the program runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    }
    let full = std::fs::File::create("/dev/full").expect("it is there");
    let output = flash_load().args([&*url, "-n", "5"]).stdout(full).output().expect("the program runs");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.code() == Some(1) && said.contains("standard output: No space left"), "{said}");
}

#[test]
fn ctrl_c_still_reports() {
    let server = answer(|visitor, _| visitor.ok("hello"));
    let url = format!("http://{server}/");
    let began = Instant::now();
    let child = flash_load()
        .args([&url, "-d", "60s", "-c", "2", "--json", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    thread::sleep(Duration::from_millis(1500));
    kill_process(Pid::from_child(&child), Signal::INT).expect("it is there");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && began.elapsed() < Duration::from_secs(10), "{output:?}");
    let report: Report = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(report.interrupted && report.requests > 100, "{report:?}");
    assert!((1.0..5.0).contains(&report.seconds), "{}", report.seconds);
    // Nobody has a terminal here, so progress was a line a second.
    let lines = String::from_utf8(output.stderr).expect("text");
    assert!(lines.lines().count() >= 1 && lines.contains("requests/s"), "{lines}");
}

#[test]
fn what_cannot_begin_says_so_in_one_line() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nobody = format!("http://{}/", listener.local_addr().expect("it is bound"));
    drop(listener);
    let server = format!("http://{}/", answer(|visitor, _| visitor.ok("hello")));
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "# nothing\n\n").expect("it can be written");
    let wrong = folder.path().join("wrong");
    std::fs::write(&wrong, "/a\nno target\n").expect("it can be written");
    let [empty, wrong] = [&empty, &wrong].map(|path| path.to_str().expect("a name"));
    let cases: [(&[&str], i32, &str); 30] = [
        (&["ftp://a/"], 2, "https://"),
        (&["http://a/", "--tls-resume", "on"], 2, "need --tls"),
        (&[&server, "--tls-groups", "x", "--tls"], 2, "X25519"),
        (&[&server, "--tls-ca", "/nowhere/ca"], 1, "/nowhere/ca"),
        (&[&server, "--streams", "3"], 2, "--http2"),
        (&["http://a:x/"], 2, "not a URL"),
        (&[&nobody], 1, "Connection refused"),
        (&["http://no-such-host.invalid/"], 1, "cannot find the host 'no-such-host.invalid'"),
        (&[&server, "--urls", "/nowhere/list"], 1, "cannot read the list /nowhere/list"),
        (&[&server, "--urls", empty], 1, "no targets in the list"),
        (&[&server, "--urls", wrong], 1, "line 2"),
        (&[&server, "--log", "/nowhere/log"], 1, "/nowhere/log"),
        (&[&server, "--json", "/nowhere/report"], 1, "cannot write to /nowhere/report"),
        (&[&server, "--csv", "/nowhere/table"], 1, "cannot write to /nowhere/table"),
        (&[&server, "--json", "-", "--csv", "-"], 2, "would mix on standard output"),
        (&[&server, "--rate", "0"], 2, "--rate"),
        (&[&server, "--rate", "5", "-c", "5"], 2, "cannot be used with"),
        (&[&server, "--recorded"], 2, "no times of its own"),
        (&[], 2, "URL"),
        (&[&server, "--synthetic", "files=x"], 2, "'files=x'"),
        (&[&server, "--synthetic", "files=0"], 2, "at least one file"),
        (&[&server, "--method", "BREW"], 2, "write one of GET, HEAD"),
        (&[&server, "--method", "HEAD", "--body-bytes", "1"], 2, "brings nothing along"),
        (&[&server, "--body", "/nowhere/body"], 1, "cannot read the body /nowhere/body"),
        (&[&server, "--find-conforming"], 2, "--min-rate"),
        (&[&server, "--min-rate", "1", "--rate", "1"], 2, "cannot be used with"),
        (&[&server, "--dynamic"], 2, "--specweb"),
        (&[&server, "--specweb", "1", "--dynamic=x"], 2, "write a path"),
        (&["make-site", "/nowhere"], 2, "say for what"),
        (&["make-site", "/proc/nowhere", "--sizes", "1K"], 1, "/proc/nowhere"),
    ];
    for (arguments, code, says) in cases {
        let output = run(arguments);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{arguments:?}: {said}");
        assert!(said.starts_with("flash load: ") && said.contains(says), "{arguments:?}: {said}");
    }
}

/// Serves the files below a folder.
fn files(root: PathBuf) -> SocketAddr {
    answer(move |visitor, head| {
        let target = head.split(' ').nth(1).expect("a target");
        let range = head.lines().find_map(|line| line.strip_prefix("Range: bytes=")?.split_once('-'));
        match (std::fs::read(root.join(&target[1..])), range) {
            (Ok(content), None) => visitor.ok(content),
            (Ok(content), Some((first, last))) => {
                let [first, last] = [first, last].map(|number| number.parse::<usize>().expect("a number"));
                let (part, whole) = (&content[first..=last], content.len());
                visitor.say(format!(
                    "HTTP/1.1 206 Part\r\nContent-Range: bytes {first}-{last}/{whole}\r\nContent-Length: {}\r\n\r\n",
                    part.len()
                ));
                visitor.say(part);
            }
            (Err(_), _) => visitor.say("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        }
    })
}

#[test]
fn a_made_site_is_asked_for_and_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    let made = run(&["make-site", site.to_str().expect("a name"), "--specweb", "1", "--seed", "7"]);
    let words = String::from_utf8(made.stdout).expect("text");
    assert!(words.contains("36 files written, 0 kept, 5.1 MB"), "{words} {:?}", made.stderr);
    let with_programs = folder.path().join("with programs");
    let made =
        run(&["make-site", with_programs.to_str().expect("a name"), "--specweb", "1", "--dynamic", "-q"]);
    assert!(made.status.success() && with_programs.join("cgi-bin/specweb99").is_file(), "{made:?}");
    let url = format!("http://{}/", files(site));
    let ask = |more: &[&str]| -> Report {
        let output =
            run(&[&[&*url, "--specweb", "1", "-c", "4", "-n", "300", "-q", "--json", "-"], more].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let report = ask(&["--verify=7", "--ranges", "0.3", "--line", "50M"]);
    assert_eq!((report.requests, report.errors_total), (300, 0), "{:?}", report.errors);
    assert!(report.statuses[&206] > 50 && report.classes.len() == 4, "{report:?}");
    assert!(report.service_inversion.is_some());
    // A session is 7.3 requests in the mean.
    assert!((25..80).contains(&report.connections), "{}", report.connections);
    let report = ask(&["--verify=8"]);
    assert_eq!((report.requests, report.errors["wrong_content"]), (0, 300));
}

#[test]
fn sizes_and_levels_are_steps() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    run(&["make-site", site.to_str().expect("a name"), "--sizes", "1K,100K", "-q"]);
    let url = format!("http://{}/", files(site));
    let ask = |more: &[&str]| -> Report {
        let output = run(&[&[&*url, "-d", "300ms", "-q", "--json", "-"], more].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let report = ask(&["--sizes", "1K,100K", "-c", "2", "--verify"]);
    let sizes: Vec<_> = report.steps.iter().map(|step| (step.size_bytes, step.errors_total)).collect();
    assert_eq!(sizes, [(Some(1024), 0), (Some(102_400), 0)]);
    assert_eq!(report.steps[1].body_bytes, report.steps[1].requests * 102_400);
    let report = ask(&["--levels", "0.2,0.4", "--capacity", "500"]);
    let levels: Vec<_> = report.steps.iter().map(|step| step.level).collect();
    assert_eq!(levels, [Some(0.2), Some(0.4)]);
    assert_eq!(report.capacity_requests_per_second, Some(500.0));
}

/// Answers come one at a time, so that the server decides how many there are, and not who asks. How many it gave, and how
/// many a second, is what clients are held to: machines that stall do it to both.
#[test]
fn wrk_and_we_count_what_the_server_counts() {
    let served: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let server = {
        let served = Arc::clone(&served);
        answer(move |visitor, _| {
            let mut served = served.lock().expect("no panic");
            thread::sleep(Duration::from_millis(2));
            visitor.ok("hello");
            served.push(Instant::now());
        })
    };
    let url = format!("http://{server}/");
    let Ok(wrk) = Command::new("wrk").args(["-t1", "-c4", "-d3s", &url]).output() else {
        eprintln!("NOT CHECKED: wrk is not installed, so that there is nothing to compare with");
        return;
    };
    // What it had asked for last is of nobody's count.
    let count = || {
        thread::sleep(Duration::from_millis(100));
        let served = std::mem::take(&mut *served.lock().expect("no panic"));
        let [first, .., last] = served[..] else { panic!("served {}", served.len()) };
        (served.len() as f64, (served.len() - 1) as f64 / (last - first).as_secs_f64())
    };
    let of_wrk = count();
    let text = String::from_utf8(wrk.stdout).expect("text");
    let number = |line: &str, before: &str, after: &str| -> Option<f64> {
        line.trim().strip_prefix(before)?.split(after).next()?.trim().parse().ok()
    };
    let requests = text.lines().find_map(|line| number(line, "", " requests in")).expect("wrk tells a count");
    let rate = text.lines().find_map(|line| number(line, "Requests/sec:", "\n")).expect("wrk tells a rate");
    let output = run(&[&url, "-c", "4", "-d", "3s", "-q", "--json", "-"]);
    let of_us = count();
    let report: Report = serde_json::from_slice(&output.stdout).expect("a report");
    let agrees = |seen: f64, served: f64| (0.97..=1.03).contains(&(seen / served));
    for (who, (requests, rate), (served, served_rate)) in [
        ("wrk", (requests, rate), of_wrk),
        ("flash load", (report.requests as f64, report.requests_per_second), of_us),
    ] {
        assert!(agrees(requests, served), "{who} counts {requests}, the server {served}");
        assert!(agrees(rate, served_rate), "{who} tells of {rate} a second, the server of {served_rate}");
    }
}
