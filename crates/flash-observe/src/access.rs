//! The access log: a line per exchange. Threads that answer requests never write it.
//!
//! A loop gathers the records of a turn and calls [`AccessLog::push`] once. It formats them without a lock, and copies the
//! bytes under one. If another thread holds the lock, it keeps the bytes for the next turn. It decides neither what is logged
//! nor when an exchange is over.

use std::fmt;
use std::io;
use std::mem;

use flash_core::record::Record;

use crate::error::ErrorLog;
use crate::format::Format;
#[cfg(test)]
use crate::log_sink::Destination;
use crate::log_sink::{LogSink, count_lines};
use crate::spool::{Closed, Limits, OnReopened, Spool, Trouble};
use crate::writers::Writers;

/// A handle, one per thread that logs; clones share the buffer, which threads named `log-writer` empty.
pub struct AccessLog {
    format: Format,
    spool: Spool,
    /// Lines formatted by this handle and not yet in the shared buffer.
    lines: Vec<u8>,
}

impl AccessLog {
    /// Has these threads write to an open destination. What fails is said in `errors`.
    pub fn start(
        sink: LogSink,
        format: Format,
        limits: Limits,
        (errors, writers): (ErrorLog, &Writers),
    ) -> io::Result<AccessLog> {
        let report = Box::new(move |what: fmt::Arguments<'_>| errors.log(what));
        let spool = Spool::start(("access log", "records"), sink, limits, (Trouble::Told(report), writers))?;
        Ok(AccessLog { format, spool, lines: Vec::new() })
    }

    /// One that has its threads for itself.
    #[cfg(test)]
    pub(crate) fn open(
        to: Destination,
        format: Format,
        limits: Limits,
        errors: ErrorLog,
    ) -> io::Result<Self> {
        AccessLog::start(LogSink::open(to)?, format, limits, (errors, &Writers::new("log-writer")?))
    }

    /// The threads of the log.
    pub(crate) fn writers(&self) -> &Writers {
        self.spool.writers()
    }

    /// Formats the record's line. It stays in this handle until it is [passed on](AccessLog::pass_on).
    pub(crate) fn add(&mut self, record: &Record) {
        self.format.write(record, &mut self.lines);
    }

    /// Passes all lines on without ever waiting: for event loops.
    ///
    /// Returns `false` if another thread held the buffer at this moment. The lines then stay in this handle until
    /// the next call or until the handle is dropped.
    pub(crate) fn pass_on(&mut self) -> bool {
        if !self.lines.is_empty() {
            if self.spool.try_append(&self.lines) {
                self.lines.clear();
            } else if self.lines.len() > self.spool.buffer_bytes_max() {
                // Nothing bounds this handle's lines but this.
                self.spool.count_dropped(count_lines(&self.lines));
                self.lines.clear();
            }
        }
        self.lines.is_empty()
    }

    /// Writes a record's line, waiting if need be while another thread copies its lines: for threads that may.
    pub(crate) fn write(&self, record: &Record) {
        let mut line = Vec::new();
        self.format.write(record, &mut line);
        self.spool.append(&line);
    }

    /// Whether both write the same lines to the same place.
    pub fn is_same(&self, other: &AccessLog) -> bool {
        self.format == other.format && self.spool.is_same(&other.spool)
    }

    /// The same log with another format: its lines follow those of the old one.
    #[must_use]
    pub fn with_format(&self, format: Format) -> AccessLog {
        AccessLog { format, spool: self.spool.clone(), lines: Vec::new() }
    }

    /// Records dropped so far, because the destination was too slow or took nothing.
    pub fn dropped(&self) -> u64 {
        self.spool.dropped()
    }

    /// Whether lines were dropped within the last ten minutes.
    pub fn drops_lines(&self) -> bool {
        self.spool.drops_lines()
    }

    /// Makes the writer open its path again, after the file was renamed away. Returns at once, and tells `done` later.
    pub fn reopen(&self, done: OnReopened) {
        self.spool.reopen(done);
    }

    /// From now on the writer notices by itself that another file has its path.
    pub(crate) fn follow(&self) {
        self.spool.follow();
    }

    /// Has the writer write what is left, and end. Other handles should have been dropped; what they log afterwards is lost.
    pub(crate) fn begin_close(&mut self) {
        self.hand_over();
        self.spool.begin_close();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.spool.is_closing()
    }

    /// Writes what is left and ends the writer, waiting at most [`Limits::close_wait`].
    pub fn close(mut self) -> Closed {
        self.begin_close();
        self.spool.close()
    }

    fn hand_over(&mut self) {
        // A loop may be what drops it.
        if !self.lines.is_empty() && !self.spool.try_append(&self.lines) {
            self.spool.post(mem::take(&mut self.lines));
        }
        self.lines.clear();
    }
}

impl Clone for AccessLog {
    fn clone(&self) -> AccessLog {
        AccessLog { format: self.format.clone(), spool: self.spool.clone(), lines: Vec::new() }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.hand_over();
    }
}

#[cfg(test)]
mod tests;
