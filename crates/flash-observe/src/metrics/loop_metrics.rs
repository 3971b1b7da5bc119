//! The metrics of one loop or worker. Only its own thread writes them.
//!
//! A loop brackets each turn with [`LoopMetrics::begin`] and [`LoopMetrics::end`], and each call that could sleep with
//! [`LoopMetrics::watch_blocking`]. Asking the kernel costs too much for each cached request. So a whole turn is checked only
//! one time in [`SAMPLE_EVERY`], to find sleeps outside those calls.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use flash_core::record::counters::{Count, CounterSet, Counts, LoopCount};
use flash_os::thread_usage::{self, ThreadUsage};

use super::blocks::{Block, Blocks};
use super::last_block::{LastBlock, LastBlockCell};
use super::shard::Shard;
use crate::error::ErrorLog;
use crate::sleep_recorder::RECORD_EVERY;

// On cache lines of its own.
#[repr(align(128))]
pub struct LoopMetrics {
    /// Where it counts the events of requests.
    pub shard: Shard,
    error_log: ErrorLog,
    /// Those of all loops.
    all_blocks: Arc<Blocks>,
    /// When it last asked for its sleeps to be recorded, by CLOCK_MONOTONIC; 0 before.
    recorded_at_ns: LocalCounter,
    /// The thread's name, once it runs.
    name: OnceLock<String>,
    /// By the rows of [`LoopCount`].
    counts: [LocalCounter; LoopCount::ROWS.len()],
    /// Turns that have come to their end.
    ended_turns: LocalCounter,
    /// Turns by the ready events that they began with: none, 1, 2 and more, 4 and more, and so on.
    ready: [LocalCounter; READY_CLASSES],
    last_block: Arc<LastBlockCell>,
}

/// A number that one thread writes and others may read.
#[derive(Debug, Default)]
struct LocalCounter(AtomicU64);

/// A turn that has begun.
pub struct Turn {
    begun: Instant,
    /// What the kernel had counted, and how many blocks were known, for turns that are looked at as a whole.
    before: Option<(ThreadUsage, u64)>,
}

const READY_CLASSES: usize = 10;
pub(super) const SAMPLE_EVERY: u64 = 64;

