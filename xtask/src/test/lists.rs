//! Programs of tests that need something special: much time, or the machine for themselves; and which half they belong to.

use super::programs::Program;

/// Which tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All.
    Whole,
    /// Those that people run while they work: without the programs below, and with a short proof.
    Quick,
}

/// What is for those who study servers. The checks of the server do not wait for it.
pub(super) const STUDY: [&str; 4] = ["bench", "flash-lab", "flash-sim", "soak"];

/// Tests of all programs at once.
const OF_BOTH: &str = "-p flash-tests --test programs_alike";

/// The halves of CI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// All that serves, its tests, and what they need.
    Server,
    Study,
}

impl Half {
    /// What cargo builds for it. The second half is built with the first, so that both share all other crates.
    pub(crate) fn built_with(self) -> Vec<&'static str> {
        let mut packages = vec!["--workspace"];
        if self == Half::Server {
            packages.extend(STUDY.iter().flat_map(|package| ["--exclude", package]));
        }
        packages
    }

    pub(super) fn has(self, program: &Program) -> bool {
        // The examples of all crates are built at once, too.
        let of_study = program.is_documentation()
            || program.name == OF_BOTH
            || STUDY.iter().any(|package| program.is_of(package));
        of_study == (self == Half::Study)
    }
}

/// Programs of tests that the quick extent leaves out: they measure, or simulate for long.
pub(super) const LONG: [&str; 8] = [
    "-p flash-lab --test run",
    "-p flash-load --test truth",
    "-p flash-rig --test machine",
    "-p flash-rig --test servers",
    "-p flash-sim --test command",
    "-p flash-sim --test machine",
    "-p flash-tests --test small_machine",
    "-p flash-why --test causes",
];

/// Settings of tests that take long, in the quick extent.
pub(super) const SHORT: [(&str, &str); 2] =
    [("FLASH_PROOF_FILES", "20000"), ("FLASH_PROOF_REQUESTS", "4000")];

/// Programs of tests that take longest, so that they begin.
pub(super) const FIRST: [&str; 10] = [
    "-p flash-tests --test acme",
    "-p flash-why --test causes",
    "-p flash-tests --test upgrade",
    "-p flash-tests --test tls",
    "-p flash-tests --test programs",
    "-p flash-acme --lib",
    "-p flash-tests --test rates",
    "-p flash-tests --test deploys",
    "-p flash-tests --test refused_calls",
    "-p flash-tests --test listings",
];

/// Programs of tests that run alone: they measure, or change the machine, such as by emptying the kernel's caches. The others
/// mostly wait.
pub(super) const ALONE: [&str; 11] = [
    "-p flash-lab --test run",
    "-p flash-load --test truth",
    "-p flash-rig --test machine",
    "-p flash-rig --test servers",
    "-p flash-sim --test machine",
    "-p flash-slowdisk --test image",
    "-p flash-tests --test blocks",
    "-p flash-tests --test fairness",
    "-p flash-tests --test freshness",
    "-p flash-tests --test proof",
    "-p flash-tests --test small_machine",
];
