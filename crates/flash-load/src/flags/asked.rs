//! What is asked for: the URL itself, a list, or a log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use flash_load::{Error, Url, Urls};
use flash_traffic::Workload;
use flash_traffic::log::Format;
use flash_traffic::trace::{Passes, Trace};

use super::units::some_bytes;

#[derive(Debug, Args)]
#[command(next_help_heading = "What is asked")]
#[group(skip)]
pub(super) struct AskedFlags {
    /// Targets or URLs to ask for in turn, one on each line
    #[arg(long, value_name = "FILE")]
    urls: Option<PathBuf>,
    /// An access log to replay, packed or not
    #[arg(long, value_name = "FILE", conflicts_with = "urls")]
    log: Option<PathBuf>,
    /// How its lines are written: common, combined, epa or worldcup [default: as they look]
    #[arg(long, value_name = "FORMAT", requires = "log")]
    log_format: Option<Format>,
    /// End the log where the files that were asked for have so many bytes, such as 90MB
    #[arg(long, value_name = "BYTES", requires = "log", value_parser = some_bytes)]
    data_set: Option<u64>,
    /// Go through the log once, not again and again
    #[arg(long, requires = "log")]
    once: bool,
}

impl AskedFlags {
    pub(super) fn workload(&self, url: &Url, _seed: u64) -> Result<Arc<dyn Workload>, Error> {
        Ok(match (&self.urls, &self.log) {
            (Some(path), _) => Arc::new(Urls::new(read_list(path)?, "all")),
            (None, Some(path)) => Arc::new(self.replay(path)?),
            (None, None) => Arc::new(Urls::new([url.target.clone()], "all")),
        })
    }

    fn replay(&self, path: &Path) -> Result<impl Workload + use<>, Error> {
        let mut trace = Trace::read(path, self.log_format, None)
            .map_err(|error| Error::Run(format!("cannot read the log {}: {error}", path.display())))?;
        if let Some(bytes) = self.data_set {
            trace.truncate(bytes);
        }
        let (replay, _) = trace.replay(if self.once { Passes::Once } else { Passes::Looped });
        if replay.catalogue().files.is_empty() {
            return Err(Error::Run(format!("the log {} holds no static requests", path.display())));
        }
        Ok(replay)
    }
}

/// One target or URL a line; empty lines and those that begin with # are none.
fn read_list(path: &Path) -> Result<Vec<String>, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::Run(format!("cannot read the list {}: {error}", path.display())))?;
    let mut targets = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_target = line.starts_with('/') && line.bytes().all(|byte| byte.is_ascii_graphic());
        targets.push(if is_target {
            line.to_owned()
        } else {
            let url = Url::parse(line)
                .map_err(|error| Error::Run(format!("{}, line {number}: {error}", path.display())))?;
            url.target
        });
    }
    if targets.is_empty() {
        return Err(Error::Run(format!("the list {} names nothing", path.display())));
    }
    Ok(targets)
}
