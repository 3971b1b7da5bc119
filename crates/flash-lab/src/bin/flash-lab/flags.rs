//! What the laboratory is asked to do.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Experiments on web servers: the figures of the papers, and our own, beside today's servers
///
/// A plan says which servers are asked for what, and what others found; a run measures it and checks the findings.
#[derive(Debug, Parser)]
#[command(name = "flash lab", bin_name = "flash lab", version, disable_help_subcommand = true)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Name the plans that there are
    List,
    /// Say what a plan does, with which servers, and how long it takes
    Show {
        /// A plan's name, or the path of one of your own (.toml)
        plan: String,
    },
    /// Run plans: measure what is not measured yet, then say what the findings come to
    ///
    /// Servers get processors of their own. Some plans also give them little memory and a slow disk. That needs root, and every
    /// setting is restored. Without root such a plan runs in a reduced form, and says what it leaves out. Ctrl-C stops a run; the same command continues it.
    Run(RunFlags),
    /// Write a page about everything that was run: DIR/report.html
    Report {
        /// Where raw data lie
        #[arg(long, value_name = "DIR", default_value = "lab")]
        out: PathBuf,
    },
    /// Write what was measured as tables for statistics programs
    ///
    /// A row is one measurement. Columns have the names of figures, with their units, such as latency_p99_ms. --into also writes
    /// a table for each distribution.
    Export(ExportFlags),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ExportFlags {
    /// Plans that were run. Without any, all of them
    #[arg(value_name = "PLAN")]
    pub(crate) plans: Vec<String>,
    /// The form of the tables: comma-separated values (RFC 4180)
    #[arg(long, required = true)]
    csv: bool,
    /// Write PLAN.csv into this folder, and PLAN.DISTRIBUTION.csv. Without it, the table of one plan goes to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) into: Option<PathBuf>,
    /// Where raw data lie
    #[arg(long, value_name = "DIR", default_value = "lab")]
    pub(crate) out: PathBuf,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RunFlags {
    /// Plans by name, or the paths of your own (.toml); 'all' is every plan that comes along
    #[arg(required = true, value_name = "PLAN")]
    pub(crate) plans: Vec<String>,
    /// Only these of each plan's servers
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) servers: Vec<String>,
    /// One short round of some of it, to see that everything works and which way things go
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only the first so many of each plan's rounds; the same command with more, or without, goes on with the others
    #[arg(long, value_name = "N", default_value_t = u32::MAX, hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Where raw data lie, a folder for each plan
    #[arg(long, value_name = "DIR", default_value = "lab")]
    pub(crate) out: PathBuf,
    /// Where the files that servers serve are made, on the disk that is to be measured. Without it, OUT/.work
    #[arg(long, value_name = "DIR")]
    pub(crate) work: Option<PathBuf>,
    /// Where real logs lie. Without it, FLASH_TRACES
    #[arg(long, value_name = "DIR", env = "FLASH_TRACES", hide_env = true)]
    pub(crate) traces: Option<PathBuf>,
    /// The flash to measure. Without it, the one beside this program
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) flash: Option<PathBuf>,
    /// Run each plan on a disk that reads one after the other, in the order in which they come, and takes this long for each in the mean.
    /// The data lie beside those of the plan, as PLAN-seek
    #[arg(long, value_name = "MS", value_parser = seek)]
    pub(crate) seek_ms: Option<f64>,
    /// Run each plan on a disk with an arm, as flash slowdisk has them: 'deskstar c-look'. The data lie beside those of the plan, as
    /// PLAN-arm
    #[arg(long, value_name = "DRIVE", conflicts_with = "seek_ms")]
    pub(crate) arm: Option<String>,
    /// Begin anew, and remove what was measured before
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Install the servers that are missing (apt-get)
    #[arg(long)]
    pub(crate) install: bool,
    /// Of the order of servers, of made-up sites and of clients
    #[arg(long, default_value_t = 1999)]
    pub(crate) seed: u64,
}

fn seek(text: &str) -> Result<f64, String> {
    let ms = text.parse().ok().filter(|ms| (0.1..=100.0).contains(ms));
    ms.ok_or_else(|| "write milliseconds from 0.1 to 100".to_owned())
}
