//! Where helpers' jobs are executed: in the helper thread itself, or in a helper process that it asks.
//!
//! With processes (New-Flash's design) the thread only waits for a reply. A thread of another process walks the path, opens and
//! reads the file, and passes the open file back. If a process dies, its jobs are repeated, each in a process of its own.
//! [`helpers`](crate::helpers) decides which jobs there are, and which threads wait for them.

mod fork_request;
mod helper;
mod helper_site;
mod process;
mod processes;
mod roles;

use std::sync::Arc;

use flash_core::job::{Failure, Job, Outcome};
use flash_disk::{Device, Disk, SiteRoot, remote};
use flash_observe::ErrorLog;
use flash_os::cpu_clock::{CpuClock, CurrentClock};

pub use self::helper_site::SiteOpeners;
use self::process::{ProcessThread, Reply};
pub use self::processes::HelperProcesses;
pub use self::roles::HelperRoles;

/// Whether helpers' jobs are executed by their threads or by helper processes.
#[derive(Default)]
pub enum HelperKind {
    #[default]
    Threads,
    Processes(Arc<HelperProcesses>),
}

/// Executes the jobs of one helper thread.
pub(crate) struct JobExecutor {
    kind: ExecutorKind,
    /// The clock of the thread or process that does the present job.
    clock: Arc<CurrentClock>,
}

enum ExecutorKind {
    ThisThread,
    Process(Arc<HelperProcesses>),
}

/// If two processes have died during a job, no third gets it.
const TRIES_MAX: usize = 2;

impl HelperKind {
    /// Removes the names of shut sockets, if this process has lost the right to.
    pub fn tidy_up(&self) {
        match self {
            Self::Threads => {}
            Self::Processes(processes) => processes.tidy_up(),
        }
    }

    /// What opens the sites of the start.
    #[must_use]
    pub fn first_openers(&self) -> SiteOpeners {
        match self {
            Self::Threads => SiteOpeners::ThisProcess,
            Self::Processes(processes) => processes.first_openers(),
        }
    }

    /// Ends idle helpers of roots that no site has any more.
    pub(crate) fn retire_helpers(&self) {
        match self {
            Self::Threads => {}
            Self::Processes(processes) => processes.retire(),
        }
    }

    /// Makes an executor for the calling thread.
    pub(crate) fn executor(&self) -> JobExecutor {
        let kind = match self {
            Self::Threads => ExecutorKind::ThisThread,
            Self::Processes(processes) => {
                processes.add_executor();
                ExecutorKind::Process(Arc::clone(processes))
            }
        };
        JobExecutor { kind, clock: Arc::new(CurrentClock::new(CpuClock::of_this_thread())) }
    }
}

impl JobExecutor {
    /// Does a job, as [`Disk::help`] would. Logs lost processes to `error_log`.
    pub(crate) fn help(
        &self,
        disk: &Disk,
        error_log: &ErrorLog,
        job: &Job,
        device: Device,
    ) -> Option<Outcome> {
        let ExecutorKind::Process(processes) = &self.kind else { return disk.help(job, device) };
        let root = match disk.open_root(job, device) {
            Ok(root) => root,
            Err(outcome) => return outcome,
        };
        match job {
            // The spool is open in the server, and reading ahead hardly waits.
            Job::Spool(_) | Job::ReadAhead(_) => {
                self.clock.set(CpuClock::of_this_thread());
                disk.help(job, device)
            }
            // There is nothing to look at.
            Job::Find(_) | Job::Folder(_) if root.is_gone() => {
                self.clock.set(CpuClock::of_this_thread());
                disk.help(job, device)
            }
            // The server makes the listing, of parts of the folder that the process reads.
            Job::List(list) => disk.list_with(list, device, |part| {
                ask(processes, &self.clock, (disk, &disk.root_of(part)), error_log, part, device)
            }),
            _ => match ask(processes, &self.clock, (disk, &root), error_log, job, device) {
                Some(outcome) if remote::is_for_the_asker(job, &outcome) => {
                    self.clock.set(CpuClock::of_this_thread());
                    disk.help(job, device)
                }
                outcome => outcome,
            },
        }
    }

    pub(crate) fn clock(&self) -> &Arc<CurrentClock> {
        &self.clock
    }
}

impl Drop for JobExecutor {
    fn drop(&mut self) {
        if let ExecutorKind::Process(processes) = &self.kind {
            processes.remove_executor();
        }
    }
}

fn ask(
    processes: &HelperProcesses,
    clock: &CurrentClock,
    (disk, root): (&Disk, &SiteRoot),
    error_log: &ErrorLog,
    job: &Job,
    device: Device,
) -> Option<Outcome> {
    let log_lost = |what: std::fmt::Arguments<'_>| error_log.log_limited(&processes.lost, what);
    for tries in 0..TRIES_MAX {
        let ended = |idle: &ProcessThread| log_lost(format_args!("{idle} ended: replaced"));
        let mut thread = match processes.thread(root, device, tries > 0, ended) {
            Ok(thread) => thread,
            Err(error) => {
                error_log.log_limited(&processes.refused, format_args!("cannot start a helper: {error}"));
                return Some(job.failed(Failure::Overloaded).into());
            }
        };
        let Some(its_clock) = thread.clock() else {
            log_lost(format_args!("{thread} ended during a {}: replaced", job.name()));
            continue;
        };
        clock.set(its_clock);
        match thread.ask(disk, root, job, device) {
            Reply::Answered(outcome) => {
                processes.keep(thread);
                return outcome;
            }
            // Its next reply could be for this job, so it is never asked again.
            Reply::Lost(why) => log_lost(format_args!("{thread} {why} during a {}: replaced", job.name())),
        }
    }
    Some(job.failed(Failure::Broken).into())
}

#[cfg(test)]
mod tests;
