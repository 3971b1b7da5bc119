//! A watch: the processes of a target, seen by the best level that rights allow.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::block::{Block, ThreadTotals};
#[cfg(target_arch = "x86_64")]
use crate::ebpf;
use crate::error::Error;
use crate::level::Level;
use crate::loops::{Loops, Sight};
use crate::lost::Lost;
use crate::perf;
use crate::proc::{self, Moment};
use crate::sampler;
use crate::target::Target;

/// The priority of the thread that reads.
const READER_NICE: i32 = -10;

/// A watch that has begun.
pub struct Watch {
    instrument: Instrument,
    level: Level,
    note: Option<String>,
    processes: usize,
    started: Option<Child>,
    /// Threads that were there when it began, and what was known of each.
    first: BTreeMap<u32, First>,
    loops: Loops,
    learned: Instant,
    begun: Instant,
    ended: Option<Instant>,
    /// At its end, what threads did that slept all along.
    still: Vec<ThreadTotals>,
}

/// A thread as it was when the watch began.
struct First {
    pid: u32,
    started: u64,
    moment: Moment,
}

/// Between two looks at what threads wait in. Of a process that lives for less nothing need be known.
const LEARN_EVERY: Duration = Duration::from_millis(500);

enum Instrument {
    #[cfg(target_arch = "x86_64")]
    Ebpf(Box<ebpf::Instrument>),
    Perf(Box<perf::Instrument>),
    Proc(sampler::Instrument),
}

impl Watch {
    /// Finds the target and begins to watch it, at this level or the best one.
    ///
    /// # Errors
    /// In one line what is wrong, and what would help.
    pub fn begin(target: &Target, level: Option<Level>) -> Result<Watch, Error> {
        let (mut instrument, level, note) = open(level)?;
        let found = target.find()?;
        for &pid in &found.pids {
            let watched = match &mut instrument {
                #[cfg(target_arch = "x86_64")]
                Instrument::Ebpf(kernel) => kernel.watch(pid),
                Instrument::Perf(perf) => perf.watch(pid),
                Instrument::Proc(sampler) => sampler.watch(pid).map_err(|error| match &note {
                    Some(note) => Error::run(format!("{error}; {note}")),
                    None => error,
                }),
            };
            // A program that the server runs may have ended since it was found.
            let has_ended = !proc::is_there(pid) && found.pids.iter().any(|&other| proc::is_there(other));
            watched.or_else(|error| if has_ended { Ok(()) } else { Err(error) })?;
        }
        match &mut instrument {
            #[cfg(target_arch = "x86_64")]
            Instrument::Ebpf(kernel) => kernel.begin(),
            Instrument::Perf(perf) => perf.begin(),
            Instrument::Proc(_) => {}
        }
        let begun = Instant::now();
        // Only now: a thread that moves from here on is seen.
        let first = found.pids.iter().flat_map(|&pid| First::of_process(pid)).collect();
        Ok(Watch {
            instrument,
            level,
            note,
            processes: found.pids.len(),
            started: found.started,
            first,
            loops: Loops::default(),
            learned: begun,
            begun,
            ended: None,
            still: Vec::new(),
        })
    }

    /// How much it sees.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Why it is not a better level, and what would help.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// How many processes it began with.
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// How long it has watched.
    pub fn watched_for(&self) -> Duration {
        self.ended.unwrap_or_else(Instant::now) - self.begun
    }

    /// Has this thread run before those that it watches, if it may: they fill a ring within milliseconds.
    pub fn run_first() {
        // An ordinary user may not.
        let _ = rustix::process::setpriority_process(None, READER_NICE);
    }

    /// How often [`poll`](Watch::poll) is to be called.
    pub fn interval(&self) -> Duration {
        match self.level {
            Level::Perf => perf::INTERVAL,
            Level::Ebpf | Level::Proc => Duration::from_millis(10),
        }
    }

