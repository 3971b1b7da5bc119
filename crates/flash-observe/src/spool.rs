//! A bounded buffer of lines, which a [thread](crate::writers) empties into a [`LogSink`].
//!
//! A thread that appends copies bytes under a short lock and continues. It never waits for the destination, because the writer
//! takes the whole buffer by a swap, and writes without the lock. If the buffer is full, lines are dropped and counted. The
//! error log reports problems, at most once per [`Limits::repeat_every`].
//!
//! A loop does not even wait for that lock: a thread of the lowest priority may hold it, and not run for long. So a loop posts
//! its lines to a queue without a lock, and the next thread that has the lock takes them from there.

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flash_os::mpsc::Queue;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error_line::LineStyle;
use crate::log_sink::{Device, LogSink, count_lines};
use crate::rate_limit::RateLimit;
use crate::writers::{Turn, Writers};

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

/// Where the log says what has gone wrong with it.
pub(crate) enum Trouble {
    /// In the error log.
    Told(Report),
    /// It is the error log: in lines of this style.
    InOwnLines(LineStyle),
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
    trouble: Trouble,
    state: Mutex<SpoolState>,
    /// Lines that were posted, and that no thread with the lock has taken yet.
    posted: Queue<Vec<u8>>,
    /// Bytes that were posted and are not in the writer's hands yet.
    posted_bytes: AtomicUsize,
    /// Lines that were dropped without the lock, and that are not in the state yet.
    lost: AtomicU64,
    writers: Writers,
    turn: Turn,
    /// Of the sink, which is locked while it is written to.
    device: Mutex<Device>,
    /// `None` when the log has ended.
    sink: Mutex<Option<LogSink>>,
    /// Wakes those who wait in `close`.
    closed: Condvar,
    /// Lines the writer has taken and not yet written.
    in_flight: AtomicU64,
    write_trouble: RateLimit,
}

/// For so long an operator is told that lines were dropped.
const LATELY: Duration = Duration::from_secs(600);

/// Told by the writer whether the sink was opened again, or why not.
pub type OnReopened = Box<dyn FnOnce(Result<(), String>) + Send>;

struct SpoolState {
    pending: Vec<u8>,
    /// Until then the writer lets lines gather.
    gathers_until: Option<Instant>,
    /// Of `pending`, what was posted.
    pending_posted_bytes: usize,
    dropped: u64,
    /// Of `dropped`, what the error log does not know yet.
    dropped_unsaid: u64,
    dropped_said_at: Option<Instant>,
    /// When the last of them was.
    dropped_at: Option<Instant>,
    /// The sink is to be opened again, and these want to know how that went.
    reopen: Vec<OnReopened>,
    /// Another sink, and the lines that came before it.
    next_sink: Option<(Vec<u8>, LogSink)>,
    /// Files that are moved away are left without being told.
    follows: bool,
    phase: Phase,
    closing_since: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Closing,
    Closed,
}

impl Spool {
    /// Has these threads write it.
    pub(crate) fn start(
        (name, lines_name): (&'static str, &'static str),
        sink: LogSink,
        limits: Limits,
        (trouble, writers): (Trouble, &Writers),
    ) -> io::Result<Spool> {
        writers.begin_log()?;
        let shared = Arc::new(Shared {
            name,
            lines_name,
            limits,
            trouble,
            state: Mutex::new(SpoolState {
                pending: Vec::new(),
                gathers_until: None,
                pending_posted_bytes: 0,
                dropped: 0,
                dropped_unsaid: 0,
                dropped_said_at: None,
                dropped_at: None,
                reopen: Vec::new(),
                next_sink: None,
                follows: false,
                phase: Phase::Open,
                closing_since: None,
            }),
            posted: Queue::new(),
            posted_bytes: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            writers: writers.clone(),
            turn: Turn::default(),
            device: Mutex::new(sink.device().clone()),
            sink: Mutex::new(Some(sink)),
            closed: Condvar::new(),
            in_flight: AtomicU64::new(0),
            write_trouble: RateLimit::every(limits.repeat_every),
        });
        Ok(Spool(shared))
    }

    /// The threads that write it.
    pub(crate) fn writers(&self) -> &Writers {
        &self.0.writers
    }

    /// Adds whole lines, waiting at most for another thread's copy of some bytes.
    pub(crate) fn append(&self, lines: &[u8]) {
        self.0.append(self.0.lock(), lines);
    }

