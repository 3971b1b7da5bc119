//! A helper process, as the server sees it, and each of its threads: a socket for requests and replies.
//!
//! A process works in one root, for one device. All its threads end with it, and each job of theirs is lost.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use flash_core::job::{Failure, Job, Outcome};
use flash_core::site::root::{Generation, OpenRoot};
use flash_disk::{Device, Disk, SiteRoot};
use flash_os::cpu_clock::CpuClock;
use flash_process::{SupervisorProcess, ipc};
use rustix::io::Errno;

/// The jobs that a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Purpose {
    /// Of the root that it works in.
    generation: u64,
    /// The number of the device. Its processor time tells whether that device answers, so no process has two devices.
    device: u32,
}

#[derive(Debug)]
pub(super) struct Process {
    number: usize,
    purpose: Purpose,
    /// The generation that its site has now.
    present: Weak<Generation>,
    /// Its supervisor process, which would end before it otherwise, and end it.
    _supervisor: Arc<SupervisorProcess>,
    /// Takes the root, and then a socket for each thread. No send waits, because other jobs wait for it. The process ends when
    /// this is closed.
    control: OwnedFd,
    /// How many of its threads the server uses.
    threads: AtomicUsize,
    /// It has ended, or has answered nonsense. It gets no further job.
    is_lost: AtomicBool,
    /// It has one job, and gets no other meanwhile: that job was lost with another process.
    is_alone: AtomicBool,
}

/// A thread of a helper process.
#[derive(Debug)]
pub(super) struct ProcessThread {
    process: Arc<Process>,
    socket: OwnedFd,
    buffer: Box<[u8]>,
    /// Set when the thread has reported that it is ready.
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

/// The threads of a process: as many jobs are repeated if it ends. A process costs half a mebibyte, and a thread a tenth of that.
pub(super) const THREADS_MAX: usize = 16;

impl Purpose {
    pub(super) fn new(root: &SiteRoot, device: Device) -> Self {
        Self { generation: root.generation(), device: device.number }
    }
}

impl Process {
    /// A process that has just been requested. It opens nothing before it has its root.
    pub(super) fn new(
        number: usize,
        (root, device): (&SiteRoot, Device),
        control: OwnedFd,
        supervisor: Arc<SupervisorProcess>,
    ) -> io::Result<Self> {
        let process = Self {
            number,
            purpose: Purpose::new(root, device),
            present: root.present(),
            _supervisor: supervisor,
            control,
            threads: AtomicUsize::new(0),
            is_lost: AtomicBool::new(false),
            is_alone: AtomicBool::new(false),
        };
        match ipc::try_send(&process.control, b"", &[root.as_fd()]) {
            // It has ended already, which its thread will tell.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(process),
            Err(error) => Err(error.into()),
        }
    }

    /// Starts another thread. If the process has ended, it is lost, which the thread's clock tells too.
    pub(super) fn thread(self: &Arc<Self>) -> io::Result<ProcessThread> {
        let (socket, theirs) = ipc::pair()?;
        match ipc::try_send(&self.control, b"", &[theirs.as_fd()]) {
            Ok(()) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => self.is_lost.store(true, Ordering::Relaxed),
            Err(error) => return Err(error.into()),
        }
        self.threads.fetch_add(1, Ordering::Relaxed);
        Ok(ProcessThread { process: Arc::clone(self), socket, buffer: ipc::buffer(), clock: None })
    }

    pub(super) fn purpose(&self) -> Purpose {
        self.purpose
    }

    pub(super) fn is_for(&self, purpose: Purpose) -> bool {
        self.purpose == purpose
    }

    /// Whether its root is the one that its site has now, and it may have further jobs.
    pub(super) fn is_current(&self) -> bool {
        let is_present = |present: Arc<Generation>| present.get() == self.purpose.generation;
        !self.is_lost() && self.present.upgrade().is_some_and(is_present)
    }

    /// Whether it takes a job more.
    pub(super) fn has_room(&self) -> bool {
        !self.is_lost() && !self.is_alone() && self.threads.load(Ordering::Relaxed) < THREADS_MAX
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    pub(super) fn set_alone(&self, is_alone: bool) {
        self.is_alone.store(is_alone, Ordering::Relaxed);
    }

    pub(super) fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Relaxed)
    }
}

impl ProcessThread {
    pub(super) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Whether the thread waits for a request: it has not ended, and has sent nothing unasked.
    pub(super) fn is_waiting(&self) -> bool {
        let is_waiting = ipc::is_idle(&self.socket);
        if !is_waiting {
            self.lose();
        }
        is_waiting
    }

    /// The clock of the process. Waits until the thread is ready. `None` if it has ended before.
    pub(super) fn clock(&mut self) -> Option<CpuClock> {
        if self.clock.is_none() {
            self.clock = self.receive_clock();
        }
        if self.clock.is_none() {
            self.lose();
        }
        self.clock
    }

    fn receive_clock(&mut self) -> Option<CpuClock> {
        let message = ipc::receive(&self.socket, &mut self.buffer).ok()??;
        let pid = u32::from_ne_bytes(message.bytes.as_ref().try_into().ok()?);
        Some(CpuClock::of_process(pid))
    }

    /// Sends a job for its root, and waits for the reply as long as it takes.
    pub(super) fn ask(&mut self, disk: &Disk, root: &SiteRoot, job: &Job, device: Device) -> Reply {
        let reply = flash_disk::again_if(Option::is_none, || self.ask_once(disk, root, job, device))
            .unwrap_or_else(|| Reply::Answered(Some(job.failed(Failure::Overloaded).into())));
        if matches!(reply, Reply::Lost(_)) {
            self.lose();
        }
        reply
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

    fn lose(&self) {
        self.process.is_lost.store(true, Ordering::Relaxed);
    }
}

impl Drop for ProcessThread {
    fn drop(&mut self) {
        self.process.threads.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Display for ProcessThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "helper-{}", self.process.number)
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