    /// Gives each block that has ended since.
    ///
    /// # Errors
    /// If the kernel refuses what it has granted before.
    pub fn poll(&mut self, found: &mut dyn FnMut(Block)) -> Result<(), Error> {
        let loops = &mut self.loops;
        let found = &mut |block: Block| {
            loops.note(&block);
            found(block);
        };
        match &mut self.instrument {
            #[cfg(target_arch = "x86_64")]
            Instrument::Ebpf(kernel) => kernel.poll(found),
            Instrument::Perf(perf) => perf.poll(found),
            Instrument::Proc(sampler) => sampler.poll(found),
        }
        if self.learned.elapsed() >= LEARN_EVERY {
            self.learned = Instant::now();
            let (threads, sight) = (self.seen(), self.sight());
            self.loops.learn(&threads, sight);
            let undecided = self.loops.undecided(&threads, sight);
            match &mut self.instrument {
                #[cfg(target_arch = "x86_64")]
                Instrument::Ebpf(kernel) => kernel.follow_calls(!undecided.is_empty())?,
                Instrument::Perf(perf) => perf.follow_calls(&undecided),
                Instrument::Proc(_) => {}
            }
        }
        Ok(())
    }

    /// Gives the blocks that still last. The watch is over then.
    pub fn unfinished(&mut self, found: &mut dyn FnMut(Block)) {
        let mut loops = std::mem::take(&mut self.loops);
        let found = &mut |block: Block| {
            loops.note(&block);
            found(block);
        };
        match &mut self.instrument {
            #[cfg(target_arch = "x86_64")]
            Instrument::Ebpf(kernel) => kernel.unfinished(found),
            Instrument::Perf(perf) => perf.unfinished(found),
            Instrument::Proc(sampler) => sampler.unfinished(found),
        }
        self.ended = Some(Instant::now());
        let (still, blocks): (Vec<_>, Vec<_>) = self.asleep_all_along(&self.seen()).into_iter().unzip();
        self.still = still;
        blocks.into_iter().flatten().for_each(found);
        self.loops = loops;
    }

    /// Threads that were asleep when the watch began and have not moved since: a switch of theirs was never seen.
    fn asleep_all_along(&self, seen: &[ThreadTotals]) -> Vec<(ThreadTotals, Option<Block>)> {
        // Samples need no switch.
        if self.level == Level::Proc {
            return Vec::new();
        }
        let moved = seen.iter().filter(|thread| thread.waits + thread.blocks > 0);
        let moved: BTreeSet<u32> = moved.map(|thread| thread.thread).collect();
        let still =
            self.first.iter().filter(|(thread, first)| !moved.contains(thread) && first.is_there(**thread));
        still
            .filter_map(|(&thread, first)| {
                sampler::Instrument::asleep_for(first.pid, thread, self.watched_for())
            })
            .collect()
    }

    fn seen(&self) -> Vec<ThreadTotals> {
        match &self.instrument {
            #[cfg(target_arch = "x86_64")]
            Instrument::Ebpf(kernel) => kernel.threads(),
            Instrument::Perf(perf) => perf.threads(),
            Instrument::Proc(sampler) => sampler.threads(),
        }
    }

    fn sight(&self) -> Sight {
        let sees_calls = match &self.instrument {
            #[cfg(target_arch = "x86_64")]
            Instrument::Ebpf(_) => true,
            Instrument::Perf(perf) => perf.sees_calls(),
            Instrument::Proc(_) => false,
        };
        Sight { watched_us: self.watched_for().as_micros() as u64, sees_calls }
    }

    /// What each thread did.
    pub fn threads(&mut self) -> Vec<ThreadTotals> {
        let mut threads = self.seen();
        let still = match self.ended {
            Some(_) => self.still.clone(),
            None => self.asleep_all_along(&threads).into_iter().map(|(totals, _)| totals).collect(),
        };
        threads.retain(|thread| still.iter().all(|still| still.thread != thread.thread));
        threads.extend(still);
        threads.sort_by_key(|thread| (thread.pid, thread.thread));
        self.loops.settle(&mut threads, self.sight());
        threads
    }
    /// What could not be seen, for what threads did.
    pub fn lost(&self, threads: &[ThreadTotals]) -> Lost {
        let (halves, unseen) = match &self.instrument {
            #[cfg(target_arch = "x86_64")]
            Instrument::Ebpf(kernel) => (kernel.halves(), kernel.unseen()),
            Instrument::Perf(perf) => (0, perf.unseen()),
            Instrument::Proc(_) => (0, 0),
        };
        Lost::new(threads, halves, unseen)
    }

