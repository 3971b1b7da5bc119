//! What came of a run, in the fields of `--json`. `docs/load.md` describes them; they are added to, and not renamed.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::Conformance;
use crate::tally::{Tally, histogram};
use crate::validity::Invalid;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// What was asked, by whom and how, in words.
    pub load: String,
    /// Whole and right answers in the measured time.
    pub requests: u64,
    /// The measured time, without the warm-up.
    pub seconds: f64,
    pub requests_per_second: f64,
    /// Of bodies; heads do not count.
    pub megabits_per_second: f64,
    pub body_bytes: u64,
    /// All that came through the sockets since the start.
    pub received_bytes: u64,
    pub latency_us: Latency,
    pub classes: BTreeMap<String, ClassReport>,
    /// Failed requests by kind; what never happened is not there.
    pub errors: BTreeMap<String, u64>,
    pub errors_total: u64,
    /// Answers by status, right or wrong.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests that came due in the measured time.
    pub asked: u64,
    /// Those of them that were under way or waiting when it ended.
    pub unanswered: u64,
    #[serde(default)]
    pub unanswered_percent: f64,
    /// Requests of an open loop that waited because all connections were busy.
    #[serde(default)]
    pub queued: u64,
    /// The percentage of the measured time in which the busiest thread of clients had something to do.
    #[serde(default)]
    pub clients_busy_percent: f64,
    /// Why the run is not a result. None for one that is.
    #[serde(default)]
    pub invalid: Option<Invalid>,
    /// Connections opened since the start.
    pub connections: u64,
    /// Handshakes of TLS since the start: whole ones, and those that brought a session back.
    pub handshakes_full: u64,
    pub handshakes_resumed: u64,
    /// From the beginning of a connection to the end of its handshake.
    pub handshake_us: Latency,
    /// Requests sent again because the server had closed an idle connection.
    pub retries: u64,
    /// The time between the due time of an open loop's request and its sending. It is the clients' own delay, and the wait for
    /// a free connection.
    pub lateness_us: Latency,
    /// How far the order of answers was from that of their sizes: 0 is none, 1 the reverse, 2/3 chance. None where all
    /// answers were of one size.
    pub service_inversion: Option<f64>,
    /// It was ended early.
    pub interrupted: bool,
    /// How many clients kept the rate that they should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conformance: Option<Conformance>,
    /// The greatest number of clients that a search found of which all kept their rate; 0 where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conforming_clients: Option<u32>,
    /// The best rate that a search found, or that the levels are parts of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_requests_per_second: Option<f64>,
    /// Of a step of a search: how many clients there were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Of a step of a sweep: its part of the capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<f64>,
    /// Of a step over sizes: the body's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The runs that this one was chosen from, or is the last of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Report>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClassReport {
    pub requests: u64,
    pub errors: u64,
    pub body_bytes: u64,
    pub requests_per_second: f64,
    pub megabits_per_second: f64,
    pub latency_us: Latency,
    /// The distribution of waits: an upper bound in microseconds, and the number of waits up to it and above the bound before.
    /// Each bound is a twentieth above the one before. Empty steps are left out.
    pub waits_us: Vec<(f64, u64)>,
}

/// Waits in microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    /// Those of them that never were answered, each with the time that it waited. The percentiles that lie among them are
    /// lower bounds.
    #[serde(default)]
    pub unanswered: u64,
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub p9999: f64,
    pub max: f64,
}

impl Latency {
    fn new(waits: &Histogram<u64>, unanswered: u64) -> Latency {
        if waits.is_empty() {
            return Latency::default();
        }
        let us = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
        let quantile = |part: f64| us(waits.value_at_quantile(part).min(waits.max()));
        Latency {
            count: waits.len(),
            unanswered,
            mean: waits.mean() / 1000.0,
            min: us(waits.min()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
            max: us(waits.max()),
        }
    }

    /// Whether the quantile of this part, 0 to 1, is a lower bound: so many were not answered that it is among them.
    pub fn is_bound(&self, part: f64) -> bool {
        self.unanswered as f64 > (1.0 - part) * self.count as f64
    }
}

impl Report {
    /// `names` are those of the classes, in the tally's order; classes of one name are one.
    pub(crate) fn new(
        load: String,
        tally: &Tally,
        names: &[String],
        seconds: f64,
        interrupted: bool,
    ) -> Report {
        let [mut all, mut open] = [histogram(), histogram()];
        let mut by_name: BTreeMap<&String, (ClassReport, Histogram<u64>)> = BTreeMap::new();
        for (name, class) in names.iter().zip(&tally.classes) {
            all.add(&class.waits).expect("all histograms have the same bounds");
            if class.is_open {
                open.add(&class.waits).expect("all histograms have the same bounds");
            }
            let (report, waits) =
                by_name.entry(name).or_insert_with(|| (ClassReport::default(), histogram()));
            waits.add(&class.waits).expect("all histograms have the same bounds");
            report.requests += class.requests;
            report.errors += class.errors;
            report.body_bytes += class.body_bytes;
            report.latency_us.unanswered += class.given_up;
        }
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let classes = by_name.into_iter().map(|(name, (mut report, waits))| {
            report.requests_per_second = per_second(report.requests);
            report.megabits_per_second = per_second(report.body_bytes) * 8.0 / 1e6;
            report.latency_us = Latency::new(&waits, report.latency_us.unanswered);
            report.waits_us = steps(&waits);
            (name.clone(), report)
        });
        let classes: BTreeMap<String, ClassReport> = classes.collect();
        let requests = classes.values().map(|class| class.requests).sum();
        let body_bytes = classes.values().map(|class| class.body_bytes).sum();
        Report {
            load,
            requests,
            seconds,
            requests_per_second: per_second(requests),
            megabits_per_second: per_second(body_bytes) * 8.0 / 1e6,
            body_bytes,
            received_bytes: tally.received_bytes,
            latency_us: Latency::new(&all, classes.values().map(|class| class.latency_us.unanswered).sum()),
            errors: tally.faults.iter().map(|(fault, count)| (fault.name().to_owned(), *count)).collect(),
            errors_total: tally.faults.values().sum(),
            statuses: tally.statuses.clone(),
            asked: tally.asked,
            unanswered: tally.unanswered,
            unanswered_percent: 100.0 * tally.unanswered as f64 / tally.asked.max(1) as f64,
            queued: tally.queued,
            clients_busy_percent: 100.0 * tally.busy,
            invalid: Invalid::of(tally, &open),
            connections: tally.connections,
            handshakes_full: tally.handshakes_full,
            handshakes_resumed: tally.handshakes_resumed,
            handshake_us: Latency::new(&tally.handshakes, 0),
            retries: tally.retries,
            lateness_us: Latency::new(&tally.lateness, 0),
            service_inversion: tally.windows.inversion(),
            interrupted,
            classes,
            ..Report::default()
        }
    }
}

/// The distribution in steps of a twentieth.
fn steps(waits: &Histogram<u64>) -> Vec<(f64, u64)> {
    let mut steps: Vec<(f64, u64)> = Vec::new();
    let mut bound_ns = 1000.0;
    for step in waits.iter_recorded() {
        let value = step.value_iterated_to() as f64;
        while bound_ns < value {
            bound_ns *= 1.05;
        }
        let bound_us = (bound_ns / 10.0_f64).round() / 100.0;
        match steps.last_mut() {
            Some((last, count)) if *last == bound_us => *count += step.count_at_value(),
            _ => steps.push((bound_us, step.count_at_value())),
        }
    }
    steps
}
