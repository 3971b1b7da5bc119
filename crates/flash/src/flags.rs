//! The command line as data: every flag with its type, its default and its help.
//!
//! This is the one source of flags. The parser, `--help`, the manual page and the shell completions are all
//! derived from it, so that a flag is added here and nowhere else. What a flag does to a site or an architecture
//! is [`serve`](crate::serve)'s.

use std::collections::HashMap;
use std::ffi::OsString;
use std::mem;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use flash_cli::{command_name, help_width, one_line};
use flash_core::site::hosts::HostName;
use flash_core::site::places::PlaceNames;
use flash_core::site::routes::RouteMatch;

use crate::failure::Failure;
use crate::sibling;
use crate::start_folder::absolute;

mod absolute;
mod acme;
mod admin;
mod auth;
mod certificate_host;
mod choices;
mod codings;
mod denial;
mod duration;
mod experiments;
mod explain;
mod field;
mod field_file;
mod foreign;
mod helper;
mod hsts;
mod import;
mod listen;
mod log;
mod name;
mod programs;
mod proxy;
mod proxy_url;
mod respond;
mod route;
mod rules;
mod serve;
mod sign;
mod signed;
mod size;
mod tls;
mod upstream;
mod usual_listen;
mod value;

pub(crate) use acme::{Acme, AcmeCommand, AcmeFolder, AcmeHosts, AcmeKey};
pub(crate) use admin::{AdminAt, host_name};
pub(crate) use auth::Auth;
pub(crate) use certificate_host::{HOSTS_OF_SITE, check_issuable};
pub(crate) use choices::{Arch, Balance, FollowLinks, ForwardedField, Helpers, Sandbox};
pub(crate) use denial::Denial;
pub(crate) use experiments::{Experiments, Spawn};
pub(crate) use explain::{Explain, Url};
pub(crate) use field::{CONTENT_ENCODING, CONTENT_TYPE, CacheControl, Field, FileType};
pub(crate) use field_file::{FieldFile, FieldWords};
pub(crate) use foreign::instead;
pub(crate) use helper::Helper;
pub(crate) use hsts::Hsts;
pub(crate) use import::{ForeignServer, Import};
pub(crate) use listen::{Listen, ListenAddress, UnixAddress};
pub(crate) use log::{ErrorLogFormat, ErrorLogTo, LogField, LogFormat, LogTo, TraceContext};
pub(crate) use programs::{FastCgiParam, Programs};
pub(crate) use proxy::{Proxy, ProxyField, ProxyTo};
pub(crate) use proxy_url::ProxyUrl;
pub(crate) use respond::Respond;
pub(crate) use route::{RouteFlag, Upstream, Words};
pub(crate) use rules::{Rules, Satisfy};
pub(crate) use serve::{RulesFlags, Serve, SiteFlags};
pub(crate) use sign::Sign;
pub(crate) use signed::{LinkForm, Signed};
pub(crate) use size::shown as shown_size;
pub(crate) use tls::{ClientCertificate, Https, Tls};
pub(crate) use upstream::{NamedUpstream, UpstreamBalance, UpstreamServer};
pub(crate) use value::Switch;

