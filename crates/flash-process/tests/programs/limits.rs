//! How many, how long, how loud, and with what: each has an end.

use std::fs;
use std::time::{Duration, Instant};

use flash_core::upstream::OpenError;
use flash_os::user::{User, become_user};
use flash_process::{ExitStatus, Limit, ProgramRef, Stdio};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use crate::Test;
use crate::bench::{Bench, PATIENCE, is_alive, wait_until};

pub(crate) const TESTS: &[Test] = &[
    ("so_many_run_so_many_wait_and_the_rest_are_refused", so_many_run_so_many_wait_and_the_rest_are_refused),
    ("waiting_has_an_end", waiting_has_an_end),
    ("a_flood_of_complaints_holds_up_nobody", || a_flood_of_complaints_holds_up_nobody(&Bench::new(|_| ()))),
    ("complaints_come_line_by_line", complaints_come_line_by_line),
    ("limits_of_the_kernel", limits_of_the_kernel),
    ("no_process_left", no_process_left),
    ("a_program_that_nobody_listens_to_any_more", a_program_that_nobody_listens_to_any_more),
    ("an_order_too_long_is_refused", an_order_too_long_is_refused),
    ("many_at_once", many_at_once),
    ("variables_are_those_of_requests", variables_are_those_of_requests),
];

fn so_many_run_so_many_wait_and_the_rest_are_refused() {
    let bench = Bench::new(|setup| (setup.running_max, setup.queue_max) = (2, 2));
    bench.script("wait", "echo begun; read word; echo $word");
    let mut running = [bench.begin("/cgi/wait"), bench.begin("/cgi/wait")];
    running.iter_mut().for_each(|program| assert_eq!(program.read_line(), "begun"));
    let waiting = [bench.ask("/cgi/wait"), bench.ask("/cgi/wait")];
    assert_eq!(bench.ask("/cgi/wait").refusal(), Some(OpenError::Busy));
    assert!(!waiting[0].is_answered(Duration::from_millis(200)));
    bench.wait_for_word("/cgi/wait: 2 programs run and 2 wait");
    let [mut first, second] = running;
    first.write_all(b"done\n");
    assert_eq!((first.read().as_str(), first.ended()), ("done\n", ExitStatus::Code(0)));
    let [third, fourth] = waiting;
    let mut third = third.begun().unwrap();
    assert_eq!(third.read_line(), "begun");
    assert!(!fourth.is_answered(Duration::from_millis(200)));
    // One that is broken off makes room too.
    drop(second.handle);
    assert_eq!(fourth.begun().unwrap().read_line(), "begun");
}

/// An attacker who controls the server must not be able to make a script load code.
fn variables_are_those_of_requests() {
    let bench = Bench::new(|_| ());
    bench.script("hello", "echo hello");
    for name in [&b"LD_PRELOAD"[..], b"BASH_ENV", b"PERL5OPT", b"PATH", b"SCRIPT_NAME"] {
        let what = ProgramRef::Script { folder: 0, path: b"/cgi/hello".to_vec() };
        let asked = bench.order_with(what, Stdio::Stream, "/cgi/hello", &[(name, b"x")]);
        assert_eq!(asked.refusal(), Some(OpenError::Broken));
    }
    assert_eq!(bench.begin("/cgi/hello").read(), "hello\n");
}

fn waiting_has_an_end() {
    let bench = Bench::new(|setup| (setup.running_max, setup.queue_wait) = (1, Duration::from_millis(200)));
    bench.script("wait", "read word");
    let running = bench.begin("/cgi/wait");
    assert_eq!(bench.ask("/cgi/wait").refusal(), Some(OpenError::Busy));
    bench.wait_for_word("/cgi/wait: it waited 200ms for others to end");
    drop(running);
    drop(bench.begin("/cgi/wait"));
}

fn a_flood_of_complaints_holds_up_nobody(bench: &Bench) {
    bench.script("flood", "echo $$; while :; do echo 'a complaint that comes again and again'; done >&2");
    bench.script("quick", "echo quick");
    let mut floods: Vec<_> = (0..4).map(|_| bench.begin("/cgi/flood")).collect();
    let pids: Vec<u32> = floods.iter_mut().map(|flood| flood.read_line().parse().unwrap()).collect();
    for _ in 0..20 {
        assert_eq!(bench.begin("/cgi/quick").read(), "quick\n");
    }
    // As much as is kept of all of them has come.
    let kept = 4 * ((64 << 10) / 39);
    wait_until(|| bench.said().len() >= kept, || format!("{} lines", bench.said().len()));
    drop(floods);
    wait_until(|| !pids.iter().any(|&pid| is_alive(pid)), || "they run on".into());
    bench.wait_for_word("bytes more, not kept");
    // 64 KiB of 39 bytes each, a last one cut, and the line that says so.
    let lines = bench.said().len();
    assert!(lines <= 4 * ((64 << 10) / 39 + 2), "{lines} lines");
}

