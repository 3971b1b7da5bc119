//! What put loops to sleep: kernel stacks and their causes, counted for reports and named in the error log.
//!
//! A loop only leaves addresses here, and only tries the locks. Another thread looks up their names, because `/proc/kallsyms`
//! takes a tenth of a second.

mod explanation;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use std::{io, mem};

use flash_os::perf_event::Sleep;
use parking_lot::Mutex;

use self::explanation::{Explanation, KernelNames};
use crate::error::ErrorLog;
use crate::rate_limit::{RateLimit, Suppressed};

/// The blocks of all loops of a process.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    by_stack: Mutex<HashMap<Box<[u64]>, Count>>,
    names: Mutex<KernelNames>,
    /// Sleeps that wait for names, and how many lines like theirs were suppressed before.
    caught: Mutex<Vec<(Caught, u64)>>,
    namer: OnceLock<Thread>,
    without_stack: AtomicU64,
    /// Why there are no stacks.
    refusal: OnceLock<String>,
    limits: LineLimits,
}

/// Apart, because the first sleep of a loop has no stack, and shall not suppress the line of the second one.
#[derive(Debug)]
struct LineLimits {
    with_stack: RateLimit,
    without_stack: RateLimit,
}

impl Default for LineLimits {
    fn default() -> Self {
        let limit = || RateLimit::every(Duration::from_secs(5));
        Self { with_stack: limit(), without_stack: limit() }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    sleeps: u64,
    ns: u64,
}

/// A sleep of a loop, as the error log tells it.
#[derive(Debug)]
pub(super) struct Caught {
    pub(super) name: String,
    pub(super) lasted: Duration,
    /// The system call, and the path that it was about, if that is known.
    pub(super) call: &'static str,
    pub(super) path: Vec<u8>,
    /// The stack of the longest sleep, if it was recorded.
    pub(super) stack: Option<Box<[u64]>>,
}

/// Different stacks that are counted. Sleeps with others count as those without a stack.
const STACKS_MAX: usize = 512;
/// Lines of a report.
const LINES_MAX: usize = 10;
/// Lines that wait for names; they are limited by time too.
const CAUGHT_MAX: usize = 16;

impl Blocks {
    /// Starts the thread that logs blocks with their causes. Without it they are logged without.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(super) fn start(self: &Arc<Self>, error_log: ErrorLog) -> io::Result<()> {
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

    /// Counts sleeps of a loop, of which some or none have a stack. Never waits.
    pub(super) fn count(&self, sleeps: u64, recorded: &[Sleep]) {
        let mut counted = 0;
        if let Some(mut by_stack) = self.by_stack.try_lock() {
            for sleep in recorded {
                let has_room = by_stack.len() < STACKS_MAX;
                let count = match by_stack.get_mut(&*sleep.stack) {
                    Some(count) => count,
                    None if has_room => by_stack.entry(sleep.stack.as_slice().into()).or_default(),
                    None => continue,
                };
                count.sleeps += 1;
                count.ns += sleep.until_ns.saturating_sub(sleep.since_ns);
                counted += 1;
            }
        }
        self.without_stack.fetch_add(sleeps.saturating_sub(counted), Ordering::Relaxed);
    }

    /// Remembers why the kernel gives no stacks.
    pub(super) fn refuse(&self, error: &io::Error) {
        let _ = self.refusal.set(format!(
            "{error}: CAP_PERFMON, or sysctl kernel.perf_event_paranoid=1, and no sandbox would give it"
        ));
    }

    /// Has a sleep logged, but not too often. Its cause is told if a thread for that was started. Never waits.
    pub(super) fn log(&self, now: Instant, caught: Caught, error_log: &ErrorLog) {
        let limit = if caught.stack.is_some() { &self.limits.with_stack } else { &self.limits.without_stack };
        let Some(suppressed) = limit.admit(now) else { return };
        let Some(namer) = self.namer.get() else {
            return error_log.log(format_args!("{caught}{}", Suppressed(suppressed)));
        };
        if let Some(mut waiting) = self.caught.try_lock()
            && waiting.len() < CAUGHT_MAX
        {
            waiting.push((caught, suppressed));
        }
        namer.unpark();
    }

    /// Logs the sleeps that wait for their names.
    pub(super) fn log_caught(&self, error_log: &ErrorLog) {
        for (caught, suppressed) in mem::take(&mut *self.caught.lock()) {
            let cause = match (&caught.stack, self.refusal.get()) {
                (Some(stack), _) => self.names.lock().explain([&**stack]).remove(0).to_string(),
                (None, Some(refusal)) => format!("no kernel stack: {refusal}"),
                (None, None) => "kernel stacks are recorded from now on".into(),
            };
            error_log.log(format_args!("{caught}: {cause}{}", Suppressed(suppressed)));
        }
    }

    /// A line for each cause and place, those that took longest first.
    pub(super) fn lines(&self) -> Vec<String> {
        let by_stack: Vec<(Box<[u64]>, Count)> =
            self.by_stack.lock().iter().map(|(stack, count)| (stack.clone(), *count)).collect();
        let explained = self.names.lock().explain(by_stack.iter().map(|(stack, _)| &**stack));
        let mut sums: HashMap<Explanation, Count> = HashMap::new();
        for (explanation, (_, count)) in explained.into_iter().zip(&by_stack) {
            let sum = sums.entry(explanation).or_default();
            sum.sleeps += count.sleeps;
            sum.ns += count.ns;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, count)| std::cmp::Reverse(count.ns));
        let line = |(explanation, count): &(Explanation, Count)| {
            let us = Duration::from_nanos(count.ns).as_micros();
            format!("blocks: sleeps={} sleep_us={us} {explanation}", count.sleeps)
        };
        let mut lines: Vec<String> = sums.iter().take(LINES_MAX).map(line).collect();
        match (self.without_stack.load(Ordering::Relaxed), self.refusal.get()) {
            (0, _) => {}
            (sleeps, Some(refusal)) => {
                lines.push(format!("blocks: sleeps={sleeps} no kernel stack: {refusal}"))
            }
            (sleeps, None) => lines.push(format!("blocks: sleeps={sleeps} no kernel stack")),
        }
        lines
    }
}

/// `loop-0 slept outside its wait: 1.0 ms in openat2 of /srv/a`.
impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of, ms) = (if self.path.is_empty() { "" } else { " of " }, self.lasted.as_secs_f64() * 1e3);
        let (name, call, path) = (&self.name, self.call, self.path.escape_ascii());
        write!(f, "{name} slept outside its wait: {ms:.1} ms in {call}{of}{path}")
    }
}