/// A web server whose event loop never waits for a disk.
#[derive(Debug, Parser)]
#[command(name = "flash", version, propagate_version = true, about, disable_help_subcommand = true)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub command: Option<Command>,
}

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
    /// Find and open files for other servers
    ///
    /// Finds, opens and reads files for other servers, whose
    /// workers ask over a Unix socket and never wait for the disk themselves.
    Helper(Box<Helper>),
    /// Find every error of a configuration file
    ///
    /// Reads a configuration file as flash serve does, and prints every error with its place. Exit code 0 if there is none,
    /// and 2 otherwise.
    Check {
        /// The file to check
        #[arg(long, value_name = "FILE", default_value = explain::DEFAULT_CONFIG, value_hint = ValueHint::FilePath)]
        config: PathBuf,
    },
    /// Have a running server read its configuration again
    ///
    /// The server reads its configuration file and all that its command line names, and checks all of it. Then it serves with
    /// that from the next request on. Requests under way keep what they began with, and no connection is closed. If anything is
    /// wrong, nothing changes: every error is printed, and the exit code is 1.
    #[command(
        after_help = "Examples:\n  flash reload\n  flash reload --config site.toml\n  flash reload --admin unix:/run/site.sock\n  flash reload --watch"
    )]
    Reload(Reload),
    /// Have a running server open renamed logs again
    #[command(after_help = "Example, for logrotate:\n  postrotate\n    flash reopen\n  endscript")]
    Reopen(Administered),
    /// Put another server in a running one's place
    ///
    /// The server has its program executed again, as it is on the disk now, or another one. The new server gets the arguments, the
    /// environment and the listening sockets of the old one. Once it accepts, the old one stops to accept and finishes what is
    /// under way. If the new one does not start, the old one goes on, the reason is printed, and the exit code is 1.
    #[command(
        after_help = "Examples:\n  flash upgrade\n  flash upgrade --config site.toml\n  flash upgrade --binary /usr/bin/flash.old"
    )]
    Upgrade(Upgrade),
    /// Say what a running server does
    ///
    /// Prints a summary: the server's state, its traffic, its busiest loop, its devices and its certificates. The exit code is 0
    /// if it serves and nothing is broken, 1 if it drains or something is, with a line for each, and 2 if it cannot be asked.
    #[command(after_help = "Examples:\n  flash status\n  flash status --admin unix:/run/site.sock --json")]
    Status(Status),
    /// Show what a running server does, each second
    ///
    /// Shows the status page on a terminal: traffic, devices, sites, loops and slow requests. Keys: q quits, arrows scroll.
    /// If standard output is no terminal, it prints the page once.
    #[command(after_help = "Examples:\n  flash top\n  flash top --admin unix:/run/site.sock --once")]
    Top(Top),
    /// Say what a request gets, and why
    ///
    /// Answers a request as the server with this configuration file would, without a server. It prints the listener, the site
    /// and the place, and each rule that holds there with its line. The file or program follows, and the response's head.
    #[command(
        after_help = "Example:\n  flash explain --config flash.toml http://www.example.org/assets/app.js"
    )]
    Explain(explain::Explain),
    /// Make a signed link
    ///
    /// Prints the URL with a signature by the first key of its place, as the configuration file says it. The server needs no reload.
    #[command(
        after_help = "Examples:\n  flash sign https://www.example.org/members/a.iso --expires 1h\n  flash sign https://www.example.org/members/ --prefix --expires 30d --client 192.0.2.1"
    )]
    Sign(Sign),
    /// Write another server's configuration anew for Flash
    ///
    /// Prints a configuration file that answers as the other server does, with its lines as comments. A list at the end names each
    /// line that was not taken, and each that was taken with a difference: why, and what to do.
    #[command(after_help = "Example:\n  flash import nginx /etc/nginx/nginx.conf > flash.toml")]
    Import(Import),
    /// See and renew the certificates that an authority issues
    #[command(subcommand)]
    Acme(AcmeCommand),
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

#[derive(Debug, Args)]
pub(crate) struct Reload {
    /// Stay, and ask for another reload whenever the configuration file has changed or leads elsewhere, as a Kubernetes ConfigMap
    /// does. Flash looks every two seconds
    #[arg(long, conflicts_with = "admin")]
    pub watch: bool,

    #[command(flatten)]
    pub to: Administered,
}

#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    /// The program that the new server is. Without it: the program of the running server
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub binary: Option<PathBuf>,

    /// How long the new server may take until it accepts connections
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive, default_value = "30s")]
    pub ready_within: Duration,

    #[command(flatten)]
    pub to: Administered,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print all that the server knows of itself, as JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub to: Administered,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print the page once
    #[arg(long)]
    pub once: bool,

    #[command(flatten)]
    pub to: Administered,
}

