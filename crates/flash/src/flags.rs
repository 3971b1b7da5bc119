//! The command line as data: every flag with its type, its default and its help.
//!
//! This is the one source of flags. The parser, `--help`, the manual page and the shell completions are all
//! derived from it, so that a flag is added here and nowhere else. What a flag does to a site or an architecture
//! is [`serve`](crate::serve)'s.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use flash_cli::{command_name, help_width, one_line};
use flash_core::hosts::HostName;

use crate::failure::Failure;
use crate::sibling;

mod duration;
mod experiments;
mod field;
mod foreign;
mod listen;
mod log;
mod name;
mod programs;
mod route;
mod serve;
mod size;
mod value;

pub(crate) use experiments::{Experiments, FileCache, Offload, Residency};
pub(crate) use field::{CacheControl, Field};
pub(crate) use foreign::instead;
pub(crate) use listen::{Listen, UnixPlace};
pub(crate) use log::{LogFormat, LogTo};
pub(crate) use programs::{Programs, Spawn};
pub(crate) use route::{RouteFlag, Upstream, Words};
pub(crate) use serve::{Arch, FollowLinks, Helpers, Sandbox, Serve, SiteFlags};
pub(crate) use size::shown as shown_size;
pub(crate) use value::Switch;

/// A web server whose event loop never waits for a disk.
#[derive(Debug, Parser)]
#[command(name = "flash", version, propagate_version = true, about, disable_help_subcommand = true)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub command: Option<Command>,
}

const DEFAULT_CONFIG: &str = "/etc/flash/flash.toml";

const AFTER_HELP: &str = "\
Programs of their own, which run beside any server:
  load      Play many clients, and measure what they get (flash-load)
  lab       Run experiments, one for each figure of the papers, on this server and its peers (flash-lab)
  sim       Simulate the architectures on machines that are not at hand (flash-sim)
  why       Say what puts a server's loops to sleep, any server's (flash-why)
  slowdisk  Show a folder through a slow and faulty disk (flash-slowdisk)

'flash help COMMAND' says more about a command. 'flash DIR' serves that folder. Any other 'flash NAME' runs the program
flash-NAME.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a folder over HTTP
    ///
    /// Serves a folder over HTTP until it is told to stop. Without flags: the current folder, to this machine
    /// alone, with an event loop per processor.
    Serve(Box<Serve>),
    /// Find every error of a configuration file
    ///
    /// Reads a configuration file as flash serve does, and prints every error with its place. Exit code 0 if there is none,
    /// and 2 otherwise.
    Check {
        /// The file to check
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG, value_hint = ValueHint::FilePath)]
        config: PathBuf,
    },
    /// Print the JSON Schema of configuration files, for editors
    #[command(after_help = "Example:\n  flash schema > flash.schema.json")]
    Schema,
    /// Print a manual page
    #[command(after_help = "Example:\n  flash man serve | man -l -")]
    Man {
        /// The command to read about, such as serve or lab run; flash itself if there is none.
        command: Vec<String>,
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
    /// asked for, are printed here and end the process. `of_file` reads the file that `--config` names, if it does.
    pub(crate) fn read_with_file(
        words: impl IntoIterator<Item = OsString>,
        of_file: impl Fn(&Path, &ArgMatches) -> Result<OfFile, Failure>,
    ) -> Result<Flags, Failure> {
        let words = as_meant(words.into_iter().collect());
        let (mut found, mut sites) = (matches(&words)?, Vec::new());
        if let Some(("serve", serve)) = found.subcommand()
            && let Some(path) = serve.get_one::<PathBuf>("config")
        {
            let file = of_file(path, serve)?;
            // Behind `flash serve`.
            let with = |more: &[OsString]| matches(&[&words[..2], more, &words[2..]].concat());
            found = with(&file.words)?;
            sites = sites_of(file.sites, |more| Ok(settled(&with(more)?)))?;
        }
        let mut flags = settled(&found);
        if let Some(Command::Serve(flags)) = &mut flags.command
            && let Some(first) = sites.first()
        {
            flags.dir = first.root.clone();
            flags.sites = sites;
        }
        Ok(flags)
    }

    /// Reads a command line alone.
    #[cfg(test)]
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Flags, Failure> {
        Self::read_with_file(words, |path, _| panic!("{} is not read here", path.display()))
    }
}

