//! What put loops to sleep: named in the error log, and counted by cause for reports.
//!
//! A loop only leaves here when and where it slept, and only tries the lock. Another thread asks the
//! [sleep recorder](crate::sleep_recorder) why, because the answer may take a tenth of a second.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use std::{io, mem};

use flash_sleep::Cause;
use parking_lot::Mutex;

use super::last_block::LastBlockCell;
use crate::error::ErrorLog;
use crate::rate_limit::{RateLimit, Suppressed};
use crate::sleep_recorder::{ConnectRecorder, RecorderClient, Total};

/// The blocks of all loops of a process.
#[derive(Default)]
pub(super) struct Blocks {
    /// None before [`start`](Self::start).
    recorder: Mutex<Option<RecorderClient>>,
    caught: Mutex<Vec<Waiting>>,
    namer: OnceLock<Thread>,
    /// Why there are no stacks.
    refusal: OnceLock<String>,
    limits: LineLimits,
}

/// A sleep that waits for its explanation.
struct Waiting {
    block: Block,
    /// Where its loop has left it.
    last: Arc<LastBlockCell>,
    /// The thread wants to be recorded from now on.
    record: bool,
    /// None if there is to be no line. Otherwise how many lines like it were suppressed before.
    suppressed: Option<u64>,
}

/// Apart, because the first sleep of a loop has no stack, and shall not suppress the line of the second one.
struct LineLimits {
    first: RateLimit,
    others: RateLimit,
}

impl Default for LineLimits {
    fn default() -> Self {
        let limit = || RateLimit::every(Duration::from_secs(5));
        Self { first: limit(), others: limit() }
    }
}

/// A section of a loop's work in which it slept, as the error log tells it.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) name: String,
    pub(super) thread: u32,
    /// By CLOCK_MONOTONIC.
    pub(super) since_ns: u64,
    pub(super) until_ns: u64,
    /// The system call, and the path that it was about, if that is known.
    pub(super) call: &'static str,
    pub(super) path: Vec<u8>,
}

/// The blocks of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Causes {
    /// Those that took longest first.
    totals: Vec<Total>,
    without_stack: u64,
    refusal: Option<String>,
}

/// Lines of a report.
const LINES_MAX: usize = 10;
/// Sleeps that wait for their explanations; their lines are limited by time too.
const CAUGHT_MAX: usize = 64;

impl Blocks {
    /// Starts the thread that logs blocks with their causes. Without it they are logged without.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(super) fn start(self: &Arc<Self>, error_log: ErrorLog, connect: ConnectRecorder) -> io::Result<()> {
        *self.recorder.lock() = Some(RecorderClient::new(connect));
        let blocks = Arc::clone(self);
        let namer = thread::Builder::new().name("block-namer".into()).spawn(move || {
            loop {
                thread::park();
                blocks.log_caught(&error_log);
            }
        })?;
        let _ = self.namer.set(namer.thread().clone());
        Ok(())
    }

    /// Has a block logged, but not too often, and its thread recorded from now on if that is wanted. Never waits.
    ///
    /// Returns whether the thread will be recorded.
    pub(super) fn catch(
        &self,
        now: Instant,
        block: Block,
        last: &Arc<LastBlockCell>,
        record: bool,
        error_log: &ErrorLog,
    ) -> bool {
        let limit = if record { &self.limits.first } else { &self.limits.others };
        let suppressed = limit.admit(now);
        let Some(namer) = self.namer.get() else {
            if let Some(suppressed) = suppressed {
                error_log.log(format_args!("{block}{}", Suppressed(suppressed)));
            }
            return false;
        };
        if !record && suppressed.is_none() {
            return false;
        }
        let is_kept = self.caught.try_lock().is_some_and(|mut caught| {
            let has_room = caught.len() < CAUGHT_MAX;
            if has_room {
                caught.push(Waiting { block, last: Arc::clone(last), record, suppressed });
            }
            has_room
        });
        namer.unpark();
        record && is_kept
    }

    /// Logs the sleeps that wait for their explanations.
    pub(super) fn log_caught(&self, error_log: &ErrorLog) {
        // One thread at a time, so that a report follows the lines before it.
        let mut recorder = self.recorder.lock();
        for Waiting { block, last, record, suppressed } in mem::take(&mut *self.caught.lock()) {
            let why = recorder.as_mut().and_then(|recorder| self.why(recorder, &block, record));
            if let Some(why) = &why {
                last.explain(block.until_ns, why);
            }
            if let Some(suppressed) = suppressed {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                error_log.log(format_args!("{block}{why}{}", Suppressed(suppressed)));
            }
        }
    }

    fn why(&self, recorder: &mut RecorderClient, block: &Block, record: bool) -> Option<String> {
        if self.refusal.get().is_none() && record {
            match recorder.record(block.thread) {
                Ok(true) => return Some("kernel stacks are recorded from now on".into()),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.refuse(&error),
                Err(error) => return Some(format!("no kernel stack: {error}")),
            }
        }
        if let Some(refusal) = self.refusal.get() {
            return Some(format!("no kernel stack: {refusal}"));
        }
        match recorder.explain(block.thread, block.since_ns, block.until_ns) {
            Ok(Some(explanation)) => Some(explanation.to_string()),
            Ok(None) => Some("no kernel stack: it began before they were recorded".into()),
            Err(error) => Some(format!("no kernel stack: {error}")),
        }
    }

    /// Remembers why the kernel gives no stacks.
    fn refuse(&self, error: &io::Error) {
        let _ = self
            .refusal
            .set(format!("{error}: CAP_PERFMON or sysctl kernel.perf_event_paranoid=1 would give it"));
    }

    /// So many blocks by their causes. It may take a tenth of a second.
    pub(super) fn causes(&self, blocks: u64) -> Causes {
        let totals = self.recorder.lock().as_mut().map(RecorderClient::totals).unwrap_or_default();
        let explained = totals.iter().map(|total| total.sleeps).sum();
        Causes {
            totals,
            without_stack: blocks.saturating_sub(explained),
            refusal: self.refusal.get().cloned(),
        }
    }
}

