//! What people see: the progress of a run, and the report as text, JSON or CSV. On a terminal the progress is one line that changes;
//! elsewhere it is one line a second.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flash_cli::Failure;
use flash_load::{Conformance, Latency, Live, Load, Report, Until};
use indicatif::{ProgressBar, ProgressStyle};

use crate::flags::Flags;

/// Where results go.
pub(crate) struct Output {
    json: Option<Destination>,
    csv: Option<Destination>,
    quiet: bool,
}

/// A file, or standard output.
struct Destination {
    path: PathBuf,
    /// None for standard output.
    file: Option<File>,
}

impl Destination {
    fn open(path: &Path) -> Result<Destination, Failure> {
        let file = (!is_stdout(path)).then(|| File::create(path)).transpose();
        let file = file.map_err(|error| Failure::io("write to", path, &error))?;
        Ok(Destination { path: path.to_owned(), file })
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let Some(file) = &mut self.file else { return flash_cli::print(text) };
        file.write_all(text.as_bytes()).map_err(|error| Failure::io("write to", &self.path, &error))
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

impl Output {
    /// Opens the files for the report now, because it would be sad not to be able to write it after an hour.
    pub(crate) fn new(flags: &Flags) -> Result<Output, Failure> {
        if [&flags.json, &flags.csv].into_iter().all(|path| path.as_deref().is_some_and(is_stdout)) {
            return Err(Failure::Usage(
                "--json - and --csv - would mix on standard output; give one a file".into(),
            ));
        }
        let open = |path: &Option<PathBuf>| path.as_deref().map(Destination::open).transpose();
        Ok(Output { json: open(&flags.json)?, csv: open(&flags.csv)?, quiet: flags.quiet })
    }

    pub(crate) fn progress(&self, load: &Load) -> Progress {
        let whole = match load.until {
            Until::Time(time) => Whole::Time(load.warm_up + time),
            Until::Requests(requests) => Whole::Requests(requests),
        };
        Progress::new(whole, self.quiet)
    }

    pub(crate) fn report(self, report: &Report) -> Result<(), Failure> {
        let is_quiet = self.quiet && (self.json.is_some() || self.csv.is_some());
        let mut to_stdout = false;
        if let Some(mut json) = self.json {
            to_stdout |= is_stdout(&json.path);
            let text = serde_json::to_string_pretty(report).expect("a report has only names for keys");
            json.write(&(text + "\n"))?;
        }
        if let Some(mut csv) = self.csv {
            to_stdout |= is_stdout(&csv.path);
            csv.write(&report.csv())?;
        }
        if !is_quiet && !to_stdout {
            flash_cli::print(page(report))?;
        }
        worth(report)
    }
}

/// Requests that failed, and runs that are not results, are a failure of the whole. Steps of a search may go too far.
fn worth(report: &Report) -> Result<(), Failure> {
    let runs = || std::iter::once(report).chain(report.steps.iter().filter(|step| step.clients.is_none()));
    let errors = runs().map(|run| run.errors_total).max().unwrap_or_default();
    match runs().find_map(|run| run.invalid) {
        Some(invalid) => Err(Failure::Run(format!("this is not a result: {invalid}"))),
        None if errors > 0 => Err(Failure::Run(format!("{} requests failed", thousands(errors)))),
        None => Ok(()),
    }
}

enum Whole {
    Time(Duration),
    Requests(u64),
}

/// How far it is, for those who watch.
pub(crate) struct Progress {
    whole: Whole,
    show: Show,
    last: Live,
}

enum Show {
    Nothing,
    Bar(ProgressBar),
    Lines,
}

impl Progress {
    fn new(whole: Whole, quiet: bool) -> Progress {
        let show = match (quiet, io::stderr().is_terminal()) {
            (true, _) => Show::Nothing,
            (false, false) => Show::Lines,
            (false, true) => {
                let style = ProgressStyle::with_template("{bar:30} {msg}").expect("the template is right");
                let bar = ProgressBar::new(1000).with_style(style);
                Show::Bar(bar)
            }
        };
        Progress { whole, show, last: Live::default() }
    }

    pub(crate) fn show(&mut self, live: Live) {
        if live.elapsed < self.last.elapsed {
            // The next run of several.
            self.last = Live::default();
        }
        let since = live.elapsed.saturating_sub(self.last.elapsed);
        let every = match self.show {
            Show::Nothing => return,
            Show::Bar(_) => Duration::from_millis(500),
            Show::Lines => Duration::from_secs(1),
        };
        if since < every {
            return;
        }
        let seconds = since.as_secs_f64();
        let bytes = live.body_bytes - self.last.body_bytes;
        let mut text = format!(
            "{:>4.0} s  {:>9} requests/s  {:>9.1} Mb/s",
            live.elapsed.as_secs_f64(),
            thousands(((live.requests - self.last.requests) as f64 / seconds).round() as u64),
            bytes as f64 * 8.0 / 1e6 / seconds
        );
        if live.errors > 0 {
            text.push_str(&format!("  {} errors", thousands(live.errors)));
        }
        if !live.is_measuring {
            text.push_str("  warming up");
        }
        match &self.show {
            Show::Nothing => {}
            Show::Bar(bar) => {
                let part = match self.whole {
                    Whole::Time(time) => live.elapsed.as_secs_f64() / time.as_secs_f64(),
                    Whole::Requests(requests) => live.requests as f64 / requests as f64,
                };
                bar.set_position((part * 1000.0) as u64);
                bar.set_message(text);
            }
            Show::Lines => flash_cli::say(text),
        }
        self.last = live;
    }

    pub(crate) fn finish(&self) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
        }
    }
}

