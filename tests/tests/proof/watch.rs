//! The second witness: `flash why` at its first level, which sees the same sleeps through programs in the kernel.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use flash_why::{Block, Level, Target, Watch};

/// Watches a server until it is ended.
pub(crate) struct Watched {
    over: Arc<AtomicBool>,
    watcher: JoinHandle<Seen>,
}

/// What it saw of some threads.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    blocks: Vec<Block>,
    totals: Vec<flash_why::ThreadTotals>,
}

impl Watched {
    /// Begins, or says why it cannot.
    pub(crate) fn begin(process: u32) -> Result<Watched, String> {
        let mut watch =
            Watch::begin(&Target::Pid(process), Some(Level::Ebpf)).map_err(|error| error.to_string())?;
        let over = Arc::new(AtomicBool::new(false));
        let seen_over = Arc::clone(&over);
        let watcher = thread::spawn(move || {
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

    /// How many blocks of these threads did not fit into the ring. Those of busy helpers may be lost.
    pub(crate) fn lost(&self, threads: &[u32]) -> u64 {
        let of_these = self.totals.iter().filter(|seen| threads.contains(&seen.thread));
        of_these.map(|seen| seen.lost).sum()
    }

    /// Whether it took each of these threads for a loop.
    pub(crate) fn are_loops(&self, threads: &[u32]) -> bool {
        threads.iter().all(|&thread| self.totals.iter().any(|seen| seen.thread == thread && seen.is_loop))
    }
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
