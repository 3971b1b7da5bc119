//! The program as people run it: what it writes, and what it says of what cannot be watched.

#![forbid(unsafe_code)]

use std::fs;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn why(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flash-why")).args(words).output().expect("the program runs")
}

/// Exit code and the last line of standard error, where there is nothing else but notes.
fn refusal(words: &[&str]) -> (Option<i32>, String) {
    let output = why(words);
    let said = String::from_utf8(output.stderr).expect("text");
    (output.status.code(), said.lines().last().unwrap_or_default().to_owned())
}

struct Sleeper(Child);

impl Sleeper {
    fn start(seconds: &str) -> Sleeper {
        let child = Command::new("sleep").arg(seconds).stdout(Stdio::null()).spawn();
        Sleeper(child.expect("sleep is everywhere"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_cannot_be_watched_is_said_in_a_line() {
    let (code, said) = refusal(&["999999999"]);
    assert_eq!((code, &*said), (Some(1), "flash why: no process has the number 999999999"));
    let (code, said) = refusal(&["no-such-server"]);
    assert_eq!(code, Some(1));
    assert!(said.starts_with("flash why: no process is called 'no-such-server'"), "{said}");
    let (code, said) = refusal(&["--", "/no/such/program"]);
    assert_eq!(code, Some(1));
    assert!(said.starts_with("flash why: cannot run /no/such/program: No such file"), "{said}");
    for words in [&[][..], &["a", "--", "b"], &["1", "--for", "never"], &["1", "--level", "7"]] {
        let output = why(words);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{words:?}: {said}");
    }
}

#[test]
fn a_process_that_ends_meanwhile_is_reported_so_far() {
    let mut sleeper = Sleeper::start("0.7");
    let pid = sleeper.0.id().to_string();
    // Collected at its end, or it would be there as a zombie; that one counts as ended too.
    let collector = std::thread::spawn(move || sleeper.0.wait());
    let (code, said) = refusal(&[&pid, "--for", "20s", "--level", "3"]);
    collector.join().expect("no panic").expect("it has ended");
    assert_eq!(code, Some(1));
    assert!(said.starts_with(&format!("flash why: process {pid} ended after 0.")), "{said}");
}

#[test]
fn samples_need_no_rights() {
    let sleeper = Sleeper::start("60");
    let pid = sleeper.0.id().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let (json, page) = (folder.path().join("why.jsonl"), folder.path().join("why.html"));
    let (json, page) = (json.to_str().expect("UTF-8"), page.to_str().expect("UTF-8"));
    let output = why(&[&pid, "--for", "300ms", "--level", "3", "--json", json, "--report", page]);
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("level 3 (/proc: sampled)") && said.contains("clock_nanosleep"), "{said}");
    let lines = fs::read_to_string(json).expect("lines");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [block, totals] = &lines[..] else { panic!("one block and the totals: {lines:?}") };
    assert_eq!((&block["cause"], &block["sampled"]), (&Value::from("timer"), &Value::from(true)), "{block}");
    for field in ["time_us", "pid", "thread", "call", "args", "path", "us", "stack", "waker", "ready"] {
        assert!(block.get(field).is_some(), "no {field}: {block}");
    }
    assert_eq!(totals["threads"][0]["loop"], Value::from(false), "{totals}");
    assert_eq!((&totals["lost"], &totals["level"]), (&Value::from(0), &Value::from(3)), "{totals}");
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains("<svg") && page.contains("clock_nanosleep") && page.ends_with("</html>"), "{page}");
}

#[test]
fn perf_events_see_every_sleep() {
    let shell = Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]).spawn().expect("a shell");
    let shell = Sleeper(shell);
    let pid = shell.0.id().to_string();
    let output = why(&[&pid, "--for", "500ms", "--level", "2", "--json", "-"]);
    let said = String::from_utf8(output.stderr).expect("text");
    if said.contains("level 2 is refused") {
        return eprintln!("NOT TESTED, perf events: {said}");
    }
    assert!(said.contains("level 2 (perf events") && output.status.code() == Some(0), "{said}");
    let lines = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (totals, blocks) = lines.split_last().expect("totals");
    let of_shell = blocks.iter().filter(|block| block["pid"] == shell.0.id() && block["call"] == "wait4");
    let of_shell: Vec<&Value> = of_shell.collect();
    assert!(of_shell.len() > 5, "{lines:?}");
    for block in of_shell {
        assert_eq!((&block["cause"], block.get("sampled")), (&Value::from("child process"), None), "{block}");
        let us = block["us"].as_u64().expect("a length");
        assert!(us > 5000 || block["unfinished"] == true, "{block}");
    }
    assert_eq!((&totals["level"], &totals["lost"]), (&Value::from(2), &Value::from(0)), "{totals}");
}

#[test]
fn somebody_else_s_process_takes_rights() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("NOT TESTED, another user's process: becoming another user takes root");
    }
    let sleeper = Sleeper::start("60");
    let pid = sleeper.0.id().to_string();
    // A copy where everybody may run it.
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("flash-why");
    fs::copy(env!("CARGO_BIN_EXE_flash-why"), &copy).expect("a copy");
    Command::new("chmod").args(["-R", "a+rx"]).arg(folder.path()).status().expect("chmod is everywhere");
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args([&*pid, "--for", "1s"])
        .output()
        .expect("setpriv is everywhere");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("of user 0 may not be looked at") && said.contains("CAP_SYS_PTRACE"), "{said}");
    assert!(said.contains("CAP_BPF") || said.contains("clang"), "what would give more: {said}");
}
