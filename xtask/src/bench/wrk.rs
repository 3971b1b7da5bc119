//! Closed-loop load from `wrk`, on the clients' processor.

use std::process::Command;

use anyhow::{Context, Result, bail};
use flash_rig::{find, interrupt};

/// What `wrk` is to do.
pub(crate) struct Load<'a> {
    pub(crate) port: u16,
    pub(crate) path: &'a str,
    pub(crate) fields: &'a [String],
    pub(crate) connections: usize,
    pub(crate) seconds: u64,
}

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
    command.arg(format!("http://127.0.0.1:{}{}", load.port, load.path));
    let output = command.output().context("running wrk")?;
    interrupt::check()?;
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn parse(text: &str) -> Result<u64> {
    let mut requests = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with("Socket errors") || line.starts_with("Non-2xx") {
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
        assert_eq!(
            parse("x\n  1234 requests in 1.10s, 1.41MB read\nRequests/sec: 1\n").expect("a count"),
            1234
        );
        assert!(
            parse("  9 requests in 1s, 1MB read\n  Socket errors: connect 0, read 1, write 0, timeout 0")
                .is_err()
        );
        assert!(parse("  9 requests in 1s, 1MB read\n  Non-2xx or 3xx responses: 9\n").is_err());
        assert!(parse("  0 requests in 1s, 1MB read").is_err());
        assert!(parse("unable to connect").is_err());
    }
}
