//! A helper process, as the server sees it: a socket for requests and replies.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use flash_core::job::{Failure, Job, Outcome};
use flash_core::root::{Generation, OpenRoot};
use flash_disk::{Device, Disk, SiteRoot};
use flash_os::cpu_clock::CpuClock;
use flash_process::{SupervisorProcess, ipc};
use rustix::io::Errno;

#[derive(Debug)]
pub(super) struct Process {
    number: usize,
    /// Of the root that it works in.
    generation: u64,
    /// The generation that its site has now.
    present: Weak<Generation>,
    /// Its supervisor process, which would end before it otherwise, and end it.
    _supervisor: Arc<SupervisorProcess>,
    socket: OwnedFd,
    buffer: Box<[u8]>,
    /// Set when the process has reported that it is ready.
    clock: Option<CpuClock>,
}

pub(super) enum Reply {
    Answered(Option<Outcome>),
    /// The process cannot be used any more.
    Lost(LossReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossReason {
    Ended,
    AnsweredNonsense,
}

impl Process {
    pub(super) fn new(
        number: usize,
        root: &SiteRoot,
        socket: OwnedFd,
        supervisor: Arc<SupervisorProcess>,
    ) -> Self {
        let (generation, present) = (root.generation(), root.present());
        let (buffer, clock) = (ipc::buffer(), None);
        Self { number, generation, present, _supervisor: supervisor, socket, buffer, clock }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether its root is the one that its site has now.
    pub(super) fn is_current(&self) -> bool {
        self.present.upgrade().is_some_and(|present| present.get() == self.generation)
    }

    /// Whether the process waits for a request: it has not ended, and has sent nothing unasked.
    pub(super) fn is_waiting(&self) -> bool {
        ipc::is_idle(&self.socket)
    }

    /// The clock of the process. Waits until the process is ready. `None` if it has ended before.
    pub(super) fn clock(&mut self) -> Option<CpuClock> {
        if self.clock.is_none() {
            let message = ipc::receive(&self.socket, &mut self.buffer).ok()??;
            let pid = u32::from_ne_bytes(message.bytes.as_ref().try_into().ok()?);
            self.clock = Some(CpuClock::of_process(pid));
        }
        self.clock
    }

    /// Sends a job for its root, and waits for the reply as long as it takes.
    pub(super) fn ask(&mut self, disk: &Disk, root: &SiteRoot, job: &Job, device: Device) -> Reply {
        flash_disk::again_if(Option::is_none, || self.ask_once(disk, root, job, device))
            .unwrap_or_else(|| Reply::Answered(Some(job.failed(Failure::Overloaded).into())))
    }

    /// `None` if no memory or descriptor is left. A retry may succeed.
    fn ask_once(&mut self, disk: &Disk, root: &SiteRoot, job: &Job, device: Device) -> Option<Reply> {
        let question = disk.ask(job, device);
        match ipc::send(&self.socket, &question.bytes, question.descriptor.as_slice()) {
            Ok(()) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Some(Reply::Lost(LossReason::Ended)),
            Err(_) => return None,
        }
        Some(match ipc::receive(&self.socket, &mut self.buffer) {
            Ok(Some(message)) if message.is_incomplete => return None,
            Ok(Some(message)) => disk
                .understand(root, job, &message.bytes, message.descriptors)
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
