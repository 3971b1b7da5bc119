//! Runs tests as `cargo test` does, each in a process of its own. So a process with one thread can fork the fork helper, and
//! the runner can count the processes that a test leaves.

use std::env;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub(crate) type Test = (&'static str, fn());

/// So many tests run at the same time: most of them wait.
const AT_ONCE: usize = 4;

/// Says which test a process of this program is to run.
const VARIABLE: &str = "FLASH_PROCESS_TEST";

pub(crate) fn main(tests: &[&[Test]]) -> ExitCode {
    let all = tests.iter().copied().flatten();
    if let Some(one) = env::var_os(VARIABLE) {
        let Some((_, test)) = all.clone().find(|(name, _)| *name == one) else { return ExitCode::FAILURE };
        test();
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if env::args().any(|argument| argument == "--list") {
        all.for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&str> = all
        .map(|(name, _)| *name)
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
                failed.push(*name);
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
