//! The third level: samples of `/proc`, which need no right but the same user's. Sleeps shorter than the time between two
//! samples are missed, and lengths are multiples of it.
//!
//! A thread whose count of voluntary switches has not changed between two samples is in the same sleep.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Instant;

use crate::block::{Block, ThreadTotals};
use crate::doing::Doing;
use crate::error::Error;
use crate::proc;

#[derive(Default)]
pub(crate) struct Instrument {
    pids: BTreeSet<u32>,
    threads: BTreeMap<u32, Sampled>,
    begun: Option<Instant>,
}

#[derive(Default)]
struct Sampled {
    totals: ThreadTotals,
    asleep: Option<Asleep>,
}

struct Asleep {
    switches: u64,
    since: Instant,
    last: Instant,
    block: Option<Block>,
}

impl Instrument {
    pub(crate) fn new() -> Instrument {
        Instrument { begun: Some(Instant::now()), ..Instrument::default() }
    }

    /// Watches a process, if its threads may be looked at.
    pub(crate) fn watch(&mut self, pid: u32) -> Result<(), Error> {
        if let Err(error) = fs::read_to_string(format!("/proc/{pid}/syscall")) {
            return Err(proc::refusal(pid, &error, "CAP_SYS_PTRACE"));
        }
        self.pids.insert(pid);
        Ok(())
    }

    pub(crate) fn watched(&self) -> Vec<u32> {
        self.pids.iter().copied().collect()
    }

    /// Takes a sample of every thread.
    pub(crate) fn poll(&mut self, found: &mut dyn FnMut(Block)) {
        let (now, begun) = (Instant::now(), self.begun.expect("it has begun"));
        let children: Vec<u32> = self.pids.iter().flat_map(|&pid| proc::children(pid)).collect();
        self.pids.extend(children);
        let mut seen = BTreeSet::new();
        for &pid in &self.pids {
            for thread in proc::threads(pid) {
                seen.insert(thread);
                let sampled = self.threads.entry(thread).or_default();
                sampled.totals.pid = pid;
                sampled.totals.thread = thread;
                sampled.sample(now, begun, found);
            }
        }
        for (thread, sampled) in &mut self.threads {
            if !seen.contains(thread) {
                sampled.wake(found);
            }
        }
        self.pids.retain(|&pid| proc::is_there(pid));
    }

    pub(crate) fn unfinished(&mut self, found: &mut dyn FnMut(Block)) {
        for sampled in self.threads.values_mut() {
            sampled.wake(&mut |mut block| {
                block.unfinished = true;
                found(block);
            });
        }
    }

    /// The thread's sleep now, if it sleeps outside a wait for events.
    pub(crate) fn asleep_now(pid: u32, thread: u32) -> Option<Block> {
        let mut sampled = Sampled::default();
        (sampled.totals.pid, sampled.totals.thread) = (pid, thread);
        let now = Instant::now();
        sampled.sample(now, now, &mut |_| ());
        sampled.asleep?.block
    }

    pub(crate) fn threads(&self) -> Vec<ThreadTotals> {
        self.threads.values().map(|sampled| sampled.totals.clone()).collect()
    }
}

impl Sampled {
    fn sample(&mut self, now: Instant, begun: Instant, found: &mut dyn FnMut(Block)) {
        let place = proc::place(self.totals.pid, self.totals.thread);
        let Ok(status) = fs::read_to_string(format!("{place}/status")) else { return self.wake(found) };
        let field = |name| status.lines().find_map(|line: &str| line.strip_prefix(name)).map(str::trim);
        self.totals.name = field("Name:").unwrap_or_default().to_owned();
        let sleeps = field("State:").is_some_and(|state| state.starts_with(['S', 'D']));
        let switches = field("voluntary_ctxt_switches:").and_then(|count| count.parse().ok()).unwrap_or(0);
        if !sleeps {
            return self.wake(found);
        }
        if let Some(asleep) = &mut self.asleep
            && asleep.switches == switches
        {
            asleep.last = now;
            return;
        }
        self.wake(found);
        let doing = Doing::read(&place);
        let is_wait = doing.is_wait();
        self.totals.is_loop |= is_wait;
        let time_us = now.duration_since(begun).as_micros() as u64;
        let block = (!is_wait).then(|| Block {
            time_us,
            sampled: true,
            ..doing.block(&self.totals, doing.subject(&place).as_ref())
        });
        self.asleep = Some(Asleep { switches, since: now, last: now, block });
    }

    fn wake(&mut self, found: &mut dyn FnMut(Block)) {
        let Some(asleep) = self.asleep.take() else { return };
        // Somewhere between this sample and the ones beside it.
        let us = (asleep.last - asleep.since).as_micros() as u64 + SAMPLE_US / 2;
        match asleep.block {
            None => {
                self.totals.waits += 1;
                self.totals.wait_us += us;
            }
            Some(mut block) => {
                self.totals.blocks += 1;
                self.totals.block_us += us;
                block.us = us;
                found(block);
            }
        }
    }
}

/// The time between two samples.
const SAMPLE_US: u64 = 10_000;
