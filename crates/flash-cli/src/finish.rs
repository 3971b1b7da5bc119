//! How a program ends.

use std::process::ExitCode;

use crate::failure::Failure;
use crate::print::say;

/// The end of a program's `main`: says what failed, on one line.
pub fn finish(program: &str, done: Result<(), Failure>) -> ExitCode {
    let Err(failure) = done else { return ExitCode::SUCCESS };
    let line = failure.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
    say(format_args!("{program}: {line}"));
    failure.exit_code()
}
