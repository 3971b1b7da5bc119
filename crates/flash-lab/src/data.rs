//! Measurements as they are looked at: medians with their spread, ratios taken within rounds.

use crate::plan::At;
use crate::record::{Measurement, RecordError, Run, Store};

/// A run's circumstances and everything measured so far.
#[derive(Clone, Debug)]
pub struct Data {
    pub run: Run,
    pub measurements: Vec<Measurement>,
}

/// A median, and how far the repeats lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    /// How many repeats it is made of.
    pub count: usize,
    /// Some would be larger if clients had waited for all answers.
    pub at_least: bool,
}

impl Spread {
    /// None of nothing.
    pub fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.retain(|value| !value.is_nan());
        values.sort_by(f64::total_cmp);
        let (&low, &high) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Some(Spread { median, low, high, count: values.len(), at_least: false })
    }

    /// `0.93 (0.91–0.96)`.
    pub fn words(&self) -> String {
        let median = number(self.median);
        match self.count {
            1 => format!("{median} (once)"),
            _ => format!("{median} ({}–{})", number(self.low), number(self.high)),
        }
    }
}

impl Data {
    /// The records of a plan below `out`. None where it has not been run.
    pub fn read(out: &std::path::Path, plan: &str) -> Result<Option<Data>, RecordError> {
        Ok(Store::new(out, plan).read()?.map(|(run, measurements)| Data { run, measurements }))
    }

    /// A figure of a server at a place, over the repeats.
    pub fn spread(&self, server: &str, at: &At, figure: &str) -> Option<Spread> {
        let spread = Spread::of(self.at(server, at).filter_map(|one| one.figure(figure)).collect())?;
        Some(Spread { at_least: self.at(server, at).any(|one| is_at_least(one, figure)), ..spread })
    }

    /// A figure in one round. None of which only a lower bound is known, because it decides nothing.
    pub fn in_round(&self, server: &str, at: &At, figure: &str, repeat: u32) -> Option<f64> {
        let one = self.at(server, at).find(|one| one.repeat == repeat && !is_at_least(one, figure))?;
        one.figure(figure)
    }

    /// A distribution of a server at a place, all repeats together, in ascending order.
    pub fn distribution(&self, server: &str, at: &At, name: &str) -> Vec<(f64, u64)> {
        let mut all: Vec<(f64, u64)> = Vec::new();
        for one in self.at(server, at) {
            all.extend(one.result().and_then(|done| done.distributions.get(name)).into_iter().flatten());
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.dedup_by(|next, kept| {
            next.0 == kept.0 && {
                kept.1 += next.1;
                true
            }
        });
        all
    }

    /// Rounds of which something was measured.
    pub fn rounds(&self) -> u32 {
        self.measurements.iter().map(|one| one.repeat + 1).max().unwrap_or(0)
    }

    fn at<'a>(&'a self, server: &'a str, at: &'a At) -> impl Iterator<Item = &'a Measurement> {
        self.measurements.iter().filter(move |one| one.server == server && one.x == *at)
    }
}

fn is_at_least(one: &Measurement, figure: &str) -> bool {
    one.result().is_some_and(|done| done.at_least.contains(figure))
}

/// Three significant digits or so.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size.is_infinite() => "nowhere".into(),
        size if size < 0.01 => format!("{value:.4}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
