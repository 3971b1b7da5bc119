//! The witness outside the server: `flash why`, which sees each sleep of a thread with its kernel stack.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use flash_sleep::Cause;
use flash_why::{Block, Level, Target, ThreadTotals, Watch};

/// Watches a server until it is ended.
pub(crate) struct Watched {
    over: Arc<AtomicBool>,
    watcher: JoinHandle<Seen>,
}

/// What it saw of some threads.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    blocks: Vec<Block>,
    totals: Vec<ThreadTotals>,
}

/// Why sleeps cannot be seen here, if they cannot.
pub(crate) fn missing() -> Option<String> {
    let own = Target::Pid(std::process::id());
    Watch::begin(&own, Some(Level::Perf)).err().map(|error| error.to_string())
}

impl Watched {
    /// Begins, or says why it cannot.
    pub(crate) fn begin(process: u32, level: Level) -> Result<Watched, String> {
        let mut watch =
            Watch::begin(&Target::Pid(process), Some(level)).map_err(|error| error.to_string())?;
        let over = Arc::new(AtomicBool::new(false));
        let seen_over = Arc::clone(&over);
        let watcher = thread::spawn(move || {
            Watch::run_first();
            let mut seen = Seen::default();
            loop {
                // Asked first: what happened before the end has to be read.
                let last = seen_over.load(Ordering::Relaxed);
                watch.poll(&mut |block| seen.blocks.push(block)).expect("the kernel tells");
                if last {
                    break;
                }
                thread::sleep(watch.interval());
            }
            watch.unfinished(&mut |block| seen.blocks.push(block));
            seen.totals = watch.threads();
            seen
        });
        Ok(Watched { over, watcher })
    }

    pub(crate) fn end(self) -> Seen {
        self.over.store(true, Ordering::Relaxed);
        self.watcher.join().expect("the watcher does not panic")
    }
}

impl Seen {
    /// The blocks of these threads.
    pub(crate) fn blocks(&self, threads: &[u32]) -> Vec<&Block> {
        self.blocks.iter().filter(|block| threads.contains(&block.thread)).collect()
    }

    /// Sleeps of these threads in their wait for events.
    pub(crate) fn waits(&self, threads: &[u32]) -> u64 {
        self.of(threads).map(|seen| seen.waits).sum()
    }

    /// Each of these threads was seen to be a loop, and no sleep of them was lost. Those of busy helpers may be.
    pub(crate) fn assert_whole(&self, name: &str, threads: &[u32]) {
        let lost: u64 = self.of(threads).map(|seen| seen.lost).sum();
        assert_eq!(lost, 0, "{name}: blocks were lost");
        let loops = self.of(threads).filter(|seen| seen.is_loop).count();
        assert_eq!(loops, threads.len(), "{name}: flash why did not find the loops {threads:?}");
        let blocks = self.blocks(threads);
        let known = blocks.iter().filter(|block| block.cause != Cause::Unknown).count();
        assert!(known * 100 >= blocks.len() * 95, "{name}: {known} of {} have a cause", blocks.len());
    }

    fn of(&self, threads: &[u32]) -> impl Iterator<Item = &ThreadTotals> {
        self.totals.iter().filter(|seen| threads.contains(&seen.thread))
    }
}

/// The most frequent stacks, one to a line.
pub(crate) fn most(blocks: &[&Block], lines_max: usize) -> String {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for block in blocks {
        let functions: Vec<&str> = block.stack.iter().map(|name| &**name).collect();
        *stacks.entry(functions.join(" < ")).or_default() += 1;
    }
    let mut stacks: Vec<_> = stacks.into_iter().collect();
    stacks.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    stacks.iter().take(lines_max).map(|(stack, count)| format!("\n{count:>8} × {stack}")).collect()
}

/// How many of each cause, the most frequent first.
pub(crate) fn by_cause(blocks: &[&Block]) -> String {
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for block in blocks {
        *causes.entry(block.cause.name()).or_default() += 1;
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    causes.iter().map(|(cause, count)| format!(", {count} {cause}")).collect()
}
