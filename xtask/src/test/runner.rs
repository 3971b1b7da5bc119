//! Runs programs of tests, and keeps what they say.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::lists::{ALONE, Extent, FIRST, SHORT};
use super::outcome;
use super::programs::Program;
use crate::cargo;
use crate::summary::{Failure, Summary};

/// So many programs of the others run beside each other, and so many tests in each that is end to end. They mostly wait.
const BESIDE: usize = 5;
const TESTS_BESIDE: &str = "4";

/// A program of tests that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct Runner {
    extent: Extent,
    /// The program that end-to-end tests start.
    flash: PathBuf,
    /// Where outputs are kept.
    kept: PathBuf,
}

/// A program of tests that has ended.
pub(super) struct Run {
    pub(super) program: Program,
    pub(super) passed: bool,
    /// What it said, on standard output and standard error.
    pub(super) output: String,
    pub(super) took: Duration,
}

impl Runner {
    pub(super) fn new(root: &Path, extent: Extent) -> Result<Self> {
        let target = cargo::target_folder(root);
        let kept = target.join("test-output");
        fs::create_dir_all(&kept).with_context(|| format!("making {}", kept.display()))?;
        Ok(Runner { extent, flash: target.join("release/flash"), kept })
    }

    /// Runs each program once: those that must be alone at the end, the others beside each other.
    pub(super) fn all(&self, programs: Vec<Program>) -> Result<Vec<Run>> {
        let (alone, mut others): (Vec<_>, Vec<_>) =
            programs.into_iter().partition(|program| ALONE.contains(&&*program.name));
        let place = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
        others.sort_by_key(|program| (place(&program.name), !program.is_end_to_end()));
        let mut runs = self.beside(&others)?;
        for program in alone {
            runs.push(self.tell(self.run(&program, &[])?));
        }
        Ok(runs)
    }

    /// Runs programs, a few at a time.
    fn beside(&self, programs: &[Program]) -> Result<Vec<Run>> {
        let (left, done) = (Mutex::new(programs.iter()), Mutex::new(Vec::new()));
        let work = || -> Result<()> {
            loop {
                let next = left.lock().expect("no thread panics with it").next();
                let Some(program) = next else { return Ok(()) };
                let run = self.tell(self.run(program, &[])?);
                done.lock().expect("no thread panics with it").push(run);
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..BESIDE).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("no thread panics"))
        })?;
        Ok(done.into_inner().expect("no thread panics with it"))
    }

    /// Runs a program, or some of its tests.
    fn run(&self, program: &Program, only: &[&str]) -> Result<Run> {
        let end = if only.is_empty() { ".txt" } else { "-again.txt" };
        let file = self.kept.join(program.name.replace(' ', "").trim_start_matches('-').to_owned() + end);
        let output = File::create(&file).with_context(|| format!("making {}", file.display()))?;
        let mut command = Command::new(&program.executable);
        command.args(&program.arguments);
        if !program.is_documentation() {
            // What tests that pass say is what they could not test.
            command.arg("--show-output");
        }
        if program.has_rusts_harness() {
            // Stable Rust times tests as well, if it is told so.
            command.env("RUSTC_BOOTSTRAP", "1").args(["-Z", "unstable-options", "--report-time"]);
        }
        if !only.is_empty() {
            command.args(only).args(["--exact", "--test-threads=1"]);
        } else if program.is_end_to_end() && !ALONE.contains(&&*program.name) {
            command.args(["--test-threads", TESTS_BESIDE]);
        }
        if self.extent == Extent::Quick {
            command.envs(SHORT);
        }
        command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
        command.env("FLASH_BIN", &self.flash).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let began = Instant::now();
        let mut child =
            command.spawn().with_context(|| format!("starting {}", program.executable.display()))?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if began.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                break None;
            }
            thread::sleep(LOOK);
        };
        let mut output = String::from_utf8_lossy(&fs::read(&file)?).into_owned();
        match status {
            None => output.push_str(&format!("\npanicked at this: it hung for {} s\n", PATIENCE.as_secs())),
            Some(status) if !status.success() => output.push_str(&format!("\nit ended with {status}\n")),
            Some(_) => {}
        }
        let passed = status.is_some_and(|status| status.success());
        Ok(Run { program: program.clone(), passed, output, took: began.elapsed() })
    }

    /// Says in a line how the first run of a program went.
    fn tell(&self, run: Run) -> Run {
        let end = if run.passed { "ok    " } else { "again " };
        println!("{end} {:>5.1} s  cargo test {}", run.took.as_secs_f64(), run.program.name);
        run
    }

    /// Runs again, by themselves, those tests of a program that failed. Shows what they said the first time, and then.
    pub(super) fn again(&self, first: &Run, summary: &mut Summary) -> Result<()> {
        let program = &*first.program.name;
        let mut failures = outcome::failures(program, &first.output);
        if failures.is_empty() {
            // It died, or its tests have no names: all of it once more.
            failures.push(Failure { test: program.to_owned(), why: outcome::why("", &first.output) });
        }
        println!("cargo test {program}, the first time:");
        first.output.lines().for_each(|line| println!("    | {line}"));
        for failure in failures {
            let name = failure.test[program.len()..].trim_start();
            let only = if name.is_empty() { &[][..] } else { &[name] };
            let again = self.run(&first.program, only)?;
            let took = again.took.as_secs_f64();
            if again.passed {
                println!("ok     {took:>5.1} s  cargo test {}, the second time", failure.test);
                summary.failed_once.push(failure);
            } else {
                println!("{}", again.output);
                println!("FAILED {took:>5.1} s  cargo test {}", failure.test);
                let why = outcome::why(name, &again.output);
                summary.failed.push(Failure { why, ..failure });
            }
        }
        Ok(())
    }
}