    /// Whether no process is left to watch.
    pub fn is_over(&mut self) -> bool {
        if let Some(child) = &mut self.started {
            // Collected, so that it does not look alive.
            let _ = child.try_wait();
        }
        let pids = match &self.instrument {
            #[cfg(target_arch = "x86_64")]
            Instrument::Ebpf(kernel) => kernel.watched(),
            Instrument::Perf(perf) => perf.watched(),
            Instrument::Proc(sampler) => sampler.watched(),
        };
        !pids.into_iter().any(proc::is_there)
    }

    /// Whether its processes run because it started them.
    pub fn is_own(&self) -> bool {
        self.started.is_some()
    }
}

impl First {
    fn of_process(pid: u32) -> impl Iterator<Item = (u32, First)> {
        proc::threads(pid).into_iter().filter_map(move |thread| {
            let place = proc::place(pid, thread);
            Some((thread, First { pid, started: proc::started(&place)?, moment: proc::moment(&place)? }))
        })
    }

    /// Whether the same thread is in the same sleep.
    fn is_there(&self, thread: u32) -> bool {
        let place = proc::place(self.pid, thread);
        proc::moment(&place).as_ref() == Some(&self.moment) && proc::started(&place) == Some(self.started)
    }
}

impl Drop for Watch {
    /// Ends the command that was started for the watch.
    fn drop(&mut self) {
        let Some(child) = &mut self.started else { return };
        if matches!(child.try_wait(), Ok(None)) {
            let pid = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let asked = Instant::now();
            while matches!(child.try_wait(), Ok(None)) {
                if asked.elapsed() > END_PATIENCE {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// How long a command may take to end when asked.
const END_PATIENCE: Duration = Duration::from_secs(15);

fn open(level: Option<Level>) -> Result<(Instrument, Level, Option<String>), Error> {
    match level {
        Some(Level::Ebpf) => Ok((open_ebpf()?, Level::Ebpf, None)),
        Some(Level::Perf) => Ok((open_perf()?, Level::Perf, None)),
        Some(Level::Proc) => Ok((Instrument::Proc(sampler::Instrument::new()), Level::Proc, None)),
        None => {
            let first = match open_ebpf() {
                Ok(instrument) => return Ok((instrument, Level::Ebpf, None)),
                Err(error) => error.to_string(),
            };
            match open_perf() {
                Ok(instrument) => Ok((instrument, Level::Perf, Some(first))),
                Err(error) => {
                    let sampler = Instrument::Proc(sampler::Instrument::new());
                    Ok((sampler, Level::Proc, Some(format!("{first}; {error}"))))
                }
            }
        }
    }
}

fn open_perf() -> Result<Instrument, Error> {
    match perf::Instrument::new() {
        Ok(instrument) => Ok(Instrument::Perf(Box::new(instrument))),
        Err(error) => Err(Error::run(format!(
            "level 2 is refused: {error}; the capabilities CAP_PERFMON and CAP_SYSLOG, or sysctl kernel.perf_event_paranoid=1, would help"
        ))),
    }
}

#[cfg(target_arch = "x86_64")]
fn open_ebpf() -> Result<Instrument, Error> {
    if proc::in_container() {
        return Err(Error::run(
            "level 1 is not for containers, whose process numbers are not the kernel's: run it on the host, or with --pid=host",
        ));
    }
    match ebpf::Instrument::new() {
        Ok(instrument) => Ok(Instrument::Ebpf(Box::new(instrument))),
        Err(error) => {
            let help = match rustix::process::geteuid().is_root() {
                true => "",
                false => "; sudo, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYSLOG, would help",
            };
            Err(Error::run(format!("level 1 is refused: {error}{help}")))
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn open_ebpf() -> Result<Instrument, Error> {
    Err(Error::run("level 1 reads the registers of x86-64 processors, and this is another"))
}