impl Causes {
    /// The causes, each with its sleeps and their microseconds. Those without a stack come last, with no time.
    pub(super) fn list(&self) -> Vec<(String, u64, u64)> {
        let mut sums: Vec<(String, u64, u64)> = Vec::new();
        for Total { explanation, sleeps, ns } in &self.totals {
            let cause = Cause::name(explanation.cause);
            match sums.iter_mut().find(|(known, ..)| known == cause) {
                Some((_, all, us)) => (*all, *us) = (*all + sleeps, *us + ns / 1000),
                None => sums.push((cause.into(), *sleeps, ns / 1000)),
            }
        }
        sums.sort_by_key(|(_, _, us)| std::cmp::Reverse(*us));
        sums.extend((self.without_stack > 0).then(|| ("no stack".into(), self.without_stack, 0)));
        sums
    }

    /// A line for each cause and place.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |total: &Total| {
            let us = Duration::from_nanos(total.ns).as_micros();
            format!("blocks: sleeps={} sleep_us={us} {}", total.sleeps, total.explanation)
        };
        let mut lines: Vec<String> = self.totals.iter().take(LINES_MAX).map(line).collect();
        match (self.without_stack, &self.refusal) {
            (0, _) => {}
            (sleeps, Some(refusal)) => {
                lines.push(format!("blocks: sleeps={sleeps} no kernel stack: {refusal}"))
            }
            (sleeps, None) => lines.push(format!("blocks: sleeps={sleeps} no kernel stack")),
        }
        lines
    }
}

/// `page-cache-read:30,metadata-read:8,no-stack:1`, the most frequent first; `none` without blocks.
impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for total in &self.totals {
            *sums.entry(Cause::name(total.explanation.cause)).or_default() += total.sleeps;
        }
        let mut sums: Vec<(&str, u64)> = sums.into_iter().collect();
        sums.sort_by_key(|(_, sleeps)| std::cmp::Reverse(*sleeps));
        sums.extend((self.without_stack > 0).then_some(("no stack", self.without_stack)));
        if sums.is_empty() {
            return f.write_str("none");
        }
        for (number, (cause, sleeps)) in sums.into_iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{}:{sleeps}", cause.replace(' ', "-"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").finish_non_exhaustive()
    }
}

/// `loop-0 slept outside its wait: 1.0 ms in openat2 of /srv/a`.
impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.until_ns.saturating_sub(self.since_ns) as f64 / 1e6;
        let (of, path) = (if self.path.is_empty() { "" } else { " of " }, self.path.escape_ascii());
        write!(f, "{} slept outside its wait: {ms:.1} ms in {}{of}{path}", self.name, self.call)
    }
}
