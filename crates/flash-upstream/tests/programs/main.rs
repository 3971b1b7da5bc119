//! CGI programs and pools of applications under a real fork helper, each test in a process of its own.

#![forbid(unsafe_code)]

mod apps;
#[path = "../../../flash-process/tests/programs/bench.rs"]
mod bench;
#[path = "../fastcgi/exchange.rs"]
mod exchange;
mod requests;
#[path = "../../../flash-process/tests/programs/runner.rs"]
mod runner;

use std::env;
use std::process::ExitCode;

use crate::runner::Test;

fn main() -> ExitCode {
    let first = env::args().nth(1);
    if let Some(how) = first.as_deref().and_then(|first| first.strip_prefix(apps::AS_APP)) {
        return apps::serve(how);
    }
    runner::main(&[apps::TESTS, requests::TESTS])
}
