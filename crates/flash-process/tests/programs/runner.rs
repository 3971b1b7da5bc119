//! Runs tests as `cargo test` does, each in a process of its own. So a process with one thread can fork the fork helper, and
//! the runner can count the processes that a test leaves.

use std::env;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flash_os::system_calls;

pub(crate) type Test = (&'static str, fn());

/// So many tests run at the same time: most of them wait.
const AT_ONCE: usize = 4;

/// Says which test a process of this program is to run.
const VARIABLE: &str = "FLASH_PROCESS_TEST";

/// What a test's name ends in if it runs with the system calls of POSIX alone.
const PORTABLE: &str = "_in_posix";
/// Tests of programs that outlive their fork helper, which takes pidfds.
const NOT_PORTABLE: &[&str] = &[
    "killed_again_and_again_it_fails_no_more_than_one_each_time",
    "programs_outlive_the_helper_that_began_them",
    "what_the_last_helper_began_is_counted_and_ended",
    "without_a_supervisor_it_is_the_last",
    "without_descriptors_the_next_helper_is_reached_later",
];

fn names(tests: &[&[Test]]) -> impl Iterator<Item = String> {
    let all = tests.iter().copied().flatten().map(|(name, _)| *name);
    let portable = all.clone().filter(|name| !NOT_PORTABLE.contains(name));
    all.map(str::to_owned).chain(portable.map(|name| format!("{name}{PORTABLE}")))
}

pub(crate) fn main(tests: &[&[Test]]) -> ExitCode {
    let all = tests.iter().copied().flatten();
    if let Some(one) = env::var_os(VARIABLE) {
        let one = one.to_string_lossy();
        let name = one.strip_suffix(PORTABLE).unwrap_or(&one);
        if name != one {
            system_calls::set(|_| false);
        }
        let Some((_, test)) = all.clone().find(|(other, _)| *other == name) else { return ExitCode::FAILURE };
        test();
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if env::args().any(|argument| argument == "--list") {
        names(tests).for_each(|name| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = names(tests)
        .filter(|name| arguments.is_empty() || arguments.iter().any(|part| name.contains(part)))
        .collect();
    let threads = env::args().find_map(|argument| argument.strip_prefix("--test-threads=")?.parse().ok());
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let run_tests = || {
        while let Some(name) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            let program = env::current_exe().expect("a program knows where it is");
            let run = Command::new(program).env(VARIABLE, name).output().expect("it can be run again");
            let mut failed = failed.lock().expect("no thread panics with it");
            println!("test {name} ... {}", if run.status.success() { "ok" } else { "FAILED" });
            // What a test says that passes is that it had to leave something out.
            eprint!("{}", String::from_utf8_lossy(&run.stderr));
            if !run.status.success() {
                failed.push(name);
            }
        }
    };
    thread::scope(|scope| (0..threads.unwrap_or(AT_ONCE)).for_each(|_| drop(scope.spawn(run_tests))));
    let (count, failed) = (wanted.len(), failed.into_inner().expect("no thread panics with it"));
    println!("\ntest result: {count} run, {} failed", failed.len());
    for name in &failed {
        println!("    {name}");
    }
    if failed.is_empty() && count > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