impl LocalCounter {
    // Not an atomic addition: only one thread adds.
    fn add(&self, count: u64) {
        self.0.store(self.get() + count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl LoopMetrics {
    pub(super) fn new(shard: Shard, error_log: ErrorLog, all_blocks: Arc<Blocks>) -> Self {
        Self {
            shard,
            error_log,
            all_blocks,
            recorded_at_ns: LocalCounter::default(),
            name: OnceLock::new(),
            counts: Default::default(),
            ended_turns: LocalCounter::default(),
            ready: Default::default(),
            last_block: Arc::default(),
        }
    }

    /// The loop's wait has returned with so many ready events, at this moment.
    pub fn begin(&self, ready: usize, now: Instant) -> Turn {
        let class = (usize::BITS - ready.leading_zeros()) as usize;
        self.ready[class.min(READY_CLASSES - 1)].add(1);
        let turns = self.of(LoopCount::Turns);
        let sampled = turns.get().is_multiple_of(SAMPLE_EVERY);
        turns.add(1);
        if sampled {
            // For those who ask from other threads.
            self.name();
        }
        Turn { begun: now, before: sampled.then(|| (thread_usage::current(), self.get(LoopCount::Blocks))) }
    }

    /// The number of the turn that has not come to its end.
    pub fn turn_under_way(&self) -> Option<u64> {
        let ended = self.ended_turns.get();
        let begun = self.get(LoopCount::Turns);
        (begun > ended).then_some(begun)
    }

    /// The loop is about to wait.
    pub fn end(&self, turn: Turn) {
        let ns = turn.begun.elapsed().as_nanos() as u64;
        self.ended_turns.add(1);
        self.of(LoopCount::BusyNs).add(ns);
        self.of(LoopCount::LongestTurnNs).0.fetch_max(ns, Ordering::Relaxed);
        if let Some((before, blocks)) = turn.before {
            let waits = thread_usage::current();
            self.of(LoopCount::MajorFaults).add(waits.major_faults - before.major_faults);
            let slept = waits.voluntary_switches - before.voluntary_switches;
            let unexpected = slept.saturating_sub(self.get(LoopCount::Blocks) - blocks);
            if unexpected > 0 {
                self.count_sleep(
                    unexpected,
                    Duration::from_nanos(ns),
                    "a turn, outside its calls for files",
                    Vec::new(),
                );
            }
        }
    }

    /// Performs something that a loop must not sleep in. If it did sleep, that is counted, and logged with the name of the
    /// system call and the path that `blocking_call` returns.
    pub fn watch_blocking<T>(
        &self,
        perform: impl FnOnce() -> T,
        blocking_call: impl FnOnce() -> (&'static str, Vec<u8>),
    ) -> T {
        let (before, begun) = (thread_usage::current().voluntary_switches, Instant::now());
        let result = perform();
        let slept = thread_usage::current().voluntary_switches - before;
        if slept > 0 {
            let (call, path) = blocking_call();
            self.count_sleep(slept, begun.elapsed(), call, path);
        }
        result
    }

    fn count_sleep(&self, sleeps: u64, lasted: Duration, call: &'static str, path: Vec<u8>) {
        self.of(LoopCount::Blocks).add(sleeps);
        self.shard.add(Count::LoopBlocks, sleeps);
        let until_ns = monotonic_ns();
        let recorded_at_ns = self.recorded_at_ns.get();
        let record = recorded_at_ns == 0 || Duration::from_nanos(until_ns - recorded_at_ns) > RECORD_EVERY;
        let block = Block {
            name: self.name().to_owned(),
            thread: flash_os::process::this_thread(),
            since_ns: until_ns.saturating_sub(lasted.as_nanos() as u64),
            until_ns,
            call,
            path,
        };
        self.last_block.set(until_ns, lasted, call, &block.path);
        if self.all_blocks.catch(Instant::now(), block, &self.last_block, record, &self.error_log) {
            self.recorded_at_ns.0.store(until_ns, Ordering::Relaxed);
        }
    }

    fn of(&self, what: LoopCount) -> &LocalCounter {
        &self.counts[what as usize]
    }

    pub fn get(&self, what: LoopCount) -> u64 {
        self.of(what).get() / what.row().divisor
    }

    pub fn counts(&self) -> Counts<LoopCount> {
        Counts::new(|what| self.get(what))
    }

    /// Its last sleep outside its wait.
    pub fn last_block(&self) -> Option<LastBlock> {
        self.last_block.get()
    }

    /// Turns by the ready events that they began with: none, 1, 2 and more, 4 and more, and so on.
    pub fn ready(&self) -> Vec<u64> {
        self.ready.iter().map(LocalCounter::get).collect()
    }

    pub fn name(&self) -> &str {
        self.name.get_or_init(|| std::thread::current().name().unwrap_or("a loop").to_owned())
    }
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// `loop-0: turns=… ready=0:…,1:…,2+:… …`. Asked for by another thread, it may be a turn behind.
impl fmt::Display for LoopMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ready = String::new();
        for (class, count) in self.ready.iter().enumerate().filter(|(_, count)| count.get() > 0) {
            let least = if class == 0 { 0 } else { 1 << (class - 1) };
            let (comma, more) = (if ready.is_empty() { "" } else { "," }, if class > 1 { "+" } else { "" });
            write!(ready, "{comma}{least}{more}:{}", count.get())?;
        }
        let name = self.name.get().map_or("a loop", String::as_str);
        write!(f, "{name}: turns={} ready={ready}", self.get(LoopCount::Turns))?;
        // The turns were the first.
        self.counts().told().skip(1).try_for_each(|(row, count)| write!(f, " {}={count}", row.name))
    }
}

impl fmt::Debug for LoopMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests;