/// The report for people.
fn page(report: &Report) -> String {
    let mut page = format!("{}\n\n", report.load);
    let mut line = |name: &str, text: String| page.push_str(&format!("{name:<12}{text}\n"));
    if let Some(invalid) = report.invalid {
        line("NO RESULT", invalid.to_string());
    }
    let ended = if report.interrupted { ", ended early" } else { "" };
    line("requests", format!("{} in {:.2} s{ended}", thousands(report.requests), report.seconds));
    line("rate", format!("{}/s", thousands(report.requests_per_second.round() as u64)));
    line("bandwidth", format!("{:.1} Mb/s", report.megabits_per_second));
    line("connections", thousands(report.connections));
    if report.handshakes_full + report.handshakes_resumed > 0 {
        let (full, resumed) = (thousands(report.handshakes_full), thousands(report.handshakes_resumed));
        let [p50, p99] = [report.handshake_us.p50, report.handshake_us.p99].map(time);
        line("handshakes", format!("{full} full, {resumed} resumed (p50 {p50}, p99 {p99})"));
    }
    if report.unanswered > 0 {
        let [unanswered, asked] = [report.unanswered, report.asked].map(thousands);
        line(
            "unanswered",
            format!("{unanswered} of {asked} at the end ({:.2} %)", report.unanswered_percent),
        );
    }
    if report.queued > 0 {
        line("queued", format!("{} found all connections busy", thousands(report.queued)));
    }
    if report.errors_total > 0 {
        let kinds: Vec<String> =
            report.errors.iter().map(|(kind, n)| format!("{kind} {}", thousands(*n))).collect();
        line("errors", format!("{} ({})", thousands(report.errors_total), kinds.join(", ")));
    }
    if let Some(inversion) = report.service_inversion {
        line("inversion", format!("{inversion:.3} of 1 (answers out of the order of their sizes)"));
    }
    if let Some(Conformance { bits_per_second_min, clients, conforming, .. }) = report.conformance {
        let kept = format!("{} of {} clients", thousands(conforming), thousands(clients));
        line("conforming", format!("{kept} got {} bit/s", thousands(bits_per_second_min)));
    }
    if let Some(clients) = report.conforming_clients {
        line("at most", format!("{} clients conform", thousands(clients.into())));
    }
    if let Some(capacity) = report.capacity_requests_per_second {
        line("capacity", format!("{}/s", thousands(capacity.round() as u64)));
    }
    page.push_str(&latencies(report));
    page
}

/// How long all requests took, those of each class, and those of each step, with the rates of steps below.
fn latencies(report: &Report) -> String {
    let mut page =
        "\nlatency          mean       p50       p90       p99     p99.9    p99.99       max\n".to_owned();
    let mut rates = String::new();
    let mut row = |name: &str, waits: &Latency| {
        // The mean has all of them in it, as the longest has.
        let times = [
            (waits.mean, 1.0),
            (waits.p50, 0.5),
            (waits.p90, 0.9),
            (waits.p99, 0.99),
            (waits.p999, 0.999),
            (waits.p9999, 0.9999),
            (waits.max, 1.0),
        ];
        let cell = |(us, part)| format!("{}{}", if waits.is_bound(part) { "≥ " } else { "" }, time(us));
        let times: String = times.map(|figure| format!("{:>10}", cell(figure))).concat();
        page.push_str(&format!("{name:<11}{times}\n"));
    };
    row("all", &report.latency_us);
    if report.classes.len() > 1 {
        for (name, class) in &report.classes {
            row(name, &class.latency_us);
        }
    }
    for step in &report.steps {
        let what = match (step.clients, step.level, step.size_bytes) {
            (Some(clients), ..) => format!("{clients} clients"),
            (_, Some(level), _) => format!("level {level}"),
            (.., bytes) => format!("{} B", thousands(bytes.unwrap_or_default())),
        };
        row(&format!("{what:<11}"), &step.latency_us);
        let rate = thousands(step.requests_per_second.round() as u64);
        let kept = step.conformance.as_ref().map(|kept| format!(", {} conform", thousands(kept.conforming)));
        let invalid = step.invalid.map(|invalid| format!(", no result: {}", invalid.name()));
        rates.push_str(&format!(
            "{what:<14}{rate}/s, {} errors{}{}\n",
            step.errors_total,
            kept.unwrap_or_default(),
            invalid.unwrap_or_default()
        ));
    }
    if !rates.is_empty() {
        page.push_str(&format!("\n{rates}"));
    }
    page
}

/// A time with three digits and its unit.
fn time(us: f64) -> String {
    let (number, unit) = match us {
        ..1000.0 => (us, "µs"),
        ..1e6 => (us / 1e3, "ms"),
        _ => (us / 1e6, "s"),
    };
    let digits = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
    format!("{number:.digits$} {unit}")
}

/// 1,234,567.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
