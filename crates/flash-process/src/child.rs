//! A forked child that never returns to its parent's code: it runs to its end, and exits.

use std::fmt;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;

use flash_core::printable::printable;

/// Runs `main`, and exits this process with its result: 0, or 1 after an error, which is logged, or a panic.
pub fn run_and_exit(name: &str, main: impl FnOnce() -> io::Result<()>) -> ! {
    process::exit(match catch_unwind(AssertUnwindSafe(main)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            log(format_args!("{name}: {error}"));
            1
        }
        Err(_) => 1,
    })
}

/// Writes a line to standard error, for a process that has no error log.
pub fn log(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "flash: {}", printable(what));
}
