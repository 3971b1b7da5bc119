//! Words of a command line, and what is said of wrong ones.

use std::ffi::OsString;
use std::io;

use clap::error::ErrorKind;
use clap::{Command, Parser};

use crate::{Failure, manual, print};

/// What `flash man NAME` passes to a program for its page. It is no flag of the program's own, and no help has it.
const MANUAL: &str = "--man";

/// Reads a command line, of which the first word is the program's name. Help, version and manual page, where they are asked for,
/// are printed here and end the process.
pub fn read<T: Parser>(words: impl IntoIterator<Item = OsString>) -> Result<T, Failure> {
    let words: Vec<OsString> = words.into_iter().collect();
    let command = T::command().term_width(help_width());
    if words.get(1).is_some_and(|word| word == MANUAL) {
        let names: Vec<String> = words[2..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
        print(&manual::page(command, &names)?)?;
        std::process::exit(0);
    }
    let found = command.clone().try_get_matches_from(&words);
    found.and_then(|found| T::from_arg_matches(&found)).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        _ => {
            let what = match error.kind() {
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => commands(&command),
                _ => one_line(&error),
            };
            Failure::Usage(format!("{what} (see {} --help)", command_name(&command, &words)))
        }
    })
}

/// The terminal's columns, but 80 at least: narrower, a column is left for the names of flags and hardly any for the rest.
pub fn help_width() -> usize {
    const COLUMNS_MIN: usize = 80;
    let columns = [rustix::termios::tcgetwinsize(io::stdout()), rustix::termios::tcgetwinsize(io::stderr())];
    let of_terminal =
        columns.into_iter().flatten().map(|size| usize::from(size.ws_col)).find(|&columns| columns > 0);
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    of_terminal.or_else(said).unwrap_or(COLUMNS_MIN).max(COLUMNS_MIN)
}

/// What clap says in paragraphs, on one line: what is wrong and its tips, without the usage and its hint.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said =
        text.split("\n\n").filter(|part| !part.starts_with("Usage: ") && !part.starts_with("For more "));
    let words: Vec<&str> = said.flat_map(str::split_whitespace).collect();
    words.join(" ").replacen("error: ", "", 1).replace(" tip: ", "; ")
}

/// The command that the words are about: `flash lab run`, or `flash lab` where that is not clear.
pub fn command_name(command: &Command, words: &[OsString]) -> String {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    match words.get(1).and_then(|word| command.find_subcommand(word)) {
        Some(below) => format!("{name} {}", below.get_name()),
        None => name.to_owned(),
    }
}

/// What a program without a command is told.
fn commands(command: &Command) -> String {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let names: Vec<&str> = shown.map(Command::get_name).collect();
    format!("say what to do: {}", names.join(", "))
}
