//! What a run of checks came to: seconds by step, tests that failed with the line that says why, and what was not tested.
//! It is printed last, because the end of the output is what people see first.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;

/// A test, and the line that says why it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `-p flash-core --lib path::tests::a_name`: what `cargo test` takes to run it.
    pub(crate) test: String,
    pub(crate) why: String,
}

/// A step of CI.
struct Step {
    name: &'static str,
    took: Duration,
    /// Processor time of everything that the step started and waited for.
    cpu_seconds: f64,
    error: Option<String>,
}

/// All that is told at the end.
#[derive(Default)]
pub(crate) struct Summary {
    steps: Vec<Step>,
    /// Tests, and how many seconds they ran beside others.
    pub(crate) tests: Vec<(String, f64)>,
    /// Tests that failed twice.
    pub(crate) failed: Vec<Failure>,
    /// Tests that failed, and passed when they ran alone.
    pub(crate) failed_once: Vec<Failure>,
    /// Lines that say what could not be tested here, and why.
    pub(crate) not_tested: BTreeSet<String>,
}

/// How many of the tests that ran for longest are named.
const SLOWEST: usize = 20;
/// A line of the summary is at most so long: all of it has to fit into the last few kilobytes of the output.
const LINE_CHARS_MAX: usize = 240;

impl Summary {
    /// Runs a step, and notes how it went. False if it failed.
    pub(crate) fn step(&mut self, name: &'static str, run: impl FnOnce(&mut Summary) -> Result<()>) -> bool {
        println!("== {name}");
        let (began, cpu_before) = (Instant::now(), cpu_seconds());
        let error = run(self).err().map(|error| format!("{error:#}"));
        let (took, cpu_seconds) = (began.elapsed(), cpu_seconds() - cpu_before);
        let passed = error.is_none();
        println!("== {name}: {}, {:.0} s", error.as_deref().unwrap_or("ok"), took.as_secs_f64());
        self.steps.push(Step { name, took, cpu_seconds, error });
        passed
    }

    /// Notes a line if it says that something was not tested.
    pub(crate) fn notice(&mut self, line: &str) {
        // What a plan of the lab needs and does not find is MISSING, and a plan that cannot run at all is NOT RUN.
        for mark in ["NOT TESTED", "NOT CHECKED", "MISSING:", "NOT RUN:"] {
            if let Some(at) = line.find(mark) {
                let from = if mark.ends_with("ED") { at } else { 0 };
                self.not_tested.insert(line[from..].trim().to_owned());
                return;
            }
        }
    }

    pub(crate) fn passed(&self) -> bool {
        self.failed.is_empty() && self.steps.iter().all(|step| step.error.is_none())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n== summary")?;
        let mut tests: Vec<&(String, f64)> = self.tests.iter().collect();
        tests.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        for (name, seconds) in tests.into_iter().take(SLOWEST) {
            writeln!(f, "{}", cut(&format!("{seconds:>5.0} s  {name}")))?;
        }
        for line in &self.not_tested {
            writeln!(f, "{}", cut(line))?;
        }
        for Failure { test, why } in &self.failed_once {
            writeln!(f, "FAILED ONCE, then passed alone: cargo test {test}\n    {}", cut(why))?;
        }
        for Failure { test, why } in &self.failed {
            writeln!(f, "FAILED: cargo test {test}\n    {}", cut(why))?;
        }
        for step in &self.steps {
            let end =
                step.error.as_deref().map_or_else(|| "ok".to_owned(), |error| format!("FAILED: {error}"));
            let (took, cpu) = (step.took.as_secs_f64(), step.cpu_seconds);
            writeln!(f, "{:<12} {took:>5.0} s, {cpu:>5.0} s of processors: {}", step.name, cut(&end))?;
        }
        let all: Duration = self.steps.iter().map(|step| step.took).sum();
        let cpu: f64 = self.steps.iter().map(|step| step.cpu_seconds).sum();
        let end = if self.passed() { "passed" } else { "FAILED" };
        write!(f, "{:<12} {:>5.0} s, {cpu:>5.0} s of processors: {end}", "all", all.as_secs_f64())
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Linux counts processor time for `/proc` in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of all processes that this one, or a child that it waited for, has waited for.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, in brackets, may hold spaces. cutime and cstime are the 16th and 17th field.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_or_a_test_that_fails_is_told_and_counts() {
        let mut summary = Summary::default();
        assert!(summary.step("build", |_| Ok(())) && summary.passed());
        assert!(!summary.step("lab", |_| anyhow::bail!("no disk")) && !summary.passed());
        assert!(summary.to_string().contains("FAILED: no disk"), "{summary}");

        let mut summary = Summary::default();
        summary.failed.push(Failure { test: "-p flash --lib a_test".into(), why: "panicked".into() });
        assert!(!summary.passed());
        assert!(
            summary.to_string().contains("FAILED: cargo test -p flash --lib a_test\n    panicked"),
            "{summary}"
        );
    }

    #[test]
    fn what_was_not_tested_is_told_once() {
        let mut summary = Summary::default();
        for line in [
            "NOT TESTED: caddy is not there",
            "  NOT TESTED: caddy is not there",
            "scaling: MISSING: h2o: it is not there",
            "flash-fig8: NOT RUN: the log Nasa is needed",
            "test it_says_nothing ... ok",
        ] {
            summary.notice(line);
        }
        let told: Vec<&str> = summary.not_tested.iter().map(String::as_str).collect();
        assert_eq!(
            told,
            [
                "NOT TESTED: caddy is not there",
                "flash-fig8: NOT RUN: the log Nasa is needed",
                "scaling: MISSING: h2o: it is not there",
            ]
        );
        assert!(summary.passed(), "what is not there is no fault");
    }

    #[test]
    fn a_long_line_is_cut() {
        let line = cut(&"ä".repeat(1000));
        assert_eq!(line.chars().count(), LINE_CHARS_MAX + 1);
    }
}
