//! The third level: samples of `/proc`, which need no right but the same user's. Sleeps shorter than the time between two
//! samples are missed, and lengths are multiples of it.
//!
//! A thread whose count of voluntary switches has not changed between two samples is in the same sleep.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

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
            sampled.end(0, &mut |block| found(Block { unfinished: true, ..block }));
        }
    }

    /// What a thread has done that has slept for this time and still sleeps; a block, if it is no wait.
    pub(crate) fn asleep_for(pid: u32, thread: u32, time: Duration) -> Option<(ThreadTotals, Option<Block>)> {
        let (mut sampled, begun) = (Sampled::default(), Instant::now());
        (sampled.totals.pid, sampled.totals.thread) = (pid, thread);
        sampled.sample(begun, begun, &mut |_| ());
        let asleep = sampled.asleep.take()?;
        let us = time.as_micros() as u64;
        sampled.totals.count(us, asleep.block.is_none());
        Some((
            sampled.totals,
            asleep.block.map(|block| Block { us, sampled: false, unfinished: true, ..block }),
        ))
    }

    pub(crate) fn threads(&self) -> Vec<ThreadTotals> {
        self.threads.values().map(|sampled| sampled.totals.clone()).collect()
    }
}

impl Sampled {
    fn sample(&mut self, now: Instant, begun: Instant, found: &mut dyn FnMut(Block)) {
        let place = proc::place(self.totals.pid, self.totals.thread);
        let Some(moment) = proc::moment(&place) else { return self.wake(found) };
        self.totals.name.clone_from(&moment.name);
        if !moment.sleeps {
            return self.wake(found);
        }
        if let Some(asleep) = &mut self.asleep
            && asleep.switches == moment.switches
        {
            asleep.last = now;
            return;
        }
        self.wake(found);
        let doing = Doing::read(&place);
        let is_wait = doing.is_wait();
        let subject = if is_wait { None } else { doing.subject(&place) };
        // If it woke meanwhile, its call may be of one sleep and its stack of another.
        if proc::moment(&place).as_ref() != Some(&moment) {
            return;
        }
        if is_wait {
            self.totals.is_loop |= doing.is_loop();
            self.totals.poller = doing.poller().or(self.totals.poller);
        }
        let time_us = now.duration_since(begun).as_micros() as u64;
        let block = (!is_wait).then(|| Block {
            time_us,
            sampled: true,
            ..doing.block(&self.totals, subject.as_ref())
        });
        self.asleep = Some(Asleep { switches: moment.switches, since: now, last: now, block });
    }

    fn wake(&mut self, found: &mut dyn FnMut(Block)) {
        // Somewhere between this sample and the ones beside it.
        self.end(SAMPLE_US / 2, found);
    }

    fn end(&mut self, more_us: u64, found: &mut dyn FnMut(Block)) {
        let Some(asleep) = self.asleep.take() else { return };
        let us = (asleep.last - asleep.since).as_micros() as u64 + more_us;
        self.totals.count(us, asleep.block.is_none());
        if let Some(block) = asleep.block {
            found(Block { us, ..block });
        }
    }
}

/// The time between two samples.
const SAMPLE_US: u64 = 10_000;
