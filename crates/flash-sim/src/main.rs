//! The command `flash-sim`: reads the command line and hands over. It does nothing itself.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use crate::flags::{Command, Flags};
use crate::scenario::Scenario;
use flash_cli::Failure;

mod calibrate;
mod explain;
mod flags;
mod keys;
mod output;
mod paper;
mod policies;
mod run;
mod runner;
mod scenario;
mod sweep;
mod testbed;
mod validate;
mod workload;

fn main() -> ExitCode {
    flash_cli::finish("flash sim", flash_cli::read(std::env::args_os()).and_then(run))
}

fn run(flags: Flags) -> Result<(), Failure> {
    match flags.command {
        Command::Keys { part } => Scenario::keys().list(part.as_deref()).and_then(flash_cli::print),
        Command::Run(flags) => run::run(&flags),
        Command::Sweep(flags) => sweep::run(&flags),
        Command::Explain(flags) => explain::run(&flags),
        Command::Paper(flags) => paper::run(&flags),
        Command::Policies(flags) => policies::run(&flags),
        Command::Calibrate(flags) => calibrate::run(&flags),
        Command::Validate(flags) => validate::run(&flags),
    }
}
