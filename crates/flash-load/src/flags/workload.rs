//! The requests: for the URL itself, or from a list, a log, a mix, or a synthetic site.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgGroup, Args};
use flash_load::{Error, Url, Urls};
use flash_traffic::log::Format;
use flash_traffic::sample::{Distances, Sizes};
use flash_traffic::{
    Dynamic, Listed, Passes, References, Sessions, Shape, SizeClasses, SpecWeb, Synthetic, Trace, Workload,
};

use super::units::{bytes, some_bytes};

#[derive(Debug, Args)]
#[command(next_help_heading = "Requests")]
#[group(skip)]
#[command(group = ArgGroup::new("asked").args(["urls", "log", "specweb", "synthetic", "sizes"]).multiple(false))]
pub(super) struct WorkloadFlags {
    /// Targets or URLs to request in turn, one on each line
    #[arg(long, value_name = "FILE")]
    urls: Option<PathBuf>,
    /// An access log to replay, compressed or not
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The format of its lines: common, combined, epa or worldcup [default: detected]
    #[arg(long, value_name = "FORMAT", requires = "log")]
    log_format: Option<Format>,
    /// End the log where its files have so many bytes in total, such as 90MB
    #[arg(long, value_name = "BYTES", requires = "log", value_parser = some_bytes)]
    data_set: Option<u64>,
    /// Replay the log once, not again and again
    #[arg(long, requires = "log")]
    once: bool,
    /// A mix like SPECweb99's, with this many directories of 36 files and 5 MB
    #[arg(long, value_name = "DIRECTORIES", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    specweb: Option<u32>,
    /// Programs answer 30 of 100 requests of that mix, as in SPECweb99; make-site makes them with its files. TARGET answers
    /// most of them [default: /cgi-bin/specweb99]; /specweb99.php exists too
    #[arg(long, value_name = "TARGET", requires = "specweb", num_args = 0..=1, require_equals = true, value_parser = program)]
    dynamic: Option<Option<String>>,
    /// A synthetic site, such as files=10000,zipf=1.05,ln-mean=9,ln-sd=2,total=200MB,stack=4/1.6/0.8; 'in-turn' instead of a
    /// stack requests all files in turn, again and again
    #[arg(long, value_name = "SHAPE", value_parser = shape)]
    synthetic: Option<Shape>,
    /// Files of these sizes, such as 1K,10K,100K, measured one after the other
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = some_bytes)]
    sizes: Vec<u64>,
    /// Report results by size: up to each of these bytes, and above
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = bytes)]
    size_classes: Vec<u64>,
}

impl WorkloadFlags {
    /// The workload. Without any of the flags it is the URL itself, if there is one.
    pub(super) fn workload(&self, url: Option<&Url>, seed: u64) -> Result<Arc<dyn Workload>, Error> {
        let usage = |error: &dyn std::fmt::Display| Error::Usage(error.to_string());
        let workload: Arc<dyn Workload> = if let Some(path) = &self.urls {
            Arc::new(read_list(path)?)
        } else if let Some(path) = &self.log {
            Arc::new(self.replay(path)?)
        } else if let Some(directories) = self.specweb {
            let specweb = SpecWeb::new(directories, Sessions::SpecWeb)
                .ok_or_else(|| usage(&"--specweb takes up to a million directories"))?;
            match &self.dynamic {
                None => Arc::new(specweb),
                Some(program) => Arc::new(
                    Dynamic::new(specweb, program.as_deref())
                        .ok_or_else(|| usage(&"--dynamic takes up to 10,000 directories"))?,
                ),
            }
        } else if let Some(shape) = &self.synthetic {
            Arc::new(Synthetic::new(shape, seed).map_err(|error| usage(&error))?)
        } else if !self.sizes.is_empty() {
            Arc::new(Listed::sweep(&self.sizes))
        } else if let Some(url) = url {
            Arc::new(Urls::new([url.target.clone()], "all"))
        } else {
            return Err(usage(&"say for what: --log, --specweb, --synthetic or --sizes"));
        };
        if self.size_classes.is_empty() {
            return Ok(workload);
        }
        Ok(Arc::new(SizeClasses::new(workload, &self.size_classes)))
    }

    /// The workloads of a sweep over sizes.
    pub(super) fn sizes(&self) -> Vec<(u64, Arc<dyn Workload>)> {
        let all = Listed::sweep(&self.sizes);
        let each = (0..).zip(&self.sizes).filter_map(|(file, bytes)| Some((*bytes, all.only(file)?)));
        each.map(|(bytes, only)| (bytes, Arc::new(only) as Arc<dyn Workload>)).collect()
    }

    fn replay(&self, path: &Path) -> Result<impl Workload + use<>, Error> {
        let mut trace =
            Trace::read(path, self.log_format, None).map_err(|error| Error::Run(error.to_string()))?;
        if let Some(bytes) = self.data_set {
            trace.truncate(bytes);
        }
        let (replay, _) = trace.replay(if self.once { Passes::Once } else { Passes::Looped });
        if replay.catalogue().files.is_empty() {
            return Err(Error::Run(format!("the log {} has no static requests", path.display())));
        }
        Ok(replay)
    }
}

/// Where a program answers.
fn program(text: &str) -> Result<String, String> {
    let right = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?');
    if right { Ok(text.into()) } else { Err("write a path, such as /specweb99.php".into()) }
}

fn read_list(path: &Path) -> Result<Listed, Error> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::Run(format!("cannot read the list {}: {error}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    Listed::parse(text.lines()).map_err(|error| failed(&error))
}

/// `files=…,zipf=…`, each once at most; what is left out is near to real sites.
fn shape(text: &str) -> Result<Shape, String> {
    let mut shape = Shape {
        folder: "synthetic".into(),
        files: 10_000,
        sizes: Sizes { ln_mean: 9.0, ln_sd: 1.8, bytes_total: None },
        exponent: 1.05,
        references: References::Independent,
    };
    for word in text.split(',') {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let wrong = || {
            format!(
                "'{word}': write files=N,zipf=X,ln-mean=X,ln-sd=X,total=BYTES,stack=MEAN/SD/SHARE or in-turn"
            )
        };
        let number =
            |value: &str| value.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(wrong);
        match name {
            "files" => shape.files = value.parse().map_err(|_| wrong())?,
            "zipf" => shape.exponent = number(value)?,
            "ln-mean" => shape.sizes.ln_mean = number(value)?,
            "ln-sd" => shape.sizes.ln_sd = number(value)?,
            "total" => shape.sizes.bytes_total = Some(some_bytes(value)?),
            "in-turn" if value.is_empty() => shape.references = References::RoundRobin,
            "stack" => {
                let parts = value.split('/').map(number).collect::<Result<Vec<_>, _>>()?;
                let &[ln_mean, ln_sd, share] = parts.as_slice() else { return Err(wrong()) };
                shape.references = References::LruStack(Distances { ln_mean, ln_sd, share });
            }
            _ => return Err(wrong()),
        }
    }
    Ok(shape)
}
