//! The `flash` command.
//!
//! Reads the command line and calls the server, the generators of manual pages and shell completions, or a sibling program
//! `flash-NAME`. If one of them fails, it prints the reason on one line.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use flash_os::probe;
use flash_os::system_calls::Calls;

use crate::failure::Failure;
use crate::flags::{Command, Flags};

/// The system's allocator takes a lock to free what another thread has allocated. A loop frees what helpers have, and must
/// not wait for one that was interrupted.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod acme;
mod administer;
mod config;
mod explain;
mod failure;
mod flags;
mod helper;
mod import;
mod manual;
mod serve;
mod sibling;
mod sign;
mod start_folder;
mod status;
mod top;
mod watch;

fn main() -> ExitCode {
    // Flags may forbid calls, which must not be tried then. Until they are read, and for commands that serve no files, what every
    // system has is enough.
    probe::run(Calls::PORTABLE);
    flash_cli::finish("flash", config::read(std::env::args_os()).and_then(run))
}

fn run(flags: Flags) -> Result<(), Failure> {
    match &flags.command {
        Some(Command::Serve(flags)) => probe::run(flags.experiments.system_calls),
        Some(Command::Helper(_) | Command::Check { .. } | Command::Explain(_)) => probe::run(Calls::ALL),
        _ => {}
    }
    match flags.command {
        None => manual::print_help(),
        Some(Command::Serve(flags)) => {
            check_needed_calls()?;
            serve::run(flags, config::READER)
        }
        Some(Command::Reload(flags)) if flags.watch => watch::run(&flags.to),
        Some(Command::Reload(flags)) => administer::ask(&flags.to, "/reload"),
        Some(Command::Reopen(to)) => administer::ask(&to, "/reopen"),
        Some(Command::Upgrade(flags)) => administer::upgrade(&flags),
        Some(Command::Status(flags)) => status::run(&flags),
        Some(Command::Top(flags)) => top::run(&flags),
        Some(Command::Helper(flags)) => {
            check_needed_calls()?;
            helper::run(&flags)
        }
        Some(Command::Check { config }) => {
            config::check(&config).map(|()| administer::warn_of_reload(&config))
        }
        Some(Command::Explain(flags)) => explain::run(&flags),
        Some(Command::Sign(flags)) => sign::run(&flags),
        Some(Command::Import(flags)) => import::run(&flags),
        Some(Command::Acme(command)) => acme::run(&command),
        Some(Command::Schema) => config::print_schema(),
        Some(Command::Man { command }) => manual::print_page(&command),
        Some(Command::Completions { shell }) => manual::print_completions(shell),
        Some(Command::Sibling(words)) => sibling::become_sibling(&words, &flags::command()),
    }
}

/// Before anything is started, which might fail midway.
fn check_needed_calls() -> Result<(), Failure> {
    probe::refused().map_or(Ok(()), |call| {
        let instead = "allow it, for instance in the seccomp profile of the container";
        Err(Failure::Run(format!(
            "cannot run here: the system refuses {call}(2), which nothing can replace: {instead}"
        )))
    })
}
