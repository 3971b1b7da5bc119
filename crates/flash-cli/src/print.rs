//! Standard output and standard error. The macros of the standard library panic when the reader of a pipe has left
//! (`flash lab list | head -1`), so `cargo xtask check` refuses them.

use std::fmt;
use std::io::{self, ErrorKind, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Failure;

/// Writes to standard output.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let written = Stdout.write_all(text.as_ref()).and_then(|()| Stdout.flush());
    written.map_err(|error| Failure::Run(format!("cannot write to standard output: {error}")))
}

/// Standard output. A reader that has seen enough is no failure: the rest is dropped. A full disk is one.
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match io::stdout().write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match io::stdout().flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

/// Says a line on standard error. A program goes on if it cannot be read there.
pub fn say(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Whether the reader of standard output has left. A program that would write there for ever ends then.
pub fn reader_left() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
        && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