/// Which server a command is for.
#[derive(Debug, Args)]
pub(crate) struct Administered {
    /// The configuration file of the server, which says where it is reached
    #[arg(long, value_name = "FILE", default_value = explain::DEFAULT_CONFIG, value_hint = ValueHint::FilePath)]
    pub config: PathBuf,

    /// The server's admin socket, as its --admin names it
    #[arg(long, value_name = "unix:PATH", value_parser = AdminAt::from_str, conflicts_with = "config")]
    pub admin: Option<AdminAt>,
}

impl Flags {
    /// Reads a command line, of which the first word is the program's name. Help and version, where they are
    /// asked for, are printed here and end the process. `of_file` reads the file that `--config` names, if it does.
    pub(crate) fn read_with_file(
        words: impl IntoIterator<Item = OsString>,
        of_file: impl Fn(&Path, &ArgMatches) -> Result<OfFile, Failure>,
    ) -> Result<Flags, Failure> {
        let words = as_meant(words.into_iter().collect());
        // Built once: it reads the words of each site and place, too.
        let mut command = command();
        let (mut found, mut of_this) = (matches(&mut command, &words)?, OfFile::default());
        let mut sites = Vec::new();
        if let Some(("serve", serve)) = found.subcommand()
            && let Some(path) = serve.get_one::<PathBuf>("config")
        {
            of_this = of_file(path, serve)?;
            // Behind `flash serve`.
            let mut with =
                |more: &[OsString]| matches(&mut command, &[&words[..2], more, &words[2..]].concat());
            found = with(&of_this.words)?;
            sites = sites_of(mem::take(&mut of_this.sites), |more| Ok(settled(&with(more)?)))?;
        }
        let mut flags = settled(&found);
        if let Some(Command::Serve(flags)) = &flags.command
            && sites.is_empty()
            && !flags.programs.files.is_empty()
        {
            let site = site_with_private_places(flags);
            sites = sites_of(vec![site], |more| {
                let more = [&of_this.words, more].concat();
                Ok(settled(&matches(&mut command, &[&words[..2], &more, &words[2..]].concat())?))
            })?;
        }
        if let Some(Command::Serve(flags)) = &mut flags.command
            && !sites.is_empty()
        {
            flags.sites = sites;
            // If no site needs a folder, this one is opened, and nothing in it is looked for.
            let first = flags.rules_of_sites().find_map(|rules| rules.root.clone());
            flags.dir = first.as_deref().unwrap_or(Path::new("/")).into();
        }
        if let Some(Command::Serve(flags)) = &mut flags.command {
            (flags.environment, flags.files) = (of_this.environment, of_this.files);
            flags.settle_schemes();
        }
        Ok(flags)
    }

    /// Reads a command line alone.
    #[cfg(test)]
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Flags, Failure> {
        Self::read_with_file(words, |path, _| panic!("{} is not read here", path.display()))
    }
}

impl Serve {
    /// The rules of all sites and places of a configuration file.
    pub(crate) fn rules_of_sites(&self) -> impl Iterator<Item = &RulesFlags> {
        self.sites.iter().flat_map(|site| [&site.own].into_iter().chain(&site.places))
    }
}

/// What a configuration file adds to a command line.
#[derive(Default)]
pub(crate) struct OfFile {
    pub words: Vec<OsString>,
    pub sites: Vec<SiteOfFile>,
    /// The variables of the environment that it has values of.
    pub environment: Vec<String>,
    /// It, and those that it includes.
    pub files: Vec<PathBuf>,
}

/// A site of a file.
pub(crate) struct SiteOfFile {
    pub hosts: Vec<HostName>,
    pub own: RulesOfFile,
    pub names: Arc<PlaceNames>,
    /// In the order of [`PlaceNames::pairs`].
    pub places: Vec<RulesOfFile>,
}

