//! The command line of `flash why`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use flash_why::{Error, Level, Target};

/// Say what puts a server's loops to sleep
///
/// Watches any server and says what puts its event loops to sleep outside their wait for events. It names the system call, the
/// file and the cause in the kernel. It says how often and how long loops slept, and how many other connections waited
/// meanwhile. A loop is a thread that waits in epoll, poll, select or io_uring for several clients, or would if it had the time.
#[derive(Debug, Parser)]
#[command(name = "flash why", bin_name = "flash why", version, after_help = AFTER_HELP)]
pub(crate) struct Flags {
    /// A process's number, or the name of all processes to watch
    target: Option<String>,
    /// Watch for so long, e.g. 10s or 500ms; without it until Ctrl-C or the processes' end
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) length: Option<Duration>,
    /// Write a page with figures
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write a line for each block, and a last one of totals; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// How to look: 1 is eBPF, 2 is perf events, 3 is samples of /proc; without it the best that rights allow
    #[arg(long, value_name = "N", value_parser = level)]
    pub(crate) level: Option<Level>,
    /// No table while it watches, also on a terminal
    #[arg(long)]
    pub(crate) quiet: bool,
    /// A command to start and watch
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const AFTER_HELP: &str = "\
Examples:
  flash why nginx
  flash why 4711 --for 10s --report why.html --json why.jsonl
  flash why -- ./server --port 8080

Level 1 needs root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYSLOG, and a kernel from 5.8 on.
Level 2 needs root, or CAP_PERFMON and CAP_SYSLOG, or for your own processes kernel.perf_event_paranoid=1.
Level 3 needs the process's own user.";

impl Flags {
    pub(crate) fn target(&self) -> Result<Target, Error> {
        match (&self.target, self.command.is_empty()) {
            (Some(word), true) => Ok(Target::of(word)),
            (None, false) => Ok(Target::Command(self.command.clone())),
            (Some(_), false) => Err(usage("a process and a command: one of them")),
            (None, true) => Err(usage("no process: a number, a name, or -- COMMAND")),
        }
    }
}

fn usage(message: &str) -> Error {
    Error::Usage(format!("{message} (see flash why --help)"))
}

fn level(text: &str) -> Result<Level, String> {
    match text {
        "1" => Ok(Level::Ebpf),
        "2" => Ok(Level::Perf),
        "3" => Ok(Level::Proc),
        _ => Err("1, 2 or 3".into()),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| "a time like 10s".to_owned())?;
    let seconds = match &text[digits..] {
        "ms" => number / 1000.0,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err("a time like 500ms, 10s, 5m or 1h".into()),
    };
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or("more than no time".into())
}
