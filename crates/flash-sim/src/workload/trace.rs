//! The six traces of PIPELINED, Tables 4 and 5. The logs are not available. Each trace is synthesised to the paper's figures,
//! with an exponent of Zipf's law that is fitted to Table 5.
//!
//! The paper's kilobytes have 1,024 bytes. Only in powers of two do 48,079 files of 124.3 KB make 5.7 GB. The same is true of
//! 511,189 files of 9.84 KB (4.8 GB), and of 139,894 files of 15.7 KB (2.1 GB). For the other three, the number of files times
//! the mean size is not the data set. They keep the data set and the number of files, and the mean follows from them.

use flash_traffic::sample::Sizes;

use super::synthetic::SyntheticFiles;

/// A trace as the paper describes it, and how it is synthesised.
#[derive(Debug, PartialEq)]
pub(crate) struct PaperTrace {
    /// What it is called on the command line and in files.
    pub(crate) name: &'static str,
    /// What the paper calls it.
    pub(crate) title: &'static str,
    /// Table 4.
    pub(crate) files: u32,
    pub(crate) mean_file_kb: f64,
    pub(crate) requests: u64,
    pub(crate) dataset_bytes: u64,
    /// Table 5: a data cache of so many bytes has so many hits in a hundred, once it is warm. Section 6.1 uses the same
    /// number as the trace's system memory.
    pub(crate) cache_bytes: u64,
    pub(crate) hit_percent: f64,
    /// Ours, fitted to Table 5 with a warm LRU cache.
    pub(crate) zipf_exponent: f64,
    /// Of the logarithm of a file's size in bytes: what gives the mean, and a spread as sites have it.
    pub(crate) ln_size_mean: f64,
    pub(crate) ln_size_sd: f64,
}

const MB: f64 = 1_048_576.0;
const GB: f64 = 1024.0 * MB;

pub(crate) static PAPER_TRACES: [PaperTrace; 6] = [
    PaperTrace {
        name: "penn-state-cse",
        title: "Penn State CSE",
        files: 48_079,
        mean_file_kb: 124.3,
        requests: 1_395_148,
        dataset_bytes: (5.7 * GB) as u64,
        cache_bytes: (4.0 * GB) as u64,
        hit_percent: 99.6,
        zipf_exponent: 1.34,
        ln_size_mean: 9.26,
        ln_size_sd: 2.2,
    },
    PaperTrace {
        name: "uc-berkeley",
        title: "UC Berkeley",
        files: 511_189,
        mean_file_kb: 9.84,
        requests: 1_383_211,
        dataset_bytes: (4.8 * GB) as u64,
        cache_bytes: (3.5 * GB) as u64,
        hit_percent: 88.3,
        zipf_exponent: 0.72,
        ln_size_mean: 8.02,
        ln_size_sd: 1.5,
    },
    PaperTrace {
        name: "penn-state",
        title: "Penn State",
        files: 139_894,
        mean_file_kb: 15.7,
        requests: 8_853_333,
        dataset_bytes: (2.1 * GB) as u64,
        cache_bytes: (1.5 * GB) as u64,
        hit_percent: 99.47,
        zipf_exponent: 1.27,
        ln_size_mean: 8.0,
        ln_size_sd: 1.8,
    },
    PaperTrace {
        name: "clarknet",
        title: "Clarknet",
        files: 28_864,
        mean_file_kb: 14.2,
        requests: 2_978_121,
        dataset_bytes: (320.0 * MB) as u64,
        cache_bytes: (220.0 * MB) as u64,
        hit_percent: 99.5,
        zipf_exponent: 1.34,
        ln_size_mean: 8.19,
        ln_size_sd: 1.5,
    },
    PaperTrace {
        name: "worldcup98",
        title: "WorldCup98",
        files: 13_236,
        mean_file_kb: 15.3,
        requests: 7_000_000,
        dataset_bytes: (158.0 * MB) as u64,
        cache_bytes: (110.0 * MB) as u64,
        hit_percent: 99.9,
        zipf_exponent: 1.59,
        ln_size_mean: 8.37,
        ln_size_sd: 1.43,
    },
    PaperTrace {
        name: "nasa",
        title: "NASA",
        files: 9_129,
        mean_file_kb: 27.6,
        requests: 3_147_684,
        dataset_bytes: (208.0 * MB) as u64,
        cache_bytes: (150.0 * MB) as u64,
        hit_percent: 99.82,
        zipf_exponent: 1.52,
        ln_size_mean: 8.03,
        ln_size_sd: 2.0,
    },
];

impl PaperTrace {
    /// The trace of a name, or the names that there are.
    pub(crate) fn named(name: &str) -> Result<&'static PaperTrace, String> {
        let names = || PAPER_TRACES.iter().map(|trace| trace.name).collect::<Vec<_>>().join(", ");
        let found = PAPER_TRACES.iter().find(|trace| trace.name == name);
        found.ok_or_else(|| format!("there is no trace '{name}': expected one of {}", names()))
    }

    /// The files of the synthesised trace. The mean response is as large as the mean file. In so skewed a trace a few files get
    /// most requests. Without this rule chance would decide the throughput of a whole figure. The axes of Figure 6 show about
    /// that mean.
    pub(crate) fn synthetic(&self) -> SyntheticFiles {
        SyntheticFiles {
            files: self.files,
            sizes: Sizes {
                ln_mean: self.ln_size_mean,
                ln_sd: self.ln_size_sd,
                bytes_total: Some(self.dataset_bytes),
            },
            zipf_exponent: self.zipf_exponent,
            mean_reply_bytes: Some(self.dataset_bytes as f64 / f64::from(self.files)),
        }
    }
}

/// In files a trace is its name.
/// The names of all traces, for those who ask which keys there are.
pub(super) fn names(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names: Vec<&str> = PAPER_TRACES.iter().map(|trace| trace.name).collect();
    schemars::json_schema!({ "type": "string", "enum": names })
}

pub(super) mod by_name {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::PaperTrace;

    pub(crate) fn serialize<S: Serializer>(trace: &PaperTrace, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(trace.name)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<&'static PaperTrace, D::Error> {
        PaperTrace::named(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}