fn complaints_come_line_by_line() {
    let bench = Bench::new(|_| ());
    bench.script("short", "echo one >&2; printf 'two, and no end' >&2");
    assert_eq!(bench.begin("/cgi/short").read(), "");
    bench.wait_for_word("/cgi/short: two, and no end");
    assert_eq!(bench.said(), ["/cgi/short: one", "/cgi/short: two, and no end"]);
    // Those of one that goes on are heard meanwhile.
    bench.script("long", "echo three >&2; read word; echo four >&2");
    let mut program = bench.begin("/cgi/long");
    bench.wait_for_word("/cgi/long: three");
    program.write_all(b"\n");
    bench.wait_for_word("/cgi/long: four");
}

fn limits_of_the_kernel() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), maximum }).unwrap();
    let bench = Bench::new(|setup| {
        setup.limits = vec![
            Limit { resource: flash_process::Resource::MemoryBytes, soft: 100 << 20, hard: 100 << 20 },
            Limit { resource: flash_process::Resource::CpuSeconds, soft: 1, hard: 2 },
        ];
    });
    bench.script("look", "ulimit -v; ulimit -t; ulimit -c; ulimit -n");
    assert_eq!(bench.begin("/cgi/look").read(), "102400\n1\n0\n200\n");
    bench.script("spin", "while :; do :; done");
    assert_eq!(bench.begin("/cgi/spin").ended(), ExitStatus::Signal(24), "SIGXCPU");
}

fn no_process_left() {
    if !geteuid().is_root() {
        return eprintln!("MISSING: the superuser's rights, to be a user with no process left");
    }
    // A user whom nobody else is.
    let prepare = || {
        become_user(Some(b"nobody"), &User { id: 64_817, group: 64_817, home: "/".into() })?;
        // The supervisor, the helper, its thread that starts scripts, and two more.
        Ok(setrlimit(Resource::Nproc, Rlimit { current: Some(5), maximum: Some(5) })?)
    };
    let bench = Bench::prepared(|_| (), &prepare);
    bench.write("wait", "#!/bin/sh\necho $(id -u 2>&1)\nread word\n", 0o755);
    bench.write("sleep", "#!/bin/sh\nexec sleep 100\n", 0o755);
    let mut first = bench.begin("/cgi/wait");
    assert_eq!(first.read_line(), "64817");
    let second = bench.begin("/cgi/sleep");
    assert_eq!(bench.ask("/cgi/sleep").refusal(), Some(OpenError::Busy));
    bench.wait_for_word("no process for it: there are as many as its user");
    let (handle, ended) = second.parts();
    drop(handle);
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(ExitStatus::Signal(15)));
    drop(bench.begin("/cgi/sleep"));
}

fn a_program_that_nobody_listens_to_any_more() {
    let bench = Bench::new(|_| ());
    bench.script("long", "echo $$; exec >&- 2>&- <&-; sleep 100");
    let mut program = bench.begin("/cgi/long");
    let pid: u32 = program.read_line().parse().unwrap();
    assert_eq!(program.read(), "");
    program.handle.finish();
    assert!(is_alive(pid));
    wait_until(|| !is_alive(pid), || "it runs on".into());
    bench.wait_for_word("/cgi/long: it ran 500ms longer than its answer: ended");
    // One that ends by itself is let be.
    bench.script("soon", "exec >&- 2>&- <&-; sleep 0.1; exit 9");
    let (handle, ended) = bench.begin("/cgi/soon").parts();
    handle.finish();
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(ExitStatus::Code(9)));
}

fn an_order_too_long_is_refused() {
    let bench = Bench::new(|_| ());
    let path = format!("/cgi/{}", "x/".repeat(150 << 10));
    assert_eq!(bench.ask(&path).refusal(), Some(OpenError::Broken));
    bench.script("good", "echo good");
    assert_eq!(bench.begin("/cgi/good").read(), "good\n");
}

fn many_at_once() {
    let bench = Bench::new(|setup| setup.queue_max = 1000);
    fs::copy("/bin/true", bench.path("true")).unwrap();
    let before = Instant::now();
    let asked: Vec<_> = (0..400).map(|_| bench.ask("/cgi/true")).collect();
    for asked in asked {
        let mut program = asked.begun().unwrap();
        assert_eq!((program.read().as_str(), program.ended()), ("", ExitStatus::Code(0)));
    }
    assert!(before.elapsed() < PATIENCE);
}
