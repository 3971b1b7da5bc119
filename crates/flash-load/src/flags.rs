//! The command line as data, and how it becomes a [`Load`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;
use flash_load::{Arrivals, Crowd, Error, Keep, Load, Manner, Pace, Server, Until, Url, Urls};

/// Measure a web server with many clients
///
/// Plays many clients from a few threads against any HTTP server, and says how many answers came, how fast, and what went
/// wrong. Without flags: 32 clients, each on a connection that it keeps, ask for URL again and again for ten seconds.
#[derive(Debug, Parser)]
#[command(name = "flash load", version, max_term_width = 100)]
pub(crate) struct Flags {
    /// http://HOST[:PORT]/PATH; what else is asked for lies on the same server
    pub(crate) url: String,
    /// Targets or URLs to ask for in turn, one on each line
    #[arg(long, value_name = "FILE", help_heading = "What is asked")]
    pub(crate) urls: Option<PathBuf>,
    /// Clients that each wait for an answer before they ask again
    #[arg(long, short = 'c', default_value_t = 32, help_heading = "When")]
    pub(crate) clients: u32,
    /// How long a client thinks between an answer and its next request
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = span, help_heading = "When")]
    pub(crate) think: Duration,
    /// Requests a second, due whatever has come back; waits are counted from when they were due
    #[arg(long, value_name = "PER-SECOND", conflicts_with_all = ["clients", "think"], help_heading = "When")]
    pub(crate) rate: Option<f64>,
    /// Requests of --rate come at random moments, as independent people ask
    #[arg(long, requires = "rate", help_heading = "When")]
    pub(crate) poisson: bool,
    /// Connections that --rate may open; a request that finds all of them busy waits
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "When")]
    pub(crate) connections: u32,
    /// How long to measure
    #[arg(long, short = 'd', value_name = "TIME", default_value = "10s", value_parser = span, help_heading = "When")]
    pub(crate) duration: Duration,
    /// End after so many requests, instead of a time
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "duration", help_heading = "When")]
    pub(crate) requests: Option<u64>,
    /// How long to run before anything is counted
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = span, help_heading = "When")]
    pub(crate) warm_up: Duration,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span, help_heading = "When")]
    pub(crate) timeout: Duration,
    /// Threads that play the clients
    #[arg(long, short = 't', default_value_t = 1)]
    pub(crate) threads: u32,
    /// What chance is drawn from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Requests on a connection before it is closed [default: as many as the server allows]
    #[arg(long, value_name = "N", help_heading = "Who asks")]
    pub(crate) requests_per_connection: Option<u32>,
    /// Requests that are under way at once on a connection
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Who asks")]
    pub(crate) pipeline: u32,
    /// Connect to this socket in the file system
    #[arg(long, value_name = "PATH")]
    pub(crate) unix_socket: Option<PathBuf>,
    /// Write the report to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Show no progress, and no report where --json has it
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
}

/// Reads a command line, of which the first word is the program's name. Help and version, where they are asked for, are
/// printed here and end the process.
pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Flags, Error> {
    Flags::try_parse_from(words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        _ => Error::Usage(format!("{} (see flash load --help)", one_line(&error))),
    })
}

/// What clap says in paragraphs, on one line: what is wrong and its tips, without the usage and its hint.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said =
        text.split("\n\n").filter(|part| !part.starts_with("Usage: ") && !part.starts_with("For more "));
    let words: Vec<&str> = said.flat_map(str::split_whitespace).collect();
    words.join(" ").replacen("error: ", "", 1).replace(" tip: ", "; ")
}

impl Flags {
    /// Reads the lists, finds the server and connects to it once.
    pub(crate) fn load(&self) -> Result<Load, Error> {
        let url = Url::parse(&self.url)?;
        let targets = match &self.urls {
            Some(path) => read_list(path)?,
            None => vec![url.target.clone()],
        };
        let pace = match self.rate {
            None => Pace::Closed { clients: self.clients, think: self.think },
            Some(per_second) => Pace::Open {
                per_second,
                arrivals: if self.poisson { Arrivals::Poisson } else { Arrivals::Constant },
                connections_max: self.connections,
            },
        };
        let manner = Manner {
            keep: self.requests_per_connection.map_or(Keep::Open, Keep::Requests),
            pipeline: self.pipeline,
            ..Manner::default()
        };
        let server = match &self.unix_socket {
            Some(path) => Server::reach_unix(path, &url)?,
            None => Server::reach(&url)?,
        };
        Ok(Load {
            server,
            crowds: vec![Crowd { workload: Arc::new(Urls::new(targets, "all")), pace, manner }],
            threads: self.threads,
            warm_up: self.warm_up,
            until: self.requests.map_or(Until::Time(self.duration), Until::Requests),
            timeout: self.timeout,
            seed: self.seed,
        })
    }
}

/// One target or URL a line; empty lines and those that begin with # are none.
fn read_list(path: &Path) -> Result<Vec<String>, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::Run(format!("cannot read the list {}: {error}", path.display())))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let targets = lines.map(|line| match line.strip_prefix('/') {
        Some(_) if line.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(line.to_owned()),
        _ => Url::parse(line).map(|url| url.target),
    });
    let targets = targets
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::Run(format!("in the list {}: {error}", path.display())))?;
    if targets.is_empty() {
        return Err(Error::Run(format!("the list {} names nothing", path.display())));
    }
    Ok(targets)
}

/// A time with its unit: `500us`, `100ms`, `10s`, `2m`, `1h`; only 0 needs none.
fn span(text: &str) -> Result<Duration, String> {
    const SHAPE: &str = "write a time with its unit, such as 500ms, 10s, 2m or 1h";
    const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = match digits.parse() {
        Ok(number) if !digits.starts_with('+') => number,
        _ => return Err(SHAPE.into()),
    };
    let unit_us = match &text[digits.len()..] {
        "us" | "µs" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "" if number == 0 => 1,
        "" => return Err(format!("add the unit, as in {number}s or {number}ms")),
        _ => return Err(SHAPE.into()),
    };
    let time = number.checked_mul(unit_us).map(Duration::from_micros);
    time.filter(|time| *time <= LONGEST).ok_or_else(|| "that is longer than a year".into())
}
