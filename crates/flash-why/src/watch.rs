//! A watch: the processes of a target, seen by the best level that rights allow.

use std::collections::BTreeSet;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::block::{Block, ThreadTotals};
#[cfg(has_bpf)]
use crate::ebpf;
use crate::error::Error;
use crate::level::Level;
use crate::lost::Lost;
use crate::perf;
use crate::proc;
use crate::sampler;
use crate::target::Target;

/// The priority of the thread that reads.
const READER_NICE: i32 = -10;

/// A watch that has begun.
pub struct Watch {
    instrument: Instrument,
    level: Level,
    note: Option<String>,
    pids: Vec<u32>,
    started: Option<Child>,
    begun: Instant,
}

enum Instrument {
    #[cfg(has_bpf)]
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
                #[cfg(has_bpf)]
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
        Ok(Watch { instrument, level, note, pids: found.pids, started: found.started, begun: Instant::now() })
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
        self.pids.len()
    }

    /// How long it has watched.
    pub fn watched_for(&self) -> Duration {
        self.begun.elapsed()
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
        match &mut self.instrument {
            #[cfg(has_bpf)]
            Instrument::Ebpf(kernel) => kernel.poll(found),
            Instrument::Perf(perf) => {
                perf.poll(found);
                Ok(())
            }
            Instrument::Proc(sampler) => {
                sampler.poll(found);
                Ok(())
            }
        }
    }

    /// Gives the blocks that still last. The watch is over then.
    pub fn unfinished(&mut self, found: &mut dyn FnMut(Block)) {
        match &mut self.instrument {
            #[cfg(has_bpf)]
            Instrument::Ebpf(kernel) => kernel.unfinished(found),
            Instrument::Perf(perf) => perf.unfinished(found),
            Instrument::Proc(sampler) => sampler.unfinished(found),
        }
        if self.level != Level::Proc {
            self.asleep_all_along(found);
        }
    }

    /// Threads that slept before the watch began and have not moved since: a switch of theirs was never seen.
    fn asleep_all_along(&mut self, found: &mut dyn FnMut(Block)) {
        let threads = self.threads();
        let moved = threads.iter().filter(|thread| thread.waits + thread.blocks > 0);
        let moved: BTreeSet<u32> = moved.map(|thread| thread.thread).collect();
        for &pid in &self.pids {
            for thread in proc::threads(pid).into_iter().filter(|thread| !moved.contains(thread)) {
                if let Some(block) = sampler::Instrument::asleep_now(pid, thread) {
                    let us = self.begun.elapsed().as_micros() as u64;
                    found(Block { us, unfinished: true, ..block });
                }
            }
        }
    }

    /// What each thread did.
    pub fn threads(&mut self) -> Vec<ThreadTotals> {
        match &mut self.instrument {
            #[cfg(has_bpf)]
            Instrument::Ebpf(kernel) => kernel.threads(),
            Instrument::Perf(perf) => perf.threads(),
            Instrument::Proc(sampler) => sampler.threads(),
        }
    }

    /// What could not be seen, for what threads did.
    pub fn lost(&self, threads: &[ThreadTotals]) -> Lost {
        let (halves, unseen) = match &self.instrument {
            #[cfg(has_bpf)]
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
            #[cfg(has_bpf)]
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

#[cfg(has_bpf)]
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

#[cfg(not(has_bpf))]
fn open_ebpf() -> Result<Instrument, Error> {
    Err(Error::run(
        "level 1 is not built in: a build with clang installed would have it (apt-get install clang)",
    ))
}
