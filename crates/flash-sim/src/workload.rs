//! What the simulated clients ask for: the paper's six traces, synthesised, sites of any other shape, and logs of real ones.
//! All of them are [`flash_traffic::Workload`]s, so that the simulator cannot tell them apart.

mod synthetic;
mod trace;
mod truncated;

use std::path::PathBuf;
use std::sync::Arc;

use flash_sim::Demand;
use flash_traffic::Passes;
use flash_traffic::sample::Sizes;
use flash_traffic::{Trace, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use flash_cli::Failure;

pub(crate) use self::synthetic::{Synthetic, SyntheticFiles};
pub(crate) use self::trace::{PAPER_TRACES, PaperTrace};

/// Where requests come from, as parameter files say it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// One of the paper's traces.
    #[serde(with = "trace::by_name")]
    #[schemars(schema_with = "trace::names")]
    Trace(&'static PaperTrace),
    Truncated(Truncated),
    Synthetic(SyntheticSite),
    Log(Log),
}

/// The beginning of a trace, as far as it needs no larger data set, again and again (Flash §6.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Truncated {
    /// One of the paper's traces.
    #[serde(with = "trace::by_name")]
    #[schemars(schema_with = "trace::names")]
    pub trace: &'static PaperTrace,
    /// How much there is to ask for.
    pub data_set_mb: f64,
}

/// A site of any shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SyntheticSite {
    /// The number of files.
    pub files: u32,
    /// The size of all files together.
    pub data_set_mb: f64,
    /// The standard deviation of the logarithm of sizes.
    pub ln_size_sd: f64,
    /// The exponent of Zipf's law, by which files are requested.
    pub zipf_exponent: f64,
    /// The mean size of responses. Unless said, chance decides which files are requested often.
    pub mean_reply_kb: Option<f64>,
}

/// The log of a real site, in a format that the load generator reads too, again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    /// The log's file.
    pub path: PathBuf,
    /// The log ends where its files have so many bytes together. Unless said, all of it is replayed.
    pub data_set_mb: Option<f64>,
}

impl Default for Source {
    fn default() -> Source {
        Source::Trace(&PAPER_TRACES[0])
    }
}

impl Source {
    /// Files and requests, the same for the same seed.
    pub(crate) fn demand(&self, seed: u64) -> Result<Demand, Failure> {
        match self {
            Source::Trace(trace) => synthetic(&trace.synthetic(), seed),
            Source::Truncated(Truncated { trace, data_set_mb }) => {
                let whole = Synthetic::new(&trace.synthetic(), seed).map_err(unusable)?;
                let bytes_max = bytes(*data_set_mb)?;
                let beginning = truncated::beginning(&whole, seed, trace.requests, bytes_max);
                Ok(Demand { workload: Arc::new(beginning), popularity: None, follow: None })
            }
            Source::Synthetic(site) => synthetic(&site.files()?, seed),
            Source::Log(log) => log.demand(),
        }
    }
}

impl Log {
    fn demand(&self) -> Result<Demand, Failure> {
        let read = Trace::read(&self.path, None, None);
        let mut trace = read.map_err(|error| Failure::Run(format!("workload.log: {error}")))?;
        if let Some(mb) = self.data_set_mb {
            trace.truncate(bytes(mb)?);
        }
        let (replay, _) = trace.replay(Passes::Looped);
        Ok(Demand { workload: Arc::new(replay), popularity: None, follow: None })
    }
}

impl SyntheticSite {
    fn files(&self) -> Result<SyntheticFiles, Failure> {
        let bytes_total = bytes(self.data_set_mb)?;
        // Scaled to the data set, only the spread of the distribution is left.
        let sizes = Sizes { ln_mean: 8.0, ln_sd: self.ln_size_sd, bytes_total: Some(bytes_total) };
        Ok(SyntheticFiles {
            files: self.files,
            sizes,
            zipf_exponent: self.zipf_exponent,
            mean_reply_bytes: self.mean_reply_kb.map(|kb| kb * 1e3),
        })
    }
}

fn synthetic(shape: &SyntheticFiles, seed: u64) -> Result<Demand, Failure> {
    let site = Synthetic::new(shape, seed).map_err(unusable)?;
    let popularity = Some(site.popularity());
    Ok(Demand { workload: Arc::new(site) as Arc<dyn Workload>, popularity, follow: None })
}

fn unusable(error: synthetic::SyntheticError) -> Failure {
    Failure::Usage(format!("workload: {error}"))
}

fn bytes(mb: f64) -> Result<u64, Failure> {
    if mb.is_finite() && mb > 0.0 && mb < 1e12 {
        return Ok((mb * 1e6) as u64);
    }
    Err(Failure::Usage(format!("workload: data_set_mb = {mb}: expected a number above 0, in MB")))
}

/// In a word or two, for people.
impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Trace(trace) => f.write_str(trace.title),
            Source::Truncated(Truncated { trace, data_set_mb }) => {
                write!(f, "{} truncated to {data_set_mb} MB", trace.title)
            }
            Source::Synthetic(site) => write!(f, "{} synthetic files", site.files),
            Source::Log(log) => write!(f, "{}", log.path.display()),
        }
    }
}
