//! Helper processes as the process that serves sees them: those without a job, and requests for more. Besides, requests
//! for what only a process with more rights can do: to open a log again, and to remove the sockets' names.
//!
//! The processes that fulfil requests are [roles](super::roles) of the supervisor process. If that is killed, helpers go on
//! until the server has ended in order, which it then does.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use flash_observe::RateLimit;
use flash_process::{SupervisorProcess, ipc};
use parking_lot::Mutex;

use super::fork_request::ForkRequest;
use super::process::Process;

/// How often trouble with helpers is logged.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// Helper processes, and what else the supervisor process does for a server that cannot do it itself.
pub struct HelperProcesses {
    supervisor: Arc<SupervisorProcess>,
    started: AtomicUsize,
    is_gone: AtomicBool,
    /// Threads that have helpers do their jobs.
    executors: AtomicUsize,
    /// Helpers without a job, the one that had one last at the end.
    pub(super) idle: Mutex<Vec<Process>>,
    /// When it was last said that helpers were lost, and that none could be had.
    pub(super) lost: RateLimit,
    pub(super) refused: RateLimit,
}

impl HelperProcesses {
    /// None yet: they are requested from that supervisor process, which must know their [roles](super::HelperRoles).
    #[must_use]
    pub fn new(supervisor: Arc<SupervisorProcess>) -> Self {
        Self {
            supervisor,
            started: AtomicUsize::new(0),
            is_gone: AtomicBool::new(false),
            executors: AtomicUsize::new(0),
            idle: Mutex::default(),
            lost: RateLimit::every(LOG_EVERY),
            refused: RateLimit::every(LOG_EVERY),
        }
    }

    /// A helper process for one job. Tells of those that turn out to have ended meanwhile.
    pub(super) fn process(&self, ended: impl Fn(&Process)) -> io::Result<Process> {
        loop {
            let Some(process) = self.idle.lock().pop() else { break };
            if process.is_waiting() {
                return Ok(process);
            }
            ended(&process);
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Process::new(number, self.request(&ForkRequest::Helper { number })?))
    }

    /// For the next job.
    pub(super) fn keep(&self, process: Process) {
        self.idle.lock().push(process);
    }

    pub(super) fn add_executor(&self) {
        self.executors.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread less asks for helpers. One that is not needed any more ends, unless it could not be replaced.
    pub(super) fn remove_executor(&self) {
        let executors = self.executors.fetch_sub(1, Ordering::Relaxed) - 1;
        let mut idle = self.idle.lock();
        if idle.len() > executors && !self.is_gone.load(Ordering::Relaxed) {
            idle.remove(0);
        }
    }

    /// Opens a log that this process may not open.
    ///
    /// # Errors
    /// As opening it fails.
    pub fn open_log(&self, path: &Path) -> io::Result<fs::File> {
        let socket = self.request(&ForkRequest::Log { path: path.to_owned() })?;
        let mut buffer = ipc::buffer();
        let Some(message) = ipc::receive(&socket, &mut buffer)? else { return Err(ErrorKind::Other.into()) };
        let file = message.descriptors.into_iter().next();
        file.map(Into::into).ok_or_else(|| io::Error::other(String::from_utf8_lossy(&message.bytes)))
    }

    /// Removes the names of the server's sockets.
    pub(super) fn tidy_up(&self) {
        if let Ok(socket) = self.request(&ForkRequest::TidyUp) {
            // The end of the one who does it is its answer.
            let _ = ipc::receive(&socket, &mut ipc::buffer());
        }
    }

    /// The socket of the process that will fulfil the request.
    fn request(&self, request: &ForkRequest) -> io::Result<OwnedFd> {
        let requested = self.supervisor.request(&request.to_bytes());
        if matches!(&requested, Err(error) if error.kind() == ErrorKind::NotConnected) {
            self.is_gone.store(true, Ordering::Relaxed);
        }
        requested
    }
}