/// What holds for a site or a place: what it sets, and what it inherits.
pub(crate) struct RulesOfFile {
    /// `None` if no folder is needed, because the rules answer themselves.
    pub root: Option<Arc<Path>>,
    /// Rules with equal words share them.
    pub words: Arc<[OsString]>,
    /// Those that make a difference to how names lead to files.
    pub of_files: Arc<[OsString]>,
}

fn settled(found: &ArgMatches) -> Flags {
    let flags = Flags::from_arg_matches(found).expect("clap has found them");
    match flags.command {
        Some(Command::Serve(mut flags)) => {
            let serve = found.subcommand_matches("serve").expect("these words are those of flash serve");
            let is_usual = |id| serve.value_source(id) == Some(ValueSource::DefaultValue);
            flags.settle_ports_of_authorities(is_usual("listen"), is_usual("https"));
            Flags { command: Some(Command::Serve(flags.settle())) }
        }
        _ => flags,
    }
}

/// The only site of a command line that has private folders, each with a place of its own.
fn site_with_private_places(flags: &Serve) -> SiteOfFile {
    let prefixes = flags.programs.files.iter().filter_map(|files| match &files.place {
        RouteMatch::Prefix(prefix) => Some((prefix, &files.what)),
        RouteMatch::Suffix(_) | RouteMatch::Rest => None,
    });
    let names = PlaceNames::new([], prefixes.clone().map(|(prefix, _)| prefix.clone()), []);
    let rules = |root: &Path, words: Arc<[OsString]>| RulesOfFile {
        root: Some(root.into()),
        of_files: Arc::clone(&words),
        words,
    };
    let places = names.pairs().filter_map(|name| {
        let (prefix, folder) = prefixes.clone().find(|(prefix, _)| Some(&***prefix) == name.prefix)?;
        let strip = [b"--strip-prefix=", &**prefix].concat();
        Some(rules(folder, [OsString::from_vec(strip), "--internal".into()].into()))
    });
    let (own, places) = (rules(&absolute(&flags.dir), Arc::default()), places.collect());
    SiteOfFile { hosts: vec![HostName::Any], own, names: Arc::new(names), places }
}

/// Reads the words of each site and place. Those with equal words share their flags.
fn sites_of(
    sites: Vec<SiteOfFile>,
    mut read: impl FnMut(&[OsString]) -> Result<Flags, Failure>,
) -> Result<Vec<SiteFlags>, Failure> {
    let (mut known, mut views): (HashMap<Arc<[OsString]>, Arc<Serve>>, _) = (HashMap::new(), HashMap::new());
    let mut flags_of = |words: Arc<[OsString]>| {
        if let Some(flags) = known.get(&words) {
            return Ok::<_, Failure>(Arc::clone(flags));
        }
        let Some(Command::Serve(flags)) = read(&words)?.command else { unreachable!("flash serve is read") };
        let flags: Arc<Serve> = Arc::from(flags);
        known.insert(words, Arc::clone(&flags));
        Ok(flags)
    };
    let mut rules = |RulesOfFile { root, words, of_files }| {
        let next = views.len();
        let view = *views.entry(of_files).or_insert(next);
        Ok(RulesFlags { root, flags: flags_of(words)?, view })
    };
    let site = |SiteOfFile { hosts, own, names, places }| {
        let own = rules(own)?;
        let places = places.into_iter().map(&mut rules).collect::<Result<_, Failure>>()?;
        Ok(SiteFlags { hosts, own, names, places })
    };
    sites.into_iter().map(site).collect()
}

/// What clap finds in a command line.
fn matches(command: &mut clap::Command, words: &[OsString]) -> Result<ArgMatches, Failure> {
    command.try_get_matches_from_mut(words).map_err(|error| match error.kind() {
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
        _ if absolute(Path::new(&first)).is_dir() => words.insert(1, "serve".into()),
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
