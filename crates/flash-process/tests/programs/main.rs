//! Real programs under a real fork helper, and a supervisor of real processes, each test in a process of its own.

#![forbid(unsafe_code)]

mod bench;
mod faults;
mod limits;
mod runner;
mod scripts;
mod supervisor;

use std::process::ExitCode;

use crate::runner::Test;

fn main() -> ExitCode {
    runner::main(&[scripts::TESTS, limits::TESTS, faults::TESTS, supervisor::TESTS])
}
