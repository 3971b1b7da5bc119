//! A helper process as the process that serves sees it: a socket that is asked, and answers or ends.

use std::fmt;
use std::os::fd::OwnedFd;

use flash_core::job::{Failure, Job, Outcome};
use flash_disk::{Device, Disk};
use flash_os::cpu_clock::CpuClock;
use flash_process::ipc;
use rustix::io::Errno;

#[derive(Debug)]
pub(super) struct Process {
    number: usize,
    socket: OwnedFd,
    buffer: Box<[u8]>,
    /// Known once the process has said that it is ready.
    clock: Option<CpuClock>,
}

pub(super) enum Reply {
    Answered(Option<Outcome>),
    /// There is nothing to be expected of it any more.
    Lost(LossReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossReason {
    Ended,
    AnsweredNonsense,
}

impl Process {
    pub(super) fn new(number: usize, socket: OwnedFd) -> Self {
        Self { number, socket, buffer: ipc::buffer(), clock: None }
    }

    /// Whether it waits to be asked: it has neither ended nor said anything that nobody wanted to know.
    pub(super) fn is_waiting(&self) -> bool {
        ipc::is_idle(&self.socket)
    }

    /// The clock of its processor time; waits until the process is ready. `None` if it never will be.
    pub(super) fn clock(&mut self) -> Option<CpuClock> {
        if self.clock.is_none() {
            let message = ipc::receive(&self.socket, &mut self.buffer).ok()??;
            let pid = u32::from_ne_bytes(message.bytes.as_ref().try_into().ok()?);
            self.clock = Some(CpuClock::of_process(pid));
        }
        self.clock
    }

    /// Has it do a job, and waits as long as that takes.
    pub(super) fn ask(&mut self, disk: &Disk, job: &Job, device: Device) -> Reply {
        flash_disk::again_if(Option::is_none, || self.ask_once(disk, job, device))
            .unwrap_or_else(|| Reply::Answered(Some(job.failed(Failure::Overloaded).into())))
    }

    /// `None` when there is no memory or no descriptor left for it: a matter of time.
    fn ask_once(&mut self, disk: &Disk, job: &Job, device: Device) -> Option<Reply> {
        let question = disk.ask(job, device);
        match ipc::send(&self.socket, &question.bytes, question.descriptor.as_slice()) {
            Ok(()) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Some(Reply::Lost(LossReason::Ended)),
            Err(_) => return None,
        }
        Some(match ipc::receive(&self.socket, &mut self.buffer) {
            Ok(Some(message)) if message.is_incomplete => return None,
            Ok(Some(message)) => disk
                .understand(job, &message.bytes, message.descriptors)
                .map_or(Reply::Lost(LossReason::AnsweredNonsense), Reply::Answered),
            Ok(None) => Reply::Lost(LossReason::Ended),
            Err(_) => Reply::Lost(LossReason::AnsweredNonsense),
        })
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "helper-{}", self.number)
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "ended",
            Self::AnsweredNonsense => "answered nonsense",
        })
    }
}
