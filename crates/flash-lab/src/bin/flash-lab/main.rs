//! The program `flash-lab`, which `flash lab` becomes: it reads the command line, has the laboratory do it, and says on
//! one line what failed.

#![forbid(unsafe_code)]

mod export;
mod flags;
mod list;
mod report;
mod run;

use std::process::ExitCode;

use clap::Parser;
use flash_lab::plan::PlanError;

use crate::flags::{Command, Flags};

const USAGE: u8 = 2;
/// As shells say it of a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let done = match Flags::parse().command {
        Command::List => list::list(),
        Command::Show { plan } => list::show(&plan),
        Command::Run(flags) => run::run(&flags),
        Command::Report { out } => report::report(&out),
        Command::Export(flags) => export::export(&flags),
    };
    let error = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(error) => error,
    };
    if flash_rig::interrupt::check().is_err() {
        eprintln!("flash lab: interrupted");
        return ExitCode::from(INTERRUPTED);
    }
    eprintln!("flash lab: {error:#}");
    let usage = error.is::<flags::Wrong>() || error.is::<PlanError>();
    ExitCode::from(if usage { USAGE } else { 1 })
}
