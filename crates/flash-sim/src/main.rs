//! The command `flash-sim`: reads the command line and hands over. It does nothing itself but say what failed, on one line.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::flags::{Command, Flags};
use crate::scenario::Scenario;

mod calibrate;
mod explain;
mod failure;
mod flags;
mod keys;
mod output;
mod paper;
mod run;
mod runner;
mod scenario;
mod sweep;
mod testbed;
mod validate;
mod workload;

fn main() -> ExitCode {
    match Flags::read(std::env::args_os()).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to tell if standard error is gone too.
            let _ = writeln!(std::io::stderr(), "flash-sim: {failure}");
            failure.exit_code()
        }
    }
}

fn run(flags: Flags) -> Result<(), Failure> {
    match flags.command {
        Command::Keys { part } => Scenario::keys().list(part.as_deref()).map(|text| run::print(&text)),
        Command::Run(flags) => run::run(&flags),
        Command::Sweep(flags) => sweep::run(&flags),
        Command::Explain(flags) => explain::run(&flags),
        Command::Paper(flags) => paper::run(&flags),
        Command::Calibrate(flags) => calibrate::run(&flags),
        Command::Validate(flags) => validate::run(&flags),
    }
}
