//! `cargo xtask`: the checks that CI and people run. Nothing here is part of the server.

#![forbid(unsafe_code)]

mod bpf;
mod cargo;
mod check;
mod ci;
mod debian;
mod deny;
mod kernels;
mod logs;
mod machine;
mod package;
mod pip;
mod prepare;
mod study;
mod summary;
mod targets;
mod test;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask ci         every check, as CI runs them: an hour on two processors
cargo xtask test       unit and end-to-end tests: twenty minutes after a build
cargo xtask check      the invariants of the workspace
cargo xtask bpf        compiles the kernel's side of flash why, with clang
cargo xtask prepare    installs what the tests need from the system, or says what is missing
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = root();
    let done = match args.as_slice() {
        [] | ["help" | "--help" | "-h", ..] | ["test" | "package", "--help" | "-h"] => {
            println!("{HELP}{}", longer_help());
            return ExitCode::SUCCESS;
        }
        ["ci"] => ci::run(&root),
        ["test", options @ ..] => test::quick(&root, options),
        ["check"] => check::run(&root),
        ["bpf"] => bpf::run(&root),
        ["prepare"] => prepare::run(&root)
            .map(|missing| missing.iter().for_each(|line| println!("{line}")))
            .map(|()| true),
        ["bench", options @ ..] => study::run(&root, "bench", &["flash", "flash-rig", "flash-why"], options),
        ["package", options @ ..] => package::run(&root, options),
        ["kernels", options @ ..] => kernels::run(&root, options),
        ["systems"] => targets::systems(&root),
        ["musl", options @ ..] => targets::musl(&root, options),
        ["processors"] => targets::processors(&root),
        ["soak", options @ ..] => study::run(&root, "soak", &["flash"], options),
        _ => {
            eprintln!("xtask: no such task: {}\n{HELP}{}", args.join(" "), longer_help());
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Of the tasks with options.
fn longer_help() -> String {
    [test::HELP, package::HELP, kernels::HELP, targets::HELP, study::HELP].concat()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}
