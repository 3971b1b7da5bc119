//! Synthetic logs of requests, for the lab's plans if no real logs are at hand. They have a few requests for files of many
//! sizes, most of them for popular files. They show that plans run; their figures mean nothing.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Where plans look for the logs that they replay.
const LOGS: [&str; 2] = ["nasa-aug95/made-up", "worldcup98/wc_day6_1_sample.tar.bz2"];
const LINES: u64 = 20_000;
const FILES: u64 = 1_000;
/// All files together: more than the 150 MB that plans cut logs to.
const FILE_BYTES_MEAN: f64 = 170_000.0;
const SEED: u64 = 1;

/// Writes them below a folder.
///
/// # Errors
/// When the disk does not take them.
pub(crate) fn make(folder: &Path) -> Result<()> {
    for log in LOGS {
        let path = folder.join(log);
        let parent = path.parent().context("a log lies in a folder")?;
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        fs::write(&path, text()).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Common Log Format, a request each second. Every file is asked for once at least.
fn text() -> String {
    let mut random = fastrand::Rng::with_seed(SEED);
    // Sizes are exponential, and ranks favour the first files.
    let bytes: Vec<u64> =
        (0..FILES).map(|_| (-random.f64().max(1e-9).ln() * FILE_BYTES_MEAN) as u64).collect();
    let mut text = String::new();
    for line in 0..LINES {
        let file = if line < FILES { line } else { (FILES as f64 * random.f64().powi(3)) as u64 };
        let (hour, minute, second) = (line / 3600 % 24, line / 60 % 60, line % 60);
        let (client, size) = (random.u8(1..255), bytes[file as usize]);
        let time = format_args!("01/Aug/1995:{hour:02}:{minute:02}:{second:02} +0000");
        _ = writeln!(text, "192.0.2.{client} - - [{time}] \"GET /made-up/{file}.html HTTP/1.0\" 200 {size}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_find_logs_that_hold_more_than_they_replay() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path()).unwrap();
        for log in LOGS {
            let text = fs::read_to_string(folder.path().join(log)).unwrap();
            assert_eq!(text.lines().count() as u64, LINES);
            let sizes =
                text.lines().take(FILES as usize).map(|line| line.rsplit(' ').next().unwrap().parse::<u64>());
            assert!(sizes.map(Result::unwrap).sum::<u64>() > 150_000_000);
        }
    }
}