    /// Adds whole lines without ever waiting for another thread. If too many wait for the writer, they are dropped and counted.
    pub(crate) fn post(&self, lines: Vec<u8>) {
        let (shared, bytes) = (&self.0, lines.len());
        let room =
            |posted: usize| posted.checked_add(bytes).filter(|sum| *sum <= shared.limits.buffer_bytes_max);
        match shared.posted_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room) {
            Ok(_) => _ = shared.posted.push(lines),
            Err(_) => return self.count_dropped(count_lines(&lines)),
        }
        shared.wake_writer();
    }

    /// Adds whole lines unless that would mean waiting for another thread; says whether it did.
    pub(crate) fn try_append(&self, lines: &[u8]) -> bool {
        let state = self.0.try_lock();
        state.map(|state| self.0.append(state, lines)).is_some()
    }

    /// Counts lines that the caller could not keep. Never waits for another thread.
    pub(crate) fn count_dropped(&self, lines: u64) {
        self.0.lost.fetch_add(lines, Ordering::Relaxed);
        match self.0.try_lock() {
            // Said from here, since the writer may be what is stuck.
            Some(state) => self.0.say_dropped_if_due(state, Instant::now()),
            None => self.0.wake_writer(),
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// Whether lines were dropped lately.
    pub(crate) fn drops_lines(&self) -> bool {
        self.0.lock().dropped_at.is_some_and(|at| at.elapsed() < LATELY)
    }

    pub(crate) fn buffer_bytes_max(&self) -> usize {
        self.0.limits.buffer_bytes_max
    }

    pub(crate) fn reopen(&self, done: OnReopened) {
        self.0.lock().reopen.push(done);
        self.0.wake_writer();
    }

    /// From now on the writer notices by itself that another file has the path.
    pub(crate) fn follow(&self) {
        self.0.lock().follows = true;
    }

    /// Has the writer write to this sink from now on. Lines that came before go to the old one.
    pub(crate) fn redirect(&self, sink: LogSink) {
        let mut state = self.0.lock();
        let mut before = Vec::new();
        self.0.take_pending(&mut state, &mut before);
        let replaced = state.next_sink.take().map(|(earlier, replaced)| {
            before.splice(..0, earlier);
            replaced
        });
        state.next_sink = Some((before, sink));
        drop(state);
        self.0.wake_writer();
        // Closing a file may wait for its disk.
        drop(replaced);
    }

    /// Holds the lock for as long as the result lives.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Sized + '_ {
        self.0.state.lock()
    }

    pub(crate) fn is_same(&self, other: &Spool) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Has the writer write what is left, and end. Returns when that was first asked for.
    pub(crate) fn begin_close(&self) -> Instant {
        let mut state = self.0.lock();
        let since = *state.closing_since.get_or_insert_with(Instant::now);
        if state.phase == Phase::Open {
            state.phase = Phase::Closing;
        }
        drop(state);
        self.0.wake_writer();
        since
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.0.lock().phase != Phase::Open
    }

    pub(crate) fn close(&self) -> Closed {
        let shared = &*self.0;
        let deadline = self.begin_close() + shared.limits.close_wait;
        let mut state = shared.lock();
        while state.phase != Phase::Closed {
            if shared.closed.wait_until(&mut state, deadline).timed_out() {
                shared.take_posted(&mut state);
                let lines_lost = shared.in_flight.load(Ordering::Relaxed) + count_lines(&state.pending);
                state.lose(lines_lost);
                shared.say_dropped(state);
                return Closed::GaveUp { lines_lost };
            }
        }
        Closed::Flushed
    }
}

impl SpoolState {
    /// Counts dropped lines.
    fn lose(&mut self, lines: u64) {
        if lines > 0 {
            self.dropped += lines;
            self.dropped_unsaid += lines;
            self.dropped_at = Some(Instant::now());
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.writers.end_log();
    }
}

impl Shared {
    /// Waits for the lock. The state then has all that was posted.
    fn lock(&self) -> MutexGuard<'_, SpoolState> {
        let mut state = self.state.lock();
        self.take_posted(&mut state);
        state
    }

    /// The same, unless another thread has the lock.
    fn try_lock(&self) -> Option<MutexGuard<'_, SpoolState>> {
        let mut state = self.state.try_lock()?;
        self.take_posted(&mut state);
        Some(state)
    }

    fn take_posted(&self, state: &mut SpoolState) {
        for lines in self.posted.drain() {
            state.pending_posted_bytes += lines.len();
            state.pending.extend_from_slice(&lines);
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        state.lose(lost);
    }

    /// Takes all lines in exchange for an empty buffer. That makes room for others.
    fn take_pending(&self, state: &mut SpoolState, buffer: &mut Vec<u8>) {
        self.posted_bytes.fetch_sub(mem::take(&mut state.pending_posted_bytes), Ordering::Relaxed);
        mem::swap(&mut state.pending, buffer);
    }

    fn wake_writer(self: &Arc<Self>) {
        self.writers.wake(self);
    }

    fn append(self: &Arc<Self>, mut state: MutexGuard<'_, SpoolState>, lines: &[u8]) {
        let before = state.pending.len();
        // What was posted may fill it, too.
        let room = self.limits.buffer_bytes_max.saturating_sub(before);
        let fitting = match lines.len() <= room {
            true => lines.len(),
            // As many whole lines as fit.
            false => lines[..room].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1),
        };
        state.pending.extend_from_slice(&lines[..fitting]);
        // The writer sleeps until there is something, then until there is much.
        let (after, much) = (before + fitting, self.much());
        if (before == 0 && after > 0) || (before < much && after >= much) {
            self.wake_writer();
        }
        if fitting < lines.len() {
            state.lose(count_lines(&lines[fitting..]));
            self.say_dropped_if_due(state, Instant::now());
        }
    }

    fn say_dropped_if_due(&self, mut state: MutexGuard<'_, SpoolState>, now: Instant) {
        if state.dropped_said_at.is_none_or(|at| now >= at + self.limits.repeat_every) {
            state.dropped_said_at = Some(now);
            self.say_dropped(state);
        }
    }

    /// Gives the lock back first: the error log has one of its own.
    fn say_dropped(&self, mut state: MutexGuard<'_, SpoolState>) {
        let Trouble::Told(report) = &self.trouble else { return };
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
