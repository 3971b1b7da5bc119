//! Error lines: what the operator should know, each on one line that begins with `flash:`.
//!
//! They take the same way as the access log, so that a stuck terminal stops no loop. What happens once per
//! request or per connection is said through a [`Rarely`], or an attack would fill the disk with it.

use std::fmt::{self, Write};
use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::date::Utc;
use crate::output::{Destination, Output};
use crate::spool::{Closed, Limits, Spool};

/// A handle; clones share the buffer and the writer (thread `error-writer`).
#[derive(Clone)]
pub struct ErrorLog {
    spool: Spool,
    /// A file's lines begin with the time; a terminal or a journal has its own.
    dated: bool,
}

impl ErrorLog {
    /// Opens the destination and starts the writer.
    pub fn open(to: Destination, limits: Limits) -> io::Result<ErrorLog> {
        ErrorLog::start(Output::open(to)?, limits)
    }

    /// Starts the writer of an open destination. Error lines do not linger, whatever the limits say.
    pub fn start(output: Output, limits: Limits) -> io::Result<ErrorLog> {
        let dated = matches!(output.destination(), Destination::Path(_));
        let limits = Limits { linger: Duration::ZERO, ..limits };
        let names = ("error log", "lines", "error-writer");
        Ok(ErrorLog { spool: Spool::start(names, output, limits, None)?, dated })
    }

    /// Writes `flash: …` as one line; control characters in it are escaped.
    pub fn say(&self, what: fmt::Arguments<'_>) {
        let mut line = Line(String::new());
        match self.dated {
            true => line.0 = format!("{} flash: ", Utc::now().rfc3339()),
            false => line.0.push_str("flash: "),
        }
        // A value whose Display fails is cut short; there is nobody to tell but this line.
        let _ = line.write_fmt(what);
        line.0.push('\n');
        self.spool.append(line.0.as_bytes());
    }

    /// Like [`say`](Self::say), but at most as often as `rarely` allows.
    pub fn say_rarely(&self, rarely: &Rarely, what: fmt::Arguments<'_>) {
        match rarely.admit(Instant::now()) {
            None => {}
            Some(0) => self.say(what),
            Some(more) => self.say(format_args!("{what} (and {more} more like it before)")),
        }
    }

    /// Makes the writer open its path again, after the file was renamed away. Returns at once.
    pub fn reopen(&self) {
        self.spool.reopen();
    }

    /// Writes what is left and ends the writer, waiting at most [`Limits::close_wait`].
    pub fn close(self) -> Closed {
        self.spool.close()
    }
}

/// How often one kind of line may be said: a `static` beside the place that says it.
///
/// ```
/// # use flash_observe::{ErrorLog, Rarely};
/// # use std::time::Duration;
/// # fn refuse(error_log: &ErrorLog) {
/// static FULL: Rarely = Rarely::every(Duration::from_secs(5));
/// error_log.say_rarely(&FULL, format_args!("no descriptor left: a connection waits"));
/// # }
/// ```
pub struct Rarely {
    every: Duration,
    state: Mutex<Counted>,
}

struct Counted {
    said_at: Option<Instant>,
    unsaid: u64,
}

impl Rarely {
    pub const fn every(every: Duration) -> Rarely {
        Rarely { every, state: Mutex::new(Counted { said_at: None, unsaid: 0 }) }
    }

    /// Whether to say it now, and how often it was left unsaid before.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        // Another thread is just about to say it, or not to.
        let mut state = self.state.try_lock()?;
        if state.said_at.is_some_and(|at| now < at + self.every) {
            state.unsaid += 1;
            return None;
        }
        state.said_at = Some(now);
        Some(std::mem::take(&mut state.unsaid))
    }
}

/// Text that cannot leave its line, nor speak to a terminal.
struct Line(String);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c.is_control() {
                true => self.0.extend(c.escape_default()),
                false => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
