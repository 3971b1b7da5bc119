//! Error lines: what the operator should know, each on one line that begins with `flash:`.
//!
//! They take the same way as the access log, so that a stuck terminal stops no loop. What happens once per
//! request or per connection is logged through a [`RateLimit`], or an attack would fill the disk with it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flash_core::printable::printable;

use crate::date::Utc;
use crate::log_sink::{Destination, LogSink};
use crate::rate_limit::RateLimit;
use crate::spool::{Closed, Limits, OnReopened, Spool};

/// A handle; clones share the buffer and the writer (thread `error-writer`).
#[derive(Clone)]
pub struct ErrorLog {
    spool: Spool,
    /// A file's lines begin with the time; a terminal or a journal has its own.
    dated: Arc<AtomicBool>,
}

impl ErrorLog {
    /// Opens the destination and starts the writer.
    pub fn open(to: Destination, limits: Limits) -> io::Result<ErrorLog> {
        ErrorLog::start(LogSink::open(to)?, limits)
    }

    /// Starts the writer of an open destination. Error lines do not linger, whatever the limits say.
    pub fn start(sink: LogSink, limits: Limits) -> io::Result<ErrorLog> {
        let dated = Arc::new(AtomicBool::new(is_dated(&sink)));
        let limits = Limits { linger: Duration::ZERO, ..limits };
        let names = ("error log", "lines", "error-writer");
        Ok(ErrorLog { spool: Spool::start(names, sink, limits, None)?, dated })
    }

    /// Writes `flash: …` as one line; what is not printable in it is escaped. Waits for no other thread.
    pub fn log(&self, what: fmt::Arguments<'_>) {
        self.spool.post(line(self.dated.load(Ordering::Relaxed), what).into_bytes());
    }

    /// Like [`log`](Self::log), but at most as often as `limit` allows.
    pub fn log_limited(&self, limit: &RateLimit, what: fmt::Arguments<'_>) {
        limit.log(what, |what| self.log(what));
    }

    /// Writes to another destination from now on. Returns at once.
    pub fn redirect(&self, sink: LogSink) {
        self.dated.store(is_dated(&sink), Ordering::Relaxed);
        self.spool.redirect(sink);
    }

    /// Makes the writer open its path again, after the file was renamed away. Returns at once, and tells `done` later.
    pub fn reopen(&self, done: OnReopened) {
        self.spool.reopen(done);
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

fn is_dated(sink: &LogSink) -> bool {
    matches!(sink.destination(), Destination::Path(_))
}

/// `flash: …`, with its newline. It cannot leave its line, nor speak to a terminal.
pub(crate) fn line(dated: bool, what: fmt::Arguments<'_>) -> String {
    let what = printable(what);
    match dated {
        true => format!("{} flash: {what}\n", Utc::now().rfc3339()),
        false => format!("flash: {what}\n"),
    }
}

#[cfg(test)]
mod tests;
