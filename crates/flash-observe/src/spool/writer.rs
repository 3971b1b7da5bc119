//! The writer's side of a [`Spool`](super::Spool): take all, write, say what went wrong, begin again.
//!
//! The only code of a log that may wait for its destination, and it holds no lock while it does.

use std::io::{self, Write};
use std::mem;
use std::sync::atomic::Ordering;
use std::time::Instant;

use parking_lot::MutexGuard;

use super::{OnReopened, Phase, Shared, SpoolState, Trouble};
use crate::error_line::{LineStyle, line};
use crate::log_sink::{Device, LogSink, count_lines};
use crate::writers::{Log, Turn};

/// What is to be done with a batch.
struct Work {
    /// Before it is written, the path is looked at.
    follows: bool,
    reopen: Vec<OnReopened>,
    next_sink: Option<(Vec<u8>, LogSink)>,
}

impl SpoolState {
    /// Whether another file is to be written to.
    fn turns(&self) -> bool {
        !self.reopen.is_empty() || self.next_sink.is_some()
    }
}

impl Log for Shared {
    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn device(&self) -> Device {
        self.device.lock().clone()
    }

    fn work(&self) -> Option<Instant> {
        let mut open = self.sink.lock();
        let sink = open.as_mut()?;
        let mut batch = Vec::new();
        let Work { follows, reopen, next_sink } = match self.next_batch(&mut batch) {
            Ok(work) => work,
            Err(until) => return until,
        };
        if let Some((before, next)) = next_sink {
            self.write(sink, &before);
            *sink = next;
        }
        if follows {
            sink.follow(Instant::now());
        }
        self.write(sink, &batch);
        if !reopen.is_empty() {
            let result = self.reopen(sink);
            reopen.into_iter().for_each(|done| done(result.clone()));
        }
        self.device.lock().clone_from(sink.device());
        if self.closed_now() {
            *open = None;
            return None;
        }
        Some(Instant::now())
    }
}

impl Shared {
    fn write(&self, sink: &mut LogSink, lines: &[u8]) {
        self.in_flight.store(count_lines(lines), Ordering::Relaxed);
        let written = sink.write(lines);
        self.in_flight.store(0, Ordering::Relaxed);
        if let Err(error) = written {
            if let Trouble::Told(report) = &self.trouble {
                let (to, why) = (sink.destination(), error.why);
                let what = format_args!("{}: cannot write to {to}: {why}", self.name);
                self.write_trouble.log(what, report);
            }
            self.lost.fetch_add(error.lines_lost, Ordering::Relaxed);
            self.say_dropped_if_due(self.lock(), Instant::now());
        }
    }

    /// Takes all that there is to do, or says when to look again. What [`Work`] names is to be done with the batch.
    fn next_batch(&self, batch: &mut Vec<u8>) -> Result<Work, Option<Instant>> {
        let (mut state, now) = (self.lock(), Instant::now());
        if state.phase == Phase::Open && !state.turns() {
            if state.pending.is_empty() {
                return Err(self.say_dropped_later(state, now));
            }
            let until = *state.gathers_until.get_or_insert(now + self.limits.linger);
            if state.pending.len() < self.much() && now < until {
                return Err(Some(until));
            }
        }
        state.gathers_until = None;
        self.take_pending(&mut state, batch);
        if let Trouble::InOwnLines(style) = &self.trouble
            && state.dropped_unsaid > 0
        {
            let lines = mem::take(&mut state.dropped_unsaid);
            let what = format_args!("{}: dropped {lines} {}", self.name, self.lines_name);
            batch.extend_from_slice(line(style, what).as_bytes());
        }
        let (follows, reopen) = (state.follows, mem::take(&mut state.reopen));
        Ok(Work { follows, reopen, next_sink: state.next_sink.take() })
    }

    /// Drops that were not said because they came soon after others are said when their time comes, which this returns.
    fn say_dropped_later(&self, state: MutexGuard<'_, SpoolState>, now: Instant) -> Option<Instant> {
        let is_told = matches!(self.trouble, Trouble::Told(_)) && state.dropped_unsaid > 0;
        let due = state.dropped_said_at.filter(|_| is_told)? + self.limits.repeat_every;
        if now < due {
            return Some(due);
        }
        self.say_dropped_if_due(state, now);
        None
    }

    fn reopen(&self, sink: &mut LogSink) -> Result<(), String> {
        let Err(why) = sink.reopen() else { return Ok(()) };
        let (name, path) = (self.name, sink.destination().to_string());
        let what = format!("{name}: cannot reopen {path}: {why}; the old file stays in use");
        match &self.trouble {
            Trouble::Told(report) => report(format_args!("{what}")),
            // The error log itself. Nobody looks into a file that was moved away, so standard error has the line too.
            Trouble::InOwnLines(style) => {
                let _ = sink.write(line(style, format_args!("{what}")).as_bytes());
                let _ =
                    io::stderr().write_all(line(&LineStyle::default(), format_args!("{what}")).as_bytes());
            }
        }
        Err(what)
    }

    /// Ends the log if it is closing and nothing is left, after a last word on what was dropped.
    fn closed_now(&self) -> bool {
        let state = self.lock();
        if state.phase == Phase::Open {
            return false;
        }
        self.say_dropped(state);
        let mut state = self.lock();
        let done = state.pending.is_empty();
        if done {
            state.phase = Phase::Closed;
            self.closed.notify_all();
        }
        done
    }
}
