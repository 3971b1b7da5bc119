//! Closed-loop load from `wrk`, on the clients' processor.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use flash_rig::{find, interrupt};

/// What `wrk` is to do.
pub(crate) struct Load<'a> {
    pub(crate) port: u16,
    pub(crate) path: &'a str,
    pub(crate) fields: &'a [String],
    pub(crate) connections: usize,
    pub(crate) seconds: u64,
    /// Every request is for a new name that is missing, and has to be answered with 404. In this folder the script for it is
    /// written. The path then only says what the names begin with.
    pub(crate) missing: Option<&'a Path>,
}

/// Asks for a new name each time, and counts the answers that are not 404.
const MISSING: &str = r#"
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init(args) base, number, wrong = args[1], 0, 0 end
function request()
  number = number + 1
  return "GET " .. base .. number .. ".html HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
end
function response(status) if status ~= 404 then wrong = wrong + 1 end end
function done() for _, thread in ipairs(threads) do print("wrong answers: " .. thread:get("wrong")) end end
"#;

/// Whether `wrk` is there at all.
pub(crate) fn installed() -> bool {
    find("wrk").is_ok()
}

/// Runs the load and returns the number of requests completed; any error among them is an error here.
pub(crate) fn run(load: &Load) -> Result<u64> {
    let mut command = Command::new("wrk");
    command.args(["-t", "1", "-c", &load.connections.to_string(), "-d", &format!("{}s", load.seconds)]);
    for field in load.fields {
        command.args(["-H", field]);
    }
    if let Some(folder) = load.missing {
        let script = folder.join("missing.lua");
        fs::write(&script, MISSING)?;
        command.arg("-s").arg(script);
    }
    command.arg(format!("http://127.0.0.1:{}{}", load.port, load.path));
    if load.missing.is_some() {
        static RUN: AtomicU32 = AtomicU32::new(0);
        let run = RUN.fetch_add(1, Ordering::Relaxed);
        command.args(["--", &format!("{}-{}-{run}-", load.path, std::process::id())]);
    }
    let output = command.output().context("running wrk")?;
    interrupt::check()?;
    parse(&String::from_utf8_lossy(&output.stdout), load.missing.is_some())
}

/// `missing` says that all answers have to be 404.
fn parse(text: &str, missing: bool) -> Result<u64> {
    let mut requests = None;
    if missing && !text.contains("wrong answers: 0\n") {
        bail!("wrk saw other answers than 404: {text}");
    }
    for line in text.lines().map(str::trim) {
        if line.starts_with("Socket errors") || (line.starts_with("Non-2xx") && !missing) {
            bail!("wrk saw errors: {line}");
        }
        if let Some((count, _)) = line.split_once(" requests in ") {
            requests = count.parse::<u64>().ok();
        }
    }
    match requests {
        Some(0) => bail!("wrk completed no request"),
        Some(requests) => Ok(requests),
        None => bail!("wrk said nothing that we understand: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_errors_are_read() {
        let found = |text| parse(text, false);
        assert_eq!(
            found("x\n  1234 requests in 1.10s, 1.41MB read\nRequests/sec: 1\n").expect("a count"),
            1234
        );
        assert!(
            found("  9 requests in 1s, 1MB read\n  Socket errors: connect 0, read 1, write 0, timeout 0")
                .is_err()
        );
        assert!(found("  9 requests in 1s, 1MB read\n  Non-2xx or 3xx responses: 9\n").is_err());
        assert!(found("  0 requests in 1s, 1MB read").is_err());
        assert!(found("unable to connect").is_err());
        let text = "  9 requests in 1s, 1MB read\n  Non-2xx or 3xx responses: 9\nwrong answers: ";
        assert_eq!(parse(&format!("{text}0\n"), true).expect("a count"), 9);
        assert!(parse(&format!("{text}1\n"), true).is_err() && parse(text, true).is_err());
    }
}
