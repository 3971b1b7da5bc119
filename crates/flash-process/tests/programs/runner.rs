//! Runs tests as `cargo test` does, each in a process of its own: a fork helper is forked by a process of one thread, and
//! what a test leaves behind can be counted.

use std::env;
use std::io::Write;
use std::process::{Command, ExitCode};

pub(crate) type Test = (&'static str, fn());

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
    let wanted =
        all.filter(|(name, _)| arguments.is_empty() || arguments.iter().any(|part| name.contains(part)));
    let mut failed = Vec::new();
    let mut count = 0;
    for (name, _) in wanted {
        count += 1;
        print!("test {name} ... ");
        let _ = std::io::stdout().flush();
        let program = env::current_exe().expect("a program knows where it is");
        let run = Command::new(program).env(VARIABLE, name).output().expect("it can be run again");
        println!("{}", if run.status.success() { "ok" } else { "FAILED" });
        // What a test says that passes is that it had to leave something out.
        eprint!("{}", String::from_utf8_lossy(&run.stderr));
        if !run.status.success() {
            failed.push(name);
        }
    }
    println!("\ntest result: {count} run, {} failed", failed.len());
    for name in &failed {
        println!("    {name}");
    }
    if failed.is_empty() && count > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
