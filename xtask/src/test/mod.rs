//! `cargo xtask test`, and the tests of `cargo xtask ci`. Cargo builds the programs of tests; they run here, those that hold
//! Flash to a time by themselves and the others beside each other. A test that failed runs once more alone. If it passes
//! then, the summary names it all the same: it is a fault to mend, in the test or in Flash.

mod changed;
mod lists;
mod options;
mod outcome;
pub(crate) mod programs;
mod rounds;
mod runner;

use std::path::Path;

use anyhow::{Result, bail};

use self::lists::{ALONE, FIRST, LONG};
pub(crate) use self::lists::{Extent, Half};
pub(crate) use self::options::HELP;
use self::options::Options;
use self::programs::Program;
use self::runner::Runner;
use crate::cargo;
use crate::summary::Summary;

/// `cargo xtask test`. True when all passed.
pub(crate) fn quick(root: &Path, options: &[&str]) -> Result<bool> {
    let options = Options::parse(options)?;
    let mut summary = Summary::default();
    let both = Half::Study.built_with();
    if summary.step("build", |_| build(root, &both)) {
        summary.step("test", |summary| {
            let mut programs = chosen(root, Extent::Quick, &both)?;
            if options.changed {
                changed::retain(root, &mut programs)?;
            }
            programs.retain(|program| options.wants(program));
            if programs.is_empty() {
                bail!("no program of tests is chosen");
            }
            let runner = Runner::new(root, Extent::Quick)?;
            match options.rounds {
                None => once(&runner, programs, summary),
                Some(rounds) => rounds::run(&runner, &programs, rounds, options.under_load, summary),
            }
        });
    }
    println!("{summary}");
    Ok(summary.passed())
}

/// Builds everything that the tests of these packages run: the program as people build it, and the tests.
pub(crate) fn build(root: &Path, packages: &[&str]) -> Result<()> {
    cargo::run(root, &["build", "--release", "--package", "flash"])?;
    cargo::run(root, &[&["test", "--no-run", "--quiet"], packages].concat())
}

/// What cargo says of the tests that are built: their programs, and the compiler's warnings.
pub(crate) fn messages(root: &Path, packages: &[&str]) -> Result<String> {
    let said =
        cargo::output(root, &[&["test", "--no-run", "--quiet", "--message-format=json"], packages].concat())?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Runs all tests of a half, and adds to the summary what they came to.
///
/// # Errors
/// When tests cannot be built or started, or when one fails twice.
pub(crate) fn run(root: &Path, half: Half, summary: &mut Summary) -> Result<()> {
    let mut programs = chosen(root, Extent::Whole, &half.built_with())?;
    programs.retain(|program| half.has(program));
    once(&Runner::new(root, Extent::Whole)?, programs, summary)
}

/// The programs of tests that an extent has.
fn chosen(root: &Path, extent: Extent, packages: &[&str]) -> Result<Vec<Program>> {
    let mut programs = programs::built(&messages(root, packages)?)?;
    programs.push(Program::documentation(root));
    let names: Vec<&str> = programs.iter().map(|program| &*program.name).collect();
    let is_left_out = |name: &str| packages.iter().any(|package| name.split(' ').nth(1) == Some(package));
    if let Some(stranger) =
        ALONE.iter().chain(&FIRST).chain(&LONG).find(|name| !names.contains(*name) && !is_left_out(name))
    {
        bail!(
            "there is no program of tests '{stranger}': its name is to change in xtask/src/test/lists.rs, too"
        );
    }
    if extent == Extent::Quick {
        programs.retain(|program| !LONG.contains(&&*program.name));
    }
    Ok(programs)
}

/// Runs each program, and what failed once more.
fn once(runner: &Runner, programs: Vec<Program>, summary: &mut Summary) -> Result<()> {
    let (runs, before) = (runner.all(programs)?, summary.failed.len());
    for run in &runs {
        summary.tests.extend(outcome::times(&run.program.name, &run.output));
        run.output.lines().for_each(|line| summary.notice(line));
    }
    for run in runs.iter().filter(|run| !run.passed) {
        runner.again(run, summary)?;
    }
    match summary.failed.len() - before {
        0 => Ok(()),
        failed => bail!("{failed} failed twice"),
    }
}
