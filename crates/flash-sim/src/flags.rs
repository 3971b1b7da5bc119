//! The command line as data: the commands, their flags, and their help. What they do is theirs.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use flash_sim::Architecture;

use crate::paper::Exhibit;
use crate::scenario::Setting;

/// Simulate web server architectures on machines that you do not have
///
/// MP, MT, SPED, AMPED and PIPELINED servers run on any number of processors, with any memory and disks. The load is any other,
/// or that of the traces of the paper on pipelined servers (Choi, Kim, Ersoz and Das, WWW 2005).
#[derive(Debug, Parser)]
#[command(name = "flash sim", bin_name = "flash sim", version, disable_help_subcommand = true)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one server under one load
    ///
    /// Runs one server under one load and says how fast it was, and what it waited for.
    #[command(after_help = SETTINGS)]
    Run(Run),
    /// Run all combinations of several settings
    ///
    /// Runs every combination of the given values on all processors, a JSON file for each in DIR, and all of them in
    /// DIR/results.csv. What is there already is not run again.
    #[command(after_help = SWEEPS)]
    Sweep(Sweep),
    /// List every key of a parameter file, with its unit, its default and its meaning
    Keys {
        /// Only keys that contain this, such as machine or _us
        part: Option<String>,
    },
    /// Tell one request's life
    ///
    /// Follows one request from the client's sending to its last byte, and prints where it was, what it had, and what it
    /// waited for.
    #[command(after_help = SETTINGS)]
    Explain(Explain),
    /// Reproduce the paper: its tables, figures and claims
    ///
    /// Writes Tables 1, 4 and 5 and Figures 2, 3, 5, 6, 7 and 8 of the PIPELINED paper as SVG, CSV and JSON. Also writes which
    /// of its claims hold (claims.md, claims.json).
    #[command(after_help = ASSUMPTIONS)]
    Paper(Paper),
    /// Compare what caches keep
    ///
    /// Plays the same requests to caches of the same bytes, each with another policy. Says how often each finds a file, and how
    /// many reads of a disk a request needs. Belady's cache knows the future; no other can do better with files of one size.
    #[command(after_help = POLICIES)]
    Policies(Policies),
    /// Measure this machine and write a parameter file
    ///
    /// Runs real servers under load, switches threads and reads from the disk, for about a minute. Every value of the
    /// parameter file says how it was measured. The machine should do nothing else meanwhile.
    Calibrate(Calibrate),
    /// Compare the models with real servers on this machine
    ///
    /// Five architectures serve sites of three sizes to two numbers of clients, on one processor, with limited memory and a
    /// slow disk. The simulator predicts their results. Takes some ten minutes, and needs root.
    Validate(Validate),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Write parameters and results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Where results go
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Print the command of each run that is still to be done, and run nothing
    #[arg(long)]
    pub commands: bool,
    #[command(flatten)]
    pub jobs: Jobs,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Which request, counted from the first measured one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub request: u64,
    /// Draw it, too
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Paper {
    /// Only this table or figure: table1, table4, table5, or a figure's number; repeatable
    #[arg(long = "figure", value_name = "N")]
    pub exhibits: Vec<Exhibit>,
    /// Fewer points, shorter runs, one seed: minutes become seconds
    #[arg(long)]
    pub quick: bool,
    /// Where to write
    #[arg(long, value_name = "DIR", default_value = "paper")]
    pub out: PathBuf,
    /// Assumptions of your own for the runs of Figures 5 to 8; what the figures say themselves stays
    #[arg(value_name = "KEY=VALUE", value_parser = Setting::parse)]
    pub settings: Vec<Setting>,
    #[command(flatten)]
    pub jobs: Jobs,
}

#[derive(Debug, Args)]
pub(crate) struct Policies {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Sizes of the cache, with commas between them
    #[arg(long, value_name = "MB", value_delimiter = ',', required = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub memory_mb: Vec<u32>,
    /// Write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub jobs: Jobs,
}

