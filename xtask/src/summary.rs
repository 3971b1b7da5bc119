//! What a run of checks came to: seconds by step, tests that failed with the line that says why, and what was not tested.
//! It is printed last, because the end of the output is what people see first.

use std::collections::BTreeSet;
use std::fmt;
use std::thread;
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
    began: Instant,
    took: Duration,
    /// Processor time of everything that ended in its time. Not known of steps beside each other.
    cpu_seconds: Option<f64>,
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
        let (took, cpu_seconds) = (began.elapsed(), Some(cpu_seconds() - cpu_before));
        let passed = error.is_none();
        println!("== {name}: {}, {:.0} s", error.as_deref().unwrap_or("ok"), took.as_secs_f64());
        self.steps.push(Step { name, began, took, cpu_seconds, error });
        passed
    }

    /// Runs steps in two rows beside each other, and notes those of the first row first.
    pub(crate) fn beside(&mut self, one: impl FnOnce(&mut Summary), other: impl FnOnce(&mut Summary) + Send) {
        let (mut first, mut second) = (Summary::default(), Summary::default());
        thread::scope(|scope| {
            scope.spawn(|| other(&mut second));
            one(&mut first);
        });
        for mut row in [first, second] {
            row.steps.iter_mut().for_each(|step| step.cpu_seconds = None);
            self.steps.append(&mut row.steps);
            self.tests.append(&mut row.tests);
            self.failed.append(&mut row.failed);
            self.failed_once.append(&mut row.failed_once);
            self.not_tested.append(&mut row.not_tested);
        }
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
            writeln!(f, "{}", row(step.name, step.took, step.cpu_seconds, &cut(&end)))?;
        }
        let began = self.steps.iter().map(|step| step.began).min();
        let ended = self.steps.iter().map(|step| step.began + step.took).max();
        let all = began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended - began);
        let end = if self.passed() { "passed" } else { "FAILED" };
        write!(f, "{}", row("all", all, Some(cpu_seconds()), end))
    }
}

fn row(name: &str, took: Duration, cpu_seconds: Option<f64>, end: &str) -> String {
    let cpu = cpu_seconds.map_or_else(|| "      ".to_owned(), |seconds| format!("{seconds:>5.0} s"));
    format!("{name:<12} {:>5.0} s, {cpu} of processors: {end}", took.as_secs_f64())
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
    fn rows_of_steps_run_beside_each_other_and_all_of_them_count() {
        let mut summary = Summary::default();
        // Each waits for the other.
        let (to_lab, of_sim) = std::sync::mpsc::channel();
        let (to_sim, of_lab) = std::sync::mpsc::channel();
        summary.beside(
            |row| {
                row.step("lab", |summary| {
                    summary.notice("NOT TESTED: caddy is not there");
                    to_sim.send(())?;
                    Ok(of_sim.recv()?)
                });
            },
            move |row| {
                row.step("sim", |_| {
                    to_lab.send(())?;
                    of_lab.recv()?;
                    anyhow::bail!("no memory")
                });
            },
        );
        let said = summary.to_string();
        assert!(!summary.passed() && said.contains("FAILED: no memory"), "{said}");
        assert!(said.find("lab ") < said.find("sim ") && said.contains("caddy"), "{said}");
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
