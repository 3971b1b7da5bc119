//! The program as people run it: what it writes, and what it says of what cannot be watched.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

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
    for level in ["1", "2", "3"] {
        let mut sleeper = Sleeper::start("60");
        let pid = sleeper.0.id().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_flash-why"));
        command.args([&pid, "--for", "60s", "--level", level]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut watch = Sleeper(command.spawn().expect("it runs"));
        let mut said = BufReader::new(watch.0.stderr.take().expect("it is piped"));
        let mut line = || {
            let mut line = String::new();
            said.read_line(&mut line).expect("text");
            line
        };
        let begins = line();
        if begins.contains("is refused") || begins.contains("level 1 is not ") {
            eprintln!("NOT TESTED, a process that ends at level {level}: {begins}");
            continue;
        }
        // Collected at its end, or it would be there as a zombie; that one counts as ended too.
        sleeper.0.kill().and_then(|()| sleeper.0.wait()).expect("it has ended");
        let ends = line();
        assert!(
            ends.starts_with(&format!("flash why: process {pid} ended after ")),
            "{level}: {begins}{ends}"
        );
        assert_eq!(watch.0.wait().expect("it ends").code(), Some(1));
    }
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
    assert_eq!(
        (&totals["lost"]["of_others"], &totals["level"]),
        (&Value::from(0), &Value::from(3)),
        "{totals}"
    );
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains("<svg") && page.contains("clock_nanosleep") && page.ends_with("</html>"), "{page}");
}

#[test]
fn a_reader_that_leaves_ends_the_watch() {
    let sleeper = Sleeper::start("60");
    let pid = sleeper.0.id().to_string();
    for words in [&[&*pid, "--level", "3", "--json", "-"][..], &["--help"], &["--man"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_flash-why"));
        // Without --for, nothing else would end it.
        let output = command.args(words).stdout(writer).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
    }
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_flash-why"));
    let words = [&*pid, "--level", "3", "--for", "300ms"];
    let output = command.args(words).stdout(writer).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "the report is no line of a watch: {output:?}");
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
        assert!(block["us"].as_u64().expect("a length") > 0, "{block}");
    }
    assert_eq!(
        (&totals["level"], &totals["lost"]["of_others"]),
        (&Value::from(2), &Value::from(0)),
        "{totals}"
    );
}

/// The kernel's objects that a process holds, by their numbers: `prog_id: 12`.
fn kernel_objects(pid: u32) -> BTreeSet<String> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = descriptors.filter_map(|descriptor| fs::read_to_string(descriptor.path()).ok());
    let is_object =
        |line: &&str| ["prog_id:", "map_id:", "link_id:"].iter().any(|kind| line.starts_with(kind));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    texts.flat_map(|text| text.lines().filter(is_object).map(words).collect::<Vec<_>>()).collect()
}

/// All of the kernel's eBPF objects, whoever holds them.
fn all_kernel_objects() -> BTreeSet<String> {
    let programs =
        aya::programs::loaded_programs().flatten().map(|program| format!("prog_id: {}", program.id()));
    let maps = aya::maps::loaded_maps().flatten().map(|map| format!("map_id: {}", map.id()));
    let links = aya::programs::loaded_links().flatten().map(|link| format!("link_id: {}", link.id()));
    programs.chain(maps).chain(links).collect()
}

#[test]
fn nothing_is_left_behind_after_sigkill() {
    let sleeper = Sleeper::start("60");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flash-why"));
    command.args([&*sleeper.0.id().to_string(), "--level", "1", "--quiet"]);
    let mut watch = Sleeper(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs"));
    let mut said = String::new();
    let stderr = watch.0.stderr.take().expect("it is piped");
    BufReader::new(stderr).read_line(&mut said).expect("text");
    if !said.contains("level 1 (eBPF") {
        return eprintln!("NOT TESTED, what a killed watch leaves behind: {said}");
    }
    let held = kernel_objects(watch.0.id());
    for kind in ["prog_id", "map_id", "link_id"] {
        assert!(held.iter().any(|object| object.starts_with(kind)), "no {kind}: {held:?}");
    }
    assert!(held.is_subset(&all_kernel_objects()), "{held:?}");
    watch.0.kill().expect("it runs");
    watch.0.wait().expect("it ends");
    let killed = Instant::now();
    // The kernel frees them when no processor can still be in them.
    while !held.is_disjoint(&all_kernel_objects()) {
        assert!(
            killed.elapsed() < Duration::from_secs(20),
            "left behind: {:?}",
            &held & &all_kernel_objects()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn processes_in_a_container_take_another_level() {
    let here = fs::read_link("/proc/self/ns/pid").expect("it has one");
    if here.to_string_lossy() != "pid:[4026531836]" || !rustix::process::geteuid().is_root() {
        return eprintln!("NOT TESTED, containers: making one takes root outside of one");
    }
    // A process in a namespace of its own has the number 1, as in a container. It is `unshare`'s child: the shell.
    let contained = |level: &str| {
        let program = env!("CARGO_BIN_EXE_flash-why");
        let script = format!("sleep 60 & {program} $! --for 100ms {level}; code=$?; kill $!; exit $code");
        let words = ["--pid", "--fork", "--mount-proc", "sh", "-c", &script];
        let output = Command::new("unshare").args(words).output().expect("it is everywhere");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (code, said) = contained("--level 1");
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("not for containers") || said.contains("not built in"), "{said}");
    // Without --level it takes the next one, and says why.
    let (code, said) = contained("");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("level 1 is not ") && !said.contains("level 1 (eBPF"), "{said}");
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
    let as_nobody = |level: &[&str]| {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&copy)
            .args([&*pid, "--for", "1s"])
            .args(level)
            .output()
            .expect("setpriv is everywhere");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        said
    };
    let said = as_nobody(&["--level", "2"]);
    assert!(said.contains("level 2 is refused") && said.contains("CAP_PERFMON"), "{said}");
    let said = as_nobody(&["--level", "1"]);
    assert!(said.contains("CAP_BPF"), "{said}");
    let said = as_nobody(&[]);
    assert!(said.contains("of user 0 may not be looked at") && said.contains("CAP_SYS_PTRACE"), "{said}");
    assert!(said.contains("CAP_BPF"), "what would give more: {said}");
}