#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// Write the parameter file here; unless said, to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The server; unless said, the one beside this program
    #[arg(long, value_name = "PATH")]
    pub flash: Option<PathBuf>,
    /// One short round: seconds, and only the order of magnitude
    #[arg(long)]
    pub quick: bool,
    /// A folder on the disk to be measured; unless said, where temporary files are
    #[arg(long, value_name = "DIR")]
    pub disk: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// A parameter file that calibrate wrote here; unless said, this machine is calibrated first
    #[arg(long, value_name = "FILE")]
    pub parameters: Option<PathBuf>,
    /// Two sizes, one number of clients, a second each
    #[arg(long)]
    pub quick: bool,
    /// Only sites of these sizes, with commas between them
    #[arg(long, value_name = "MB", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(10..=4000))]
    pub data_set_mb: Vec<u32>,
    /// Only these architectures, with commas between them
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = architecture)]
    pub architecture: Vec<Architecture>,
    /// Measure nothing: predict what an earlier run's validation.json has measured; repeatable
    #[arg(long, value_name = "FILE")]
    pub measured: Vec<PathBuf>,
    /// Where validation.md and validation.json go
    #[arg(long, value_name = "DIR", default_value = "validation")]
    pub out: PathBuf,
    /// The server; unless said, the one beside this program
    #[arg(long, value_name = "PATH")]
    pub flash: Option<PathBuf>,
    /// A folder on the disk to be used; unless said, where temporary files are
    #[arg(long, value_name = "DIR")]
    pub disk: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ScenarioArgs {
    /// A parameter file (TOML); what it leaves out is as in the paper
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Settings that lie on top of it
    #[arg(value_name = "KEY=VALUE", value_parser = Setting::parse)]
    pub settings: Vec<Setting>,
}

#[derive(Debug, Args)]
pub(crate) struct Jobs {
    /// How many runs at a time; unless said, one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

/// One that can be compared with a real server.
fn architecture(name: &str) -> Result<Architecture, String> {
    let known = Architecture::ALL.into_iter().find(|architecture| architecture.name() == name);
    known.ok_or_else(|| format!("expected {}", Architecture::ALL.map(Architecture::name).join(", ")))
}

const SETTINGS: &str = "\
Settings:
  architecture=mp|mt|sped|amped|uring|newflash|pipelined
  machine.processors=16                         server.threads_per_processor=64
  machine.memory_mb=4000                        run.clients=2500
  machine.data_cache_mb=100                     run.measured_requests=1000000
  run.seed=7
  workload.trace=penn-state-cse|uc-berkeley|penn-state|clarknet|worldcup98|nasa

Examples:
  flash sim run architecture=pipelined machine.processors=16 workload.trace=worldcup98
  flash sim run 'machine.disks=[{ access_ms = 2.99, transfer_mbit_s = 1200, block_kb = 8.192 }]'

Without block_kb a file is one access to the disk. The figures of flash sim paper have one for each 8.192 KB.
'flash sim keys' lists all keys, which are those of a parameter file.";

const ASSUMPTIONS: &str = "\
The figures read files in blocks of 8.192 KB, each with an access to the disk. flash sim run reads a file in one go, unless
machine.disks has a block_kb.

Examples:
  flash sim paper --quick
  flash sim paper --out spinning server.lock_wait=spin server.locks=one
  flash sim paper --out one-go 'machine.disks=[{ access_ms = 2.99, transfer_mbit_s = 1200 }]'";

const POLICIES: &str = "\
Of the settings, workload, run.seed, run.measured_requests, run.settling_requests and the first disk's block_kb count. Unless
said, as many requests fill the caches first as are measured then.

Examples:
  flash sim policies --memory-mb 32,64,128 workload.log.path=access.log
  flash sim policies --memory-mb 128 \
      'workload.synthetic={ files = 3000, data_set_mb = 150, ln_size_sd = 1, zipf_exponent = 0.8 }'";

const SWEEPS: &str = "\
A setting may have several values, KEY=A,B,C, or a range of whole numbers, KEY=1..16.

Examples:
  flash sim sweep --out sweep architecture=mt,pipelined machine.processors=1..16 run.seed=1..3

For a scheduler, --commands prints a line for each run, all independent of each other; see docs/simulator.md.";
