//! `cargo xtask`: the checks that CI and people run, and the bench. Nothing here is part of the server.

#![forbid(unsafe_code)]

mod bench;
mod cargo;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let root = root();
    let done = match args.split_first() {
        Some((task, rest)) => match task.as_str() {
            "bench" => bench::run(&root, rest),
            _ => return usage(),
        },
        None => return usage(),
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}
fn usage() -> ExitCode {
    eprintln!("{}", bench::HELP);
    ExitCode::from(2)
}
