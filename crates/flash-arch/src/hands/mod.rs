//! Hands: what a helper thread does its jobs with. Its own, or those of a helper process that it asks.
//!
//! With processes (New-Flash's design) the thread only waits for an answer: the walk, the opening and the reading happen
//! in another process, which passes the open file back. When a process dies of a job, the job is done once more by
//! another. Which jobs there are, and who waits for them, is the business of [`helpers`](crate::helpers).

mod helper;
mod nursery;
mod post;
mod process;
mod wish;

use std::sync::Arc;

use flash_core::job::{Failure, Job, Outcome};
use flash_disk::Device;
use flash_os::cpu_clock::{CpuClock, CurrentClock};

pub use self::nursery::{Chores, Nursery};
use self::process::Asked;
use crate::shared::Shared;

/// Whose hands helpers have.
#[derive(Default)]
pub enum Hands {
    #[default]
    Threads,
    Processes(Arc<Nursery>),
}

/// What one helper thread works with.
pub(crate) struct Hand {
    kind: Kind,
    /// The processor time of the thread or process that does the present job.
    clock: Arc<CurrentClock>,
}

enum Kind {
    Own,
    Lent(Arc<Nursery>),
}

/// A job that was the end of two processes is not given to a third.
const TRIES_MAX: usize = 2;

impl Hands {
    /// Removes the names of sockets that are shut, where this process has lost the right to.
    pub(crate) fn tidy_up(&self) {
        match self {
            Self::Threads => {}
            Self::Processes(nursery) => nursery.tidy_up(),
        }
    }

    /// For the calling thread, which is about to begin.
    pub(crate) fn hand(&self) -> Hand {
        let kind = match self {
            Self::Threads => Kind::Own,
            Self::Processes(nursery) => {
                nursery.lend();
                Kind::Lent(Arc::clone(nursery))
            }
        };
        Hand { kind, clock: Arc::new(CurrentClock::new(CpuClock::of_this_thread())) }
    }
}

impl Hand {
    /// Does a job, as [`Disk::help`](flash_disk::Disk::help) would.
    pub(crate) fn help(&self, shared: &Shared, job: &Job, device: Device) -> Option<Outcome> {
        let outcome = match (&self.kind, job) {
            (Kind::Own, _) => shared.disk.help(job, device),
            // The file is open in the server, which needs no rights to it.
            (Kind::Lent(_), Job::Spool(_)) => {
                self.clock.set(CpuClock::of_this_thread());
                shared.disk.help(job, device)
            }
            // The listing is made here, of parts of the folder that the process reads.
            (Kind::Lent(nursery), Job::List(list)) => {
                shared.disk.list_with(list, device, |part| ask(nursery, &self.clock, shared, part, device))
            }
            (Kind::Lent(nursery), _) => ask(nursery, &self.clock, shared, job, device),
        };
        if let Some(outcome) = &outcome {
            shared.note(job, &outcome.done);
        }
        outcome
    }

    pub(crate) fn clock(&self) -> &Arc<CurrentClock> {
        &self.clock
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        if let Kind::Lent(nursery) = &self.kind {
            nursery.take_back();
        }
    }
}

fn ask(
    nursery: &Nursery,
    clock: &CurrentClock,
    shared: &Shared,
    job: &Job,
    device: Device,
) -> Option<Outcome> {
    let say_lost = |what: std::fmt::Arguments<'_>| shared.error_log.log_limited(&nursery.lost, what);
    for _ in 0..TRIES_MAX {
        let mut process = match nursery.process(|idle| say_lost(format_args!("{idle} ended: replaced"))) {
            Ok(process) => process,
            Err(error) => {
                shared
                    .error_log
                    .log_limited(&nursery.refused, format_args!("cannot start a helper: {error}"));
                return Some(job.failed(Failure::Busy).into());
            }
        };
        let Some(its_clock) = process.clock() else {
            say_lost(format_args!("{process} ended during a {}: replaced", job.name()));
            continue;
        };
        clock.set(its_clock);
        match process.ask(&shared.disk, job, device) {
            Asked::Answered(outcome) => {
                nursery.keep(process);
                return outcome;
            }
            // Nobody knows what it would say next, so it is never asked again.
            Asked::Lost(why) => say_lost(format_args!("{process} {why} during a {}: replaced", job.name())),
        }
    }
    Some(job.failed(Failure::Broken).into())
}

#[cfg(test)]
mod tests;
