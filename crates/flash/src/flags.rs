//! The command line as data: every flag with its type, its default and its help.
//!
//! This is the one source of flags. The parser, `--help`, the manual page and the shell completions are all
//! derived from it, so that a flag is added here and nowhere else. What a flag does to a site or an architecture
//! is [`serve`](crate::serve)'s.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::failure::Failure;

mod duration;
mod experiments;
mod field;
mod listen;
mod log;
mod name;
mod programs;
mod route;
mod serve;
mod size;
mod value;

pub(crate) use experiments::{Experiments, FileCache, Offload, Residency};
pub(crate) use field::Field;
pub(crate) use listen::Listen;
pub(crate) use log::{LogFormat, LogTo};
pub(crate) use programs::{Programs, Spawn};
pub(crate) use route::{RouteFlag, Upstream, Words};
pub(crate) use serve::{Arch, FollowLinks, Helpers, Sandbox, Serve};
pub(crate) use size::shown as shown_size;
pub(crate) use value::Switch;

/// A web server whose event loop never waits for a disk.
#[derive(Debug, Parser)]
#[command(name = "flash", version, about, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub command: Option<Command>,
}

const AFTER_HELP: &str = "\
Programs of their own, which run beside any server:
  load  Play many clients, and measure what they get (flash-load)
  lab   Run experiments, one for each figure of the papers, on this server and its peers (flash-lab)
  sim   Simulate the architectures on machines that are not at hand (flash-sim)

'flash COMMAND --help' says more about a command. Any other 'flash NAME' runs the program flash-NAME.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a folder over HTTP
    ///
    /// Serves a folder over HTTP until it is told to stop. Without flags: the current folder, to this machine
    /// alone, with an event loop per processor.
    Serve(Box<Serve>),
    /// Print a manual page
    #[command(after_help = "Example:\n  flash man serve | man -l -")]
    Man {
        /// The command to read about; flash itself if there is none.
        command: Option<String>,
    },
    /// Print completions for a shell
    #[command(
        after_help = "Example:\n  flash completions bash > ~/.local/share/bash-completion/completions/flash"
    )]
    Completions {
        /// The shell that will read them.
        shell: Shell,
    },
    #[command(external_subcommand)]
    Sibling(Vec<OsString>),
}

impl Flags {
    /// Reads a command line, of which the first word is the program's name. Help and version, where they are
    /// asked for, are printed here and end the process.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Flags, Failure> {
        let words: Vec<OsString> = words.into_iter().collect();
        Flags::try_parse_from(&words).map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
            _ => Failure::Usage(format!("{} (see {} --help)", one_line(&error), command_name(&words))),
        })
    }
}

/// What clap says in paragraphs, on one line: what is wrong and its tips, without the usage and its hint.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said =
        text.split("\n\n").filter(|part| !part.starts_with("Usage: ") && !part.starts_with("For more "));
    let words: Vec<&str> = said.flat_map(str::split_whitespace).collect();
    words.join(" ").replacen("error: ", "", 1).replace(" tip: ", "; ")
}

/// The command that the words are about: `flash serve`, or `flash` where that is not clear.
fn command_name(words: &[OsString]) -> String {
    let flash = Flags::command();
    match words.get(1).and_then(|word| flash.find_subcommand(word)) {
        Some(command) => format!("flash {}", command.get_name()),
        None => "flash".into(),
    }
}

#[cfg(test)]
mod tests;
