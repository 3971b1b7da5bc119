//! `flash sim run`: one server under one load, its results for people on standard output and for programs in a file.

use std::fmt::Write as _;

use flash_sim::Outcome;
use flash_sim::outcome::Station;
use serde::{Deserialize, Serialize};

use crate::flags;
use crate::output;
use crate::runner::Runner;
use crate::scenario::{Draft, Scenario};
use flash_cli::{Failure, print};

/// A run as it is kept: what was asked for, and what came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Of the program that ran it.
    #[serde(default)]
    pub version: String,
    pub scenario: Scenario,
    pub outcome: Outcome,
}

impl Record {
    pub(crate) fn new(scenario: Scenario, outcome: Outcome) -> Record {
        Record { version: env!("CARGO_PKG_VERSION").to_owned(), scenario, outcome }
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a record has no maps and no foreign types") + "\n"
    }
}

impl flags::ScenarioArgs {
    /// The parameter file, or the paper's parameters.
    pub(crate) fn draft(&self) -> Result<Draft, Failure> {
        match &self.file {
            None => Ok(Draft::default()),
            Some(path) => Draft::read(&path.display().to_string(), &output::read(path)?),
        }
    }

    pub(crate) fn scenario(&self) -> Result<Scenario, Failure> {
        self.draft()?.with(&self.settings)
    }
}

pub(crate) fn run(flags: &flags::Run) -> Result<(), Failure> {
    let scenario = flags.scenario.scenario()?;
    let outcome = Runner::new(Some(1))?.run(&scenario, None)?;
    let text = summary(&scenario, &outcome);
    if let Some(path) = &flags.out {
        output::write(path, &Record::new(scenario, outcome).json())?;
    }
    print(text)
}

/// What is busy for this part of the time is full: what waits for it decides the throughput.
const FULL: f64 = 0.95;

/// What was full. If nothing was, what was busiest, and the queue in which most requests wait for one who takes them.
fn full(outcome: &Outcome) -> String {
    let numbered =
        |name: &'static str| move |(number, busy): (usize, f64)| (format!("{name} {number}"), busy);
    let disks = outcome.disks.iter().map(|disk| disk.busy).enumerate().map(numbered("disk"));
    let locks = outcome.locks.iter().map(|lock| lock.held).enumerate().map(numbered("lock"));
    let link = outcome.link.iter().map(|link| ("the link".to_owned(), link.busy));
    let processors = [("the processors".to_owned(), outcome.processors.busy)];
    let mut all: Vec<(String, f64)> = processors.into_iter().chain(disks).chain(link).chain(locks).collect();
    all.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let said = |(name, busy): &(String, f64)| format!("{name} ({:.1} %)", 100.0 * busy);
    let full: Vec<String> = all.iter().take_while(|(_, busy)| *busy >= FULL).map(said).collect();
    if !full.is_empty() {
        return full.join(", ");
    }
    let busiest = all.first().map(said).unwrap_or_default();
    let longest = outcome.queues.iter().max_by(|a, b| a.queue_mean.total_cmp(&b.queue_mean));
    match longest.filter(|queue| queue.queue_mean >= 1.0) {
        Some(queue) => {
            format!("nothing, {busiest} most; {:.1} wait in the queue of {}", queue.queue_mean, queue.role)
        }
        None => format!("nothing, {busiest} most"),
    }
}

#[expect(clippy::too_many_lines, reason = "a list of figures")]
fn summary(scenario: &Scenario, outcome: &Outcome) -> String {
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
    line("throughput", format!("{:.1} requests/s, {:.1} Mb/s", outcome.requests_per_s, outcome.mbit_per_s));
    let latency = &outcome.latency;
    line(
        "latency",
        format!(
            "mean {:.3} ms, p50 {:.3}, p99 {:.3}, max {:.3}",
            latency.mean_ms, latency.p50_ms, latency.p99_ms, latency.max_ms
        ),
    );
    line("service inversion", format!("{:.3}", outcome.service_inversion));
    line(
        "hits",
        format!(
            "data {:.2} %, paths {:.2} %; {:.3} reads a request",
            100.0 * outcome.data_hit_rate,
            100.0 * outcome.path_hit_rate,
            outcome.reads_per_request
        ),
    );
    line(
        "memory",
        format!("{:.1} MB for content, {:.1} MB of overhead", outcome.data_cache_mb, outcome.overhead_mb),
    );
    let processors = &outcome.processors;
    line(
        "processors",
        format!(
            "{} busy, of it {} switching and {} spinning; {:.2} switches a request; {:.1} wait, {:.1} us each time",
            percent(processors.busy),
            percent(processors.switching),
            percent(processors.spinning),
            processors.switches_per_request,
            processors.queue_mean,
            processors.wait_mean_us
        ),
    );
    let station = |station: &Station| {
        format!(
            "{} busy, {} served; {:.1} wait, {:.2} ms each",
            percent(station.busy),
            station.served,
            station.queue_mean,
            station.wait_mean_ms
        )
    };
    for (number, (disk, is)) in outcome.disks.iter().zip(&scenario.machine.disks).enumerate() {
        line(&format!("disk {number}"), format!("{}; {}", station(disk), is.access()));
    }
    if let Some(link) = &outcome.link {
        line("link", station(link));
    }
    for (number, lock) in outcome.locks.iter().enumerate() {
        let text = format!(
            "{} held, {} contended; {:.2} wait, {:.2} us each time",
            percent(lock.held),
            percent(lock.contended),
            lock.queue_mean,
            lock.wait_mean_us
        );
        line(&format!("lock {number}"), text);
    }
    for queue in &outcome.queues {
        let text = format!("{:.1} in it, {:.1} us each", queue.queue_mean, queue.wait_mean_us);
        line(&format!("queue of {}", queue.role), text);
    }
    line("full", full(outcome));
    let mut text = format!(
        "{}, {} processors, {} clients, {}: {} requests in {:.1} simulated seconds\n",
        scenario.architecture.name(),
        scenario.machine.processors,
        scenario.run.clients,
        scenario.workload,
        outcome.requests,
        outcome.seconds
    );
    let wide = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in lines {
        writeln!(text, "  {name:wide$}  {value}").expect("a String takes everything");
    }
    text
}