/// What a configuration file adds to a command line.
#[derive(Default)]
pub(crate) struct OfFile {
    pub words: Vec<OsString>,
    pub sites: Vec<SiteOfFile>,
}

/// A site of a file. The words are those of the server that hold for it, and its own.
pub(crate) struct SiteOfFile {
    pub hosts: Vec<HostName>,
    pub root: PathBuf,
    pub words: Vec<OsString>,
}

fn settled(found: &ArgMatches) -> Flags {
    let flags = Flags::from_arg_matches(found).expect("clap has found them");
    match flags.command {
        Some(Command::Serve(flags)) => Flags { command: Some(Command::Serve(flags.settle())) },
        _ => flags,
    }
}

/// Reads the words of each site. Sites with equal words share their flags.
fn sites_of(
    sites: Vec<SiteOfFile>,
    read: impl Fn(&[OsString]) -> Result<Flags, Failure>,
) -> Result<Vec<SiteFlags>, Failure> {
    let mut known: HashMap<Vec<OsString>, Rc<Serve>> = HashMap::new();
    let mut flags_of = |words: Vec<OsString>| {
        if let Some(flags) = known.get(&words) {
            return Ok::<_, Failure>(Rc::clone(flags));
        }
        let Some(Command::Serve(flags)) = read(&words)?.command else { unreachable!("flash serve is read") };
        let flags: Rc<Serve> = Rc::from(flags);
        known.insert(words, Rc::clone(&flags));
        Ok(flags)
    };
    let site = |SiteOfFile { hosts, root, words }| Ok(SiteFlags { hosts, root, flags: flags_of(words)? });
    sites.into_iter().map(site).collect()
}

/// What clap finds in a command line.
fn matches(words: &[OsString]) -> Result<ArgMatches, Failure> {
    command().try_get_matches_from(words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        _ => Failure::Usage(format!(
            "{} (see {} --help)",
            what_is_wrong(&error),
            command_name(&Flags::command(), words)
        )),
    })
}

/// The command line as clap knows it: what the parser, the help, the manual and the completions are made of.
pub(crate) fn command() -> clap::Command {
    Flags::command().term_width(help_width()).mut_subcommand("serve", |serve| {
        serve.mut_args(|flag| {
            // DIR, --help and --version are of every help.
            let is_short = flag.is_positional() || serve::SHORT_HELP.contains(&flag.get_id().as_str());
            flag.hide_short_help(!is_short)
        })
    })
}

/// What people write who know other programs: `flash help serve`, `flash DIR`, and `flash` with the flags of a server.
fn as_meant(mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(first) = words.get(1).cloned() else { return words };
    let flash = Flags::command();
    let serves = |flag: &str| {
        let serve = flash.find_subcommand("serve").expect("there is flash serve");
        let name = flag.split('=').next().unwrap_or(flag);
        let is_it = |known: &clap::Arg| {
            let long = known.get_long_and_visible_aliases().unwrap_or_default();
            // A value may follow a letter: -p3000.
            let short = known
                .get_short()
                .is_some_and(|short| name.strip_prefix('-').is_some_and(|rest| rest.starts_with(short)));
            short || name.strip_prefix("--").is_some_and(|name| long.contains(&name))
        };
        serve.get_arguments().any(is_it) || foreign::instead(flag).is_some()
    };
    match first.to_str() {
        Some("help") => {
            words.remove(1);
            words.insert(words.len().min(2), "--help".into());
        }
        Some(flag) if serves(flag) => words.insert(1, "serve".into()),
        Some(flag) if flag.starts_with('-') => {}
        _ if flash.find_subcommand(&first).is_some() || sibling::exists(&first) => {}
        // A word with a slash is no command. If there is no such folder, the server says so.
        Some(path) if path.contains('/') => words.insert(1, "serve".into()),
        _ if Path::new(&first).is_dir() => words.insert(1, "serve".into()),
        _ => {}
    }
    words
}

/// What another server's flag is here, or what clap says.
fn what_is_wrong(error: &clap::Error) -> String {
    let flag = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => flag,
        _ => return one_line(error),
    };
    match foreign::instead(flag) {
        Some(instead) => format!("{flag} is not a flag of flash serve: {instead}"),
        None => one_line(error),
    }
}

#[cfg(test)]
mod tests;
