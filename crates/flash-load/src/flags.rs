//! The command line as data, and how it becomes a [`Load`]. Each group of flags has a file of its own, which also turns it into
//! a part of the load.

mod client;
mod pace;
mod units;
mod workload;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use flash_load::{ClientGroup, ClientOptions, Error, Load, Method, Server, Until, Url, Urls};
use flash_traffic::Workload;

use client::ClientFlags;
use pace::PaceFlags;
pub(crate) use pace::Task;
use workload::WorkloadFlags;

/// Measure a web server with many clients
///
/// A few threads simulate many clients of any HTTP server. The report has the number of responses, their times, and the errors.
/// Without flags 32 clients, each on a connection that stays open, request URL again and again for ten seconds.
#[derive(Debug, Parser)]
#[command(name = "flash load", bin_name = "flash load", version, after_help = AFTER_HELP)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// http://HOST[:PORT]/PATH or https://…; all other targets are on the same server
    #[arg(required = true)]
    url: Option<String>,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    pace: PaceFlags,
    #[command(flatten)]
    client: ClientFlags,
    /// How long to measure
    #[arg(long, short = 'd', value_name = "TIME", default_value = "10s", value_parser = units::span)]
    duration: Duration,
    /// End after this many requests, instead of after a time
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "duration")]
    requests: Option<u64>,
    /// How long to run before measuring
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::span)]
    warm_up: Duration,
    /// How long a response may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::span)]
    timeout: Duration,
    /// Threads that simulate the clients
    #[arg(long, short = 't', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// The seed of random numbers; the same seed sends the same requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Connect to this socket in the file system
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// Write the report to this file, as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the report's figures to this file, as a table of comma-separated values; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Show no progress, and no report if --json or --csv writes it
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the files of a workload
    ///
    /// Writes a file of the right size for each target that the same flags of 'flash load' request. Keeps files of an earlier
    /// run. Writes nothing into a folder with other files. The same seed writes the same bytes, which --verify checks.
    MakeSite(MakeSite),
}

#[derive(Debug, Args)]
pub(crate) struct MakeSite {
    /// The folder; it is created if it does not exist
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    workload: WorkloadFlags,
    /// The seed of the files, and of the random numbers of a synthetic site
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Show no progress
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
}

impl MakeSite {
    pub(crate) fn workload(&self) -> Result<Arc<dyn Workload>, Error> {
        self.workload.workload(None, self.seed)
    }
}

const AFTER_HELP: &str = "\
Examples:
  flash load http://localhost:8080/ -c 100 -d 30s
  flash load http://localhost:8080/ --rate 5000 --poisson --json report.json
  flash load http://localhost:8080/ --log access.log.gz --data-set 90M --hot /logo.png --hot-rate 1000
  flash load https://localhost:8443/ --http2 --streams 32 -c 8
  flash load http://localhost:8080/ --urls list.txt --levels 0.5,0.8,0.95
  flash load make-site /srv/site --specweb 20 && flash load http://localhost:8080/ --specweb 20 --verify";

impl Flags {
    /// Reads the lists, finds the server and connects to it once.
    pub(crate) fn load(&self) -> Result<Load, Error> {
        let text = self.url.as_deref().unwrap_or_default();
        let url = match self.client.speaks_tls() && !text.contains("://") {
            true => Url::parse(&format!("https://{text}"))?,
            false => Url::parse(text)?,
        };
        let tls = self.client.tls(&url)?;
        let options = self.client.options()?;
        let mut groups = vec![ClientGroup {
            workload: self.workload.workload(Some(&url), self.seed)?,
            pace: self.pace.pace(),
            options: options.clone(),
        }];
        if let Some((targets, pace)) = self.pace.hot()? {
            // Whatever the others bring along: this one is looked at.
            let options = ClientOptions { method: Method::Get, body: None, ..options };
            groups.push(ClientGroup { workload: Arc::new(Urls::new(targets, "hot")), pace, options });
        }
        let server = match &self.unix_socket {
            Some(path) => Server::reach_unix(path, &url)?,
            None => Server::reach(&url)?,
        };
        Ok(Load {
            server: server.with_tls(tls),
            groups,
            threads: self.threads,
            warm_up: self.warm_up,
            until: self.requests.map_or(Until::Time(self.duration), Until::Requests),
            timeout: self.timeout,
            bits_per_second_min: self.pace.min_rate,
            seed: self.seed,
        })
    }

    /// A sweep over sizes is one at a given pace.
    pub(crate) fn task(&self) -> Task {
        match self.workload.sizes() {
            sizes if sizes.is_empty() => self.pace.task(),
            sizes => Task::Sizes(sizes),
        }
    }
}
