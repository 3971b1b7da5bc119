//! Error lines: what the operator should know, each on one line that begins with `flash:`.
//!
//! They take the same way as the access log, so that a stuck terminal stops no loop. What happens once per
//! request or per connection is logged through a [`RateLimit`], or an attack would fill the disk with it.

use std::fmt;
use std::io;
use std::time::Duration;

use flash_core::record::refusal_log::Refused;

use crate::error_line::{ErrorFormat, LineStyle, line, refused_json};
use crate::log_sink::{Destination, LogSink};
use crate::rate_limit::RateLimit;
use crate::spool::{Closed, Limits, OnReopened, Spool, Trouble};
use crate::writers::Writers;

/// A handle; clones share the buffer and its thread (`error-writer`).
#[derive(Clone)]
pub struct ErrorLog {
    spool: Spool,
    style: LineStyle,
}

impl ErrorLog {
    /// Opens the destination and starts the writer.
    pub fn open(to: Destination, limits: Limits) -> io::Result<ErrorLog> {
        ErrorLog::start(LogSink::open(to)?, limits)
    }

    /// Starts the writer of an open destination. Error lines do not linger, whatever the limits say.
    pub fn start(sink: LogSink, limits: Limits) -> io::Result<ErrorLog> {
        let style = LineStyle::default();
        style.suit(&sink);
        let limits = Limits { linger: Duration::ZERO, ..limits };
        // Its own: no other destination holds it up.
        let writers = Writers::new("error-writer")?;
        let trouble = Trouble::InOwnLines(style.clone());
        Ok(ErrorLog {
            spool: Spool::start(("error log", "lines"), sink, limits, (trouble, &writers))?,
            style,
        })
    }

    /// The same log, whose lines look like this.
    #[must_use]
    pub fn with_format(self, format: ErrorFormat) -> ErrorLog {
        self.style.set_format(format);
        self
    }

    /// Whether who looks at standard error does not see its lines.
    pub fn is_elsewhere(&self) -> bool {
        !self.style.is_stderr()
    }

    /// Writes one line; what is not printable in it is escaped. Waits for no other thread.
    pub fn log(&self, what: fmt::Arguments<'_>) {
        self.spool.post(line(&self.style, what).into_bytes());
    }

    /// Writes a line about a request to the site of this name, or a connection, that was refused.
    pub fn refused(&self, refused: &Refused<'_>, site: Option<&str>) {
        match self.style.is_json() {
            true => self.spool.post(refused_json(refused, site)),
            false => self.log(format_args!("{}", refused.text(site))),
        }
    }

    /// Like [`log`](Self::log), but at most as often as `limit` allows.
    pub fn log_limited(&self, limit: &RateLimit, what: fmt::Arguments<'_>) {
        limit.log(what, |what| self.log(what));
    }

    /// Writes to another destination from now on. Returns at once.
    pub fn redirect(&self, sink: LogSink) {
        self.style.suit(&sink);
        self.spool.redirect(sink);
    }

    /// Makes the writer open its path again, after the file was renamed away. Returns at once, and tells `done` later.
    pub fn reopen(&self, done: OnReopened) {
        self.spool.reopen(done);
    }

    /// From now on the log is written to the file that has its path, whoever moved the old one away: nobody tells.
    pub fn follow(&self) {
        self.spool.follow();
    }

    /// Lines dropped so far, because the destination was too slow or took nothing.
    pub fn dropped(&self) -> u64 {
        self.spool.dropped()
    }

    /// Whether lines were dropped within the last ten minutes.
    pub fn drops_lines(&self) -> bool {
        self.spool.drops_lines()
    }

    /// Writes the rest of the buffer and ends the writer, waiting at most [`Limits::close_wait`].
    pub fn close(self) -> Closed {
        self.spool.close()
    }
}

#[cfg(test)]
mod tests;
