//! The helper processes of a server: the idle ones, and requests for more. It also requests what needs more rights:
//! to open a new root, to reopen a log, and to remove the sockets' names.
//!
//! The processes that fulfil requests are [roles](super::roles) of the supervisor process. If that process is killed,
//! the server ends in order, and helpers go on until then.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use flash_core::root::OpenRoot;
use flash_disk::{Opened, SiteRoot};
use flash_observe::RateLimit;
use flash_process::{SupervisorProcess, ipc};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::fork_request::ForkRequest;
use super::process::Process;

/// How often a failure of helpers is logged.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// The helper processes, and the socket to the supervisor process.
pub struct HelperProcesses {
    supervisor: Arc<SupervisorProcess>,
    started: AtomicUsize,
    is_gone: AtomicBool,
    /// The number of threads that use helper processes.
    executors: AtomicUsize,
    /// The newest root that helpers were requested for.
    generation: AtomicU64,
    /// Helpers without a job, the last used one at the end.
    pub(super) idle: Mutex<Vec<Process>>,
    /// Limits the lines about lost helpers, and about helpers that cannot start.
    pub(super) lost: RateLimit,
    pub(super) refused: RateLimit,
}

impl HelperProcesses {
    /// Starts without helpers. They are requested from this supervisor process, which must know their
    /// [roles](super::HelperRoles).
    #[must_use]
    pub fn new(supervisor: Arc<SupervisorProcess>) -> Self {
        Self {
            supervisor,
            started: AtomicUsize::new(0),
            is_gone: AtomicBool::new(false),
            executors: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            idle: Mutex::default(),
            lost: RateLimit::every(LOG_EVERY),
            refused: RateLimit::every(LOG_EVERY),
        }
    }

    /// A helper process for one job in this root. Calls `ended` for each idle one that has ended meanwhile.
    pub(super) fn process(&self, root: &SiteRoot, ended: impl Fn(&Process)) -> io::Result<Process> {
        let generation = root.generation();
        if self.generation.fetch_max(generation, Ordering::Relaxed) < generation {
            self.retire(generation);
        }
        let idle = || {
            let mut idle = self.idle.lock();
            let place = idle.iter().rposition(|process| process.generation() == generation)?;
            Some(idle.remove(place))
        };
        while let Some(process) = idle() {
            if process.is_waiting() {
                return Ok(process);
            }
            ended(&process);
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let socket = self.request(&ForkRequest::Helper { number })?;
        // The helper opens nothing before it has this.
        match ipc::send(&socket, b"", &[root.as_fd()]) {
            // It has ended already, which its clock will tell.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(Process::new(number, generation, socket)),
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps a helper for the next job, if it is of the newest root. A helper is confined to its own root.
    pub(super) fn keep(&self, process: Process) {
        if process.generation() >= self.generation.load(Ordering::Relaxed) {
            self.idle.lock().push(process);
        }
    }

    /// Ends the idle helpers of earlier roots.
    fn retire(&self, generation: u64) {
        let mut idle = self.idle.lock();
        let old: Vec<Process> = idle.extract_if(.., |process| process.generation() < generation).collect();
        drop((idle, old));
    }

    /// Opens the folder that DIR leads to now, which this process may not.
    ///
    /// # Errors
    /// As opening it fails.
    pub(super) fn open_root(&self) -> io::Result<Opened> {
        let socket = self.request(&ForkRequest::Root)?;
        let mut buffer = ipc::buffer();
        let Some(message) = ipc::receive(&socket, &mut buffer)? else { return Err(ErrorKind::Other.into()) };
        match (message.descriptors.into_iter().next(), message.bytes.as_ref().try_into()) {
            (Some(folder), _) => Ok((folder, OsStr::from_bytes(&message.bytes).into())),
            (None, Ok(code)) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code))),
            (None, Err(_)) => Err(ErrorKind::Other.into()),
        }
    }

    pub(super) fn add_executor(&self) {
        self.executors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one thread less. Ends a helper that is not needed any more, unless it could not be replaced.
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
    /// If it cannot be opened.
    pub fn open_log(&self, path: &Path) -> io::Result<fs::File> {
        let socket = self.request(&ForkRequest::Log { path: path.to_owned() })?;
        let mut buffer = ipc::buffer();
        let Some(message) = ipc::receive(&socket, &mut buffer)? else { return Err(ErrorKind::Other.into()) };
        let file = message.descriptors.into_iter().next();
        file.map(Into::into).ok_or_else(|| io::Error::other(String::from_utf8_lossy(&message.bytes)))
    }

    /// Has the configuration read that this process may not read. Returns what [`HelperRoles::configuration`] says.
    ///
    /// [`HelperRoles::configuration`]: crate::HelperRoles::configuration
    ///
    /// # Errors
    /// All that is wrong with it, in one line or more.
    pub fn read_configuration(&self) -> Result<Vec<u8>, String> {
        let socket = self.request(&ForkRequest::Configuration).map_err(|error| error.to_string())?;
        let mut buffer = ipc::buffer();
        let message = ipc::receive(&socket, &mut buffer).map_err(|error| error.to_string())?;
        match message.as_ref().and_then(|message| message.bytes.split_first()) {
            Some((b'+', said)) => Ok(said.to_vec()),
            Some((_, why)) => Err(String::from_utf8_lossy(why).into_owned()),
            None => Err("the process that reads the configuration has ended".into()),
        }
    }

    /// Removes the names of the server's sockets.
    pub(super) fn tidy_up(&self) {
        if let Ok(socket) = self.request(&ForkRequest::TidyUp) {
            // The process ends when it has done it.
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
