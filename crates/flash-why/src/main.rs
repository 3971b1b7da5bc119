//! The program `flash-why`, which `flash why` runs. Flags become a [`Watch`]. Its blocks become a table, a page, lines of JSON,
//! and a report at the end.

#![forbid(unsafe_code)]

mod flags;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flags::Flags;
use flash_cli::Failure;
use flash_why::{Block, Error, Live, Lost, Summary, ThreadTotals, Watch};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

fn main() -> ExitCode {
    flash_cli::finish("flash why", flash_cli::read(std::env::args_os()).and_then(work))
}

/// The last line of `--json`.
#[derive(Serialize)]
struct Totals<'a> {
    level: u32,
    seconds: f64,
    threads: &'a [ThreadTotals],
    lost: Lost,
}

fn work(flags: Flags) -> Result<(), Failure> {
    let target = flags.target()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // The second one ends the program at once.
        signal_hook::flag::register_conditional_default(signal, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|error| Failure::Run(format!("cannot watch for signals: {error}")))?;
    }
    let mut lines = flags.json.as_deref().map(open).transpose()?;
    let mut watch = Watch::begin(&target, flags.level)?;
    Watch::run_first();
    let name = target.name();
    let count = watch.processes();
    let plural = if count == 1 { "process" } else { "processes" };
    let head = format!("{name}: {count} {plural}, {}", watch.level());
    let to_terminal = io::stdout().is_terminal() && !to_stdout(&flags);
    let mut live = (to_terminal && !flags.quiet && !watch.is_own()).then(|| Live::open(&head)).transpose()?;
    if live.is_none() {
        say(&head);
    }
    if let Some(note) = watch.note() {
        say(note);
    }
    let mut summary = Summary::default();
    let over = run(&flags, &mut watch, &mut summary, &mut lines, &mut live, &stop)?;
    watch.unfinished(&mut |block| note(&block, &mut summary, &mut lines));
    let seconds = watch.watched_for().as_secs_f64();
    let threads = watch.threads();
    let lost = watch.lost(&threads);
    drop(live);
    if let Some(lines) = &mut lines {
        let totals = Totals { level: watch.level().number(), seconds, threads: &threads, lost };
        let written = serde_json::to_writer(&mut *lines, &totals).map_err(io::Error::from);
        written.and_then(|()| lines.write_all(b"\n")).and_then(|()| lines.flush()).map_err(|error| {
            Failure::Run(format!(
                "cannot write to {}: {error}",
                flags.json.as_deref().unwrap_or(Path::new("-")).display()
            ))
        })?;
    }
    let report = flash_why::report(&summary, &threads, seconds, lost);
    let report = format!("{head}, {seconds:.1} s\n\n{report}");
    if let Some(path) = &flags.report {
        let page = flash_why::page(&head, &summary, &threads, seconds, lost);
        std::fs::write(path, page).map_err(|error| Failure::io("write to", path, &error))?;
    }
    match to_stdout(&flags) {
        true => flash_cli::say(report.trim_end()),
        false => flash_cli::print(report)?,
    }
    match over && !watch.is_own() {
        true => Err(Failure::Run(format!("{name} ended after {seconds:.1} s; the report is of that time"))),
        false => Ok(()),
    }
}

type Lines = Option<BufWriter<Box<dyn Write>>>;

/// Watches until it is time; whether the processes ended first.
fn run(
    flags: &Flags,
    watch: &mut Watch,
    summary: &mut Summary,
    lines: &mut Lines,
    live: &mut Option<Live>,
    stop: &AtomicBool,
) -> Result<bool, Error> {
    loop {
        watch.poll(&mut |block| note(&block, summary, lines))?;
        if watch.is_over() {
            return Ok(true);
        }
        let is_unread = to_stdout(flags) && flash_cli::reader_left();
        if is_unread
            || stop.load(Ordering::Relaxed)
            || flags.length.is_some_and(|length| watch.watched_for() >= length)
        {
            return Ok(false);
        }
        let interval = watch.interval();
        match live {
            Some(live) => {
                if live.turn(interval, summary, watch)? {
                    return Ok(false);
                }
            }
            None => std::thread::sleep(interval),
        }
    }
}

/// Whether standard output gets a line for each sleep.
fn to_stdout(flags: &Flags) -> bool {
    flags.json.as_deref() == Some(Path::new("-"))
}

fn note(block: &Block, summary: &mut Summary, lines: &mut Lines) {
    summary.add(block);
    if let Some(lines) = lines {
        // A full disk is told when the last line is written.
        let _ = serde_json::to_writer(&mut *lines, block);
        let _ = lines.write_all(b"\n");
    }
}

fn open(path: &Path) -> Result<BufWriter<Box<dyn Write>>, Failure> {
    let to: Box<dyn Write> = match path == Path::new("-") {
        true => Box::new(flash_cli::Stdout),
        false => Box::new(File::create(path).map_err(|error| Failure::io("write to", path, &error))?),
    };
    Ok(BufWriter::new(to))
}

fn say(text: &str) {
    flash_cli::say(format_args!("flash why: {text}"));
}
