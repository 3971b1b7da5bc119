//! `flash sim run`: one server under one load, its results for people on standard output and for programs in a file.

use std::fmt::Write as _;

use flash_sim::Outcome;
use serde::{Deserialize, Serialize};

use crate::flags;
use crate::output;
use crate::runner::Runner;
use crate::scenario::{Draft, Scenario};
use flash_cli::{Failure, print};

/// A run as it is kept: what was asked for, and what came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub scenario: Scenario,
    pub outcome: Outcome,
}

impl Record {
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
        output::write(path, &Record { scenario, outcome }.json())?;
    }
    print(text)
}

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
    for (number, disk) in outcome.disks.iter().enumerate() {
        let text = format!(
            "{} busy, {} reads; {:.1} wait, {:.2} ms each",
            percent(disk.busy),
            disk.served,
            disk.queue_mean,
            disk.wait_mean_ms
        );
        line(&format!("disk {number}"), text);
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
