//! A bounded buffer of lines and the thread that empties it into an [`LogSink`].
//!
//! A thread that appends copies bytes under a short lock and continues. It never waits for the destination, because the writer
//! takes the whole buffer by a swap, and writes without the lock. If the buffer is full, lines are dropped and counted. The
//! error log reports problems, at most once per [`Limits::repeat_every`].

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::log_sink::{LogSink, count_lines};
use crate::rate_limit::RateLimit;

mod writer;

/// How much a log may hold, and how long anything about it may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of lines waiting to be written; as many again may be in the writer's hands.
    pub buffer_bytes_max: usize,
    /// How long the writer lets lines gather, so that a busy log costs a wake-up per this time and not per line.
    pub linger: Duration,
    /// The least time between two error lines about the same trouble.
    pub repeat_every: Duration,
    /// How long [`close`](crate::AccessLog::close) waits for a destination that does not take the rest.
    pub close_wait: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            buffer_bytes_max: 1 << 20,
            linger: Duration::from_millis(100),
            repeat_every: Duration::from_secs(5),
            close_wait: Duration::from_secs(2),
        }
    }
}

/// How a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Every line that was not dropped before is with the destination.
    Flushed,
    /// The destination did not take the rest in time; that many lines are lost.
    GaveUp { lines_lost: u64 },
}

/// Takes error lines.
pub(crate) type Report = Box<dyn Fn(fmt::Arguments<'_>) + Send + Sync>;

/// A handle; clones share the buffer.
#[derive(Clone)]
pub(crate) struct Spool(Arc<Shared>);

struct Shared {
    /// What the log calls itself in error lines, and its lines: "access log", "records".
    name: &'static str,
    lines_name: &'static str,
    limits: Limits,
    /// Where trouble is said. None for the error log itself, which says in its own lines what it dropped.
    report: Option<Report>,
    state: Mutex<State>,
    /// Wakes the writer.
    work: Condvar,
    /// Wakes those who wait in `close`.
    closed: Condvar,
    /// Lines the writer has taken and not yet written.
    in_flight: AtomicU64,
    write_trouble: RateLimit,
}

struct State {
    pending: Vec<u8>,
    dropped: u64,
    /// Of `dropped`, what the error log does not know yet.
    dropped_unsaid: u64,
    dropped_said_at: Option<Instant>,
    reopen: bool,
    /// Another sink, and the lines that came before it.
    next_sink: Option<(Vec<u8>, LogSink)>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Closing,
    Closed,
}

impl Spool {
    /// Starts the writer thread.
    pub(crate) fn start(
        (name, lines_name, thread_name): (&'static str, &'static str, &'static str),
        sink: LogSink,
        limits: Limits,
        report: Option<Report>,
    ) -> io::Result<Spool> {
        let shared = Arc::new(Shared {
            name,
            lines_name,
            limits,
            report,
            state: Mutex::new(State {
                pending: Vec::new(),
                dropped: 0,
                dropped_unsaid: 0,
                dropped_said_at: None,
                reopen: false,
                next_sink: None,
                phase: Phase::Open,
            }),
            work: Condvar::new(),
            closed: Condvar::new(),
            in_flight: AtomicU64::new(0),
            write_trouble: RateLimit::every(limits.repeat_every),
        });
        let writer = Arc::clone(&shared);
        // Never joined: a writer that is stuck in its destination must not hold up the end of the process.
        thread::Builder::new().name(thread_name.into()).spawn(move || writer.write_until_closed(sink))?;
        Ok(Spool(shared))
    }

    /// Adds whole lines, waiting at most for another thread's copy of some bytes.
    pub(crate) fn append(&self, lines: &[u8]) {
        self.0.append(self.0.state.lock(), lines);
    }

    /// Adds whole lines unless that would mean waiting for another thread; says whether it did.
    pub(crate) fn try_append(&self, lines: &[u8]) -> bool {
        let state = self.0.state.try_lock();
        state.map(|state| self.0.append(state, lines)).is_some()
    }

    /// Counts lines that the caller could not keep.
    pub(crate) fn count_dropped(&self, lines: u64) {
        self.0.count_dropped(self.0.state.lock(), lines);
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.0.state.lock().dropped
    }

    pub(crate) fn buffer_bytes_max(&self) -> usize {
        self.0.limits.buffer_bytes_max
    }

    pub(crate) fn reopen(&self) {
        self.0.state.lock().reopen = true;
        self.0.work.notify_one();
    }

    /// Has the writer write to this sink from now on. Lines that came before go to the old one.
    pub(crate) fn redirect(&self, sink: LogSink) {
        let mut state = self.0.state.lock();
        let mut before = mem::take(&mut state.pending);
        let replaced = state.next_sink.take().map(|(earlier, replaced)| {
            before.splice(..0, earlier);
            replaced
        });
        state.next_sink = Some((before, sink));
        drop(state);
        self.0.work.notify_one();
        // Closing a file may wait for its disk.
        drop(replaced);
    }

    pub(crate) fn is_same(&self, other: &Spool) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn close(&self) -> Closed {
        let shared = &*self.0;
        let deadline = Instant::now() + shared.limits.close_wait;
        let mut state = shared.state.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Closing;
        }
        shared.work.notify_one();
        while state.phase != Phase::Closed {
            if shared.closed.wait_until(&mut state, deadline).timed_out() {
                let lines_lost = shared.in_flight.load(Ordering::Relaxed) + count_lines(&state.pending);
                state.dropped += lines_lost;
                state.dropped_unsaid += lines_lost;
                shared.say_dropped(state);
                return Closed::GaveUp { lines_lost };
            }
        }
        Closed::Flushed
    }
}

impl Shared {
    fn append(&self, mut state: MutexGuard<'_, State>, lines: &[u8]) {
        let before = state.pending.len();
        let room = self.limits.buffer_bytes_max - before;
        let fitting = match lines.len() <= room {
            true => lines.len(),
            // As many whole lines as fit.
            false => lines[..room].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1),
        };
        state.pending.extend_from_slice(&lines[..fitting]);
        // The writer sleeps until there is something, then until there is much.
        let (after, much) = (before + fitting, self.much());
        if (before == 0 && after > 0) || (before < much && after >= much) {
            self.work.notify_one();
        }
        if fitting < lines.len() {
            self.count_dropped(state, count_lines(&lines[fitting..]));
        }
    }

    fn count_dropped(&self, mut state: MutexGuard<'_, State>, lines: u64) {
        state.dropped += lines;
        state.dropped_unsaid += lines;
        // Said from here, since the writer may be what is stuck.
        self.say_dropped_if_due(state, Instant::now());
    }

    fn say_dropped_if_due(&self, mut state: MutexGuard<'_, State>, now: Instant) {
        if state.dropped_said_at.is_none_or(|at| now >= at + self.limits.repeat_every) {
            state.dropped_said_at = Some(now);
            self.say_dropped(state);
        }
    }

    /// Gives the lock back first: the error log has one of its own.
    fn say_dropped(&self, mut state: MutexGuard<'_, State>) {
        let Some(report) = &self.report else { return };
        let lines = mem::take(&mut state.dropped_unsaid);
        drop(state);
        if lines > 0 {
            report(format_args!("{}: dropped {lines} {}", self.name, self.lines_name));
        }
    }

    /// Enough bytes not to let more gather.
    fn much(&self) -> usize {
        self.limits.buffer_bytes_max / 2
    }
}
