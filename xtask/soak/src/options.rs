//! What the soak is asked to do.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Every architecture, as it is started. The end-to-end suite has the same.
pub(crate) const ARCHITECTURES: [&str; 7] =
    ["amped", "amped --helpers process", "uring", "sped", "pipelined", "mt", "mp"];

pub(crate) const HELP: &str = "\
cargo xtask soak [OPTIONS]     hours of visitors, slow and rude clients beside cold and changing files; every byte checked

  --minutes N        for all architectures together (default 60); '--minutes 3 --arch amped' is a first look
  --arch A,B         some of: amped processes uring sped pipelined mt mp (default: all)
  --seed N           what clients draw from (default: the time)
  --flash PATH       this program instead of a fresh release build
  --flash-args 'A B' more arguments for flash serve
";

/// In less, caches still fill when the quarters of a run are compared.
const SECONDS_MIN: f64 = 60.0;

#[derive(Debug)]
pub(crate) struct Options {
    /// For each architecture.
    pub(crate) each: Duration,
    pub(crate) archs: Vec<&'static str>,
    pub(crate) seed: u64,
    pub(crate) flash: Option<PathBuf>,
    pub(crate) flash_args: Vec<String>,
}

impl Options {
    pub(crate) fn parse(args: &[String], seed: u64) -> Result<Options> {
        let mut options = Options {
            each: Duration::ZERO,
            archs: ARCHITECTURES.to_vec(),
            seed,
            flash: None,
            flash_args: vec![],
        };
        let mut minutes = 60.0;
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let mut value =
                || args.next().map(String::as_str).with_context(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--minutes" => minutes = value()?.parse::<f64>().context("--minutes: a number")?,
                "--arch" => options.archs = value()?.split(',').map(named).collect::<Result<_>>()?,
                "--seed" => options.seed = value()?.parse().context("--seed: a number")?,
                "--flash" => options.flash = Some(std::path::absolute(value()?)?),
                "--flash-args" => {
                    options.flash_args = value()?.split_whitespace().map(str::to_owned).collect();
                }
                _ => bail!("unknown option {flag}\n{HELP}"),
            }
        }
        let seconds = minutes * 60.0 / options.archs.len() as f64;
        if !(SECONDS_MIN..1e9).contains(&seconds) {
            bail!(
                "each architecture needs {SECONDS_MIN} s at least; --minutes {minutes} leaves it {seconds:.0}"
            );
        }
        options.each = Duration::from_secs_f64(seconds);
        Ok(options)
    }
}

fn named(name: &str) -> Result<&'static str> {
    let found = ARCHITECTURES.into_iter().find(|&arch| short(arch) == name);
    found.with_context(|| format!("--arch {name}: no such architecture\n{HELP}"))
}

/// The name of an architecture in one word.
pub(crate) fn short(arch: &'static str) -> &'static str {
    if arch.contains("--helpers process") { "processes" } else { arch }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), 1)
    }

    #[test]
    fn the_time_is_shared_and_wrong_options_are_refused() {
        assert_eq!(parse("--minutes 70").expect("good options").each, Duration::from_secs(600));
        let options = parse("--minutes 2.5 --arch processes,mp --seed 9").expect("good options");
        assert_eq!(options.archs, ["amped --helpers process", "mp"]);
        assert_eq!((options.each, options.seed), (Duration::from_secs(75), 9));
        for wrong in ["--minutes 6", "--minutes x", "--minutes nan", "--arch nginx", "--seed", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
