//! Tests again and again, to find those that fail by chance.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, bail};

use super::outcome;
use super::programs::Program;
use super::runner::{Run, Runner};
use crate::summary::{Failure, Summary};

/// Runs all programs so many times, and names each test that ever failed.
///
/// # Errors
/// When one failed, or a program cannot be started.
pub(super) fn run(
    runner: &Runner,
    programs: &[Program],
    rounds: usize,
    under_load: bool,
    summary: &mut Summary,
) -> Result<()> {
    // How often a test failed, and why at last.
    let mut failed: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        if under_load {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| work_until(&over));
            }
        }
        let done = (1..=rounds).try_for_each(|round| -> Result<()> {
            println!("== round {round} of {rounds}");
            for failure in runner.all(programs.to_vec())?.iter().filter(|run| !run.passed).flat_map(failures)
            {
                println!("failed       cargo test {}\n    {}", failure.test, failure.why);
                let (times, why) = failed.entry(failure.test).or_default();
                (*times, *why) = (*times + 1, failure.why);
            }
            Ok(())
        });
        over.store(true, Ordering::Relaxed);
        done
    })?;
    let failed = failed.into_iter();
    summary.failed.extend(
        failed.map(|(test, (times, why))| Failure { test, why: format!("{times} of {rounds}: {why}") }),
    );
    match summary.failed.len() {
        0 => Ok(()),
        failed => bail!("{failed} failed in {rounds} rounds"),
    }
}

fn failures(run: &Run) -> Vec<Failure> {
    let failures = outcome::failures(&run.program.name, &run.output);
    if !failures.is_empty() {
        return failures;
    }
    // It died, or its tests have no names.
    vec![Failure { test: run.program.name.clone(), why: outcome::why("", &run.output) }]
}

/// Takes a processor's time as a compiler beside the tests would.
fn work_until(over: &AtomicBool) {
    let mut number = 1_u64;
    while !over.load(Ordering::Relaxed) {
        for _ in 0..1_000_000 {
            number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}
