//! A forked child that never returns to its parent's code: it runs to its end, and exits.

use std::fmt;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::OnceLock;

use flash_core::printable::printable;
use flash_os::fork::{self, Forked};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::ipc;

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

/// Runs `main` in a process of its own, and returns what it returned. So it can do what cannot be undone.
///
/// # Errors
/// What `main` says. When this process has more than one thread, or the kernel refuses another process.
pub fn run_apart(name: &str, main: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let (ours, theirs) = ipc::pair()?;
    match fork::fork()? {
        Forked::Child => run_and_exit(name, || match main() {
            Ok(()) => Ok(()),
            Err(error) => Ok(ipc::send(theirs, error.to_string().as_bytes(), &[])?),
        }),
        Forked::Parent { child } => {
            drop(theirs);
            let mut buffer = ipc::buffer();
            let why =
                ipc::receive(ours, &mut buffer)?.map(|why| String::from_utf8_lossy(&why.bytes).into_owned());
            let (_, status) =
                waitpid(Pid::from_raw(child), WaitOptions::empty())?.ok_or(io::ErrorKind::Other)?;
            match why {
                None if status.exit_status() == Some(0) => Ok(()),
                why => Err(io::Error::other(why.unwrap_or_else(|| format!("{name} ended at once")))),
            }
        }
    }
}

/// How lines look if not as text.
static FORMAT: OnceLock<fn(fmt::Arguments<'_>) -> String> = OnceLock::new();

/// From now on lines look so, in this process and in those that it forks.
pub fn log_as(format: fn(fmt::Arguments<'_>) -> String) {
    let _ = FORMAT.set(format);
}

/// Writes a line to standard error, for a process that has no error log.
pub fn log(what: fmt::Arguments<'_>) {
    let line = match FORMAT.get() {
        Some(format) => format(what),
        None => format!("flash: {}\n", printable(what)),
    };
    // With standard error closed there is nobody who waits for it.
    let _ = io::stderr().write_all(line.as_bytes());
}
