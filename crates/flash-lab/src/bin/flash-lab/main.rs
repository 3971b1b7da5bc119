//! The program `flash-lab`, which `flash lab` becomes: it reads the command line, has the laboratory do it, and says on
//! one line what failed.

#![forbid(unsafe_code)]

mod export;
mod flags;
mod list;
mod report;
mod run;

use std::process::ExitCode;

use flash_cli::Failure;
use flash_lab::plan::PlanError;

use crate::flags::{Command, Flags};

fn main() -> ExitCode {
    flash_cli::finish("flash lab", flash_cli::read(std::env::args_os()).and_then(work))
}

fn work(flags: Flags) -> Result<(), Failure> {
    let done = match flags.command {
        Command::List => list::list(),
        Command::Show { plan } => list::show(&plan),
        Command::Run(flags) => run::run(&flags),
        Command::Report { out } => report::report(&out),
        Command::Export(flags) => export::export(&flags),
    };
    done.map_err(|error| {
        if flash_rig::interrupt::check().is_err() {
            return Failure::Interrupted;
        }
        match error.downcast::<PlanError>() {
            Ok(wrong) => Failure::Usage(wrong.to_string()),
            Err(error) => error.into(),
        }
    })
}
