//! How far a run is and how long it still takes: a bar on a terminal, a line for each measurement elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::plan::{Extent, Plan};
use crate::record::{Measurement, Outcome};
use crate::schedule::Cell;

/// Says on standard error how a run goes.
pub struct Progress {
    extent: Extent,
    bar: ProgressBar,
    /// Lines instead of a bar.
    lines: bool,
    began: Instant,
    /// What is left of the run, by the plan; measurements of this run correct it.
    left: Left,
}

#[derive(Clone, Copy)]
struct Left {
    all: usize,
    cells: usize,
    done: usize,
    planned_seconds: f64,
}

impl Progress {
    pub fn new(extent: Extent) -> Progress {
        Progress {
            extent,
            bar: ProgressBar::hidden(),
            lines: !std::io::stderr().is_terminal(),
            began: Instant::now(),
            left: Left { all: 0, cells: 0, done: 0, planned_seconds: 0.0 },
        }
    }

    pub(crate) fn begin(&mut self, plan: &Plan, all: usize, left: usize) {
        self.began = Instant::now();
        let planned_seconds = plan.cell_seconds(self.extent);
        self.left = Left { all, cells: left, done: 0, planned_seconds };
        let resumed =
            if left < all { format!(", {} of them done before", all - left) } else { String::new() };
        let time = HumanDuration(self.left.time(self.began));
        flash_cli::say(format_args!("{}: {all} measurements{resumed}, about {time}", plan.name));
        if !self.lines {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
            self.bar = ProgressBar::new(all as u64)
                .with_style(style.expect("a template that is part of the program"))
                .with_position((all - left) as u64);
        }
    }

    pub(crate) fn measuring(&mut self, cell: &Cell) {
        self.bar.set_message(format!("{cell}, {} left", HumanDuration(self.left.time(self.began))));
    }

    pub(crate) fn again(&self, why: &str) {
        let why = why.trim_end();
        self.bar.suspend(|| flash_cli::say(format_args!("  once more: {why}")));
    }

    pub(crate) fn measured(&mut self, measurement: &Measurement) {
        self.left.done += 1;
        let place = match &measurement.x {
            crate::plan::At::Only => String::new(),
            at => format!(" at {at}"),
        };
        let what = match &measurement.outcome {
            Outcome::Done(done) => {
                let invalid = done.invalid.map(|invalid| format!("NOT A RESULT: {}: ", invalid.name()));
                invalid.unwrap_or_default() + &summary(&done.figures)
            }
            Outcome::Failed(why) => format!("FAILED: {}", why.trim_end()),
            Outcome::Skipped(why) => format!("NOT MEASURED: {why}"),
        };
        let line = format!("  {}{place}: {what}", measurement.server);
        if self.lines {
            let left = HumanDuration(self.left.time(self.began));
            let at = self.left.all - self.left.cells + self.left.done;
            flash_cli::say(format_args!("{line}  [{at}/{}, {left} left]", self.left.all));
        } else {
            if measurement.result().is_none() {
                self.bar.println(line);
            }
            self.bar.inc(1);
        }
    }

    pub(crate) fn end(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Left {
    /// By the plan as long as nothing was measured, then by what measurements took.
    fn time(&self, began: Instant) -> Duration {
        let each = match self.done {
            0 => self.planned_seconds,
            done => began.elapsed().as_secs_f64() / done as f64,
        };
        Duration::from_secs_f64(each * (self.cells - self.done) as f64)
    }
}

/// The two or three figures that tell most.
fn summary(figures: &std::collections::BTreeMap<String, f64>) -> String {
    let telling = [
        "requests_per_second",
        "megabits_per_second",
        "latency_p50_ms",
        "latency_p99_ms",
        "errors",
        "bytes_per_connection",
    ];
    let of = |name: &str, figures: &std::collections::BTreeMap<String, f64>| {
        let words = crate::record::describe(name)?.label();
        Some(format!("{words} {}", crate::data::number(*figures.get(name)?)))
    };
    telling.iter().filter_map(|name| of(name, figures)).collect::<Vec<_>>().join(" · ")
}
