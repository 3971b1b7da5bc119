//! The helper processes of a server: the idle ones, and requests for more. It also requests what needs more rights:
//! to read the configuration again, to reopen a log, and to remove the sockets' names.
//!
//! The processes that fulfil requests are [roles](super::roles) of the supervisor process. If that process is killed,
//! the server ends in order, and helpers go on until then. After a reload the helpers are requested from a supervisor process
//! of the new configuration. If that one is killed, there are no new helpers until the next reload.

use std::any::Any;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use flash_core::root::OpenRoot;
use flash_disk::SiteRoot;
use flash_observe::RateLimit;
use flash_process::{Child, SupervisorProcess, ipc};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::fork_request::ForkRequest;
use super::helper_site::{HelperSite, SiteOpeners};
use super::process::Process;

/// How often a failure of helpers is logged.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// The helper processes, and the socket to the supervisor process.
pub struct HelperProcesses {
    /// The supervisor process of the start.
    supervisor: Arc<SupervisorProcess>,
    started: AtomicUsize,
    /// The supervisor process that should start helpers is gone.
    is_gone: AtomicBool,
    /// The number of threads that use helper processes.
    executors: AtomicUsize,
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
            idle: Mutex::default(),
            lost: RateLimit::every(LOG_EVERY),
            refused: RateLimit::every(LOG_EVERY),
        }
    }

    /// A helper process for one job in this root. Calls `ended` for each idle one that has ended meanwhile.
    pub(super) fn process(&self, root: &SiteRoot, ended: impl Fn(&Process)) -> io::Result<Process> {
        let generation = root.generation();
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
        self.retire();
        let opener: Arc<dyn Any + Send + Sync> = root.opener();
        let site = opener.downcast::<HelperSite>().map_err(|_| ErrorKind::Unsupported)?;
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let socket = site.request_helper(number);
        let is_gone = matches!(&socket, Err(error) if error.kind() == ErrorKind::NotConnected);
        self.is_gone.store(is_gone, Ordering::Relaxed);
        let socket = socket?;
        // The helper opens nothing before it has this.
        match ipc::send(&socket, b"", &[root.as_fd()]) {
            // It has ended already, which its clock will tell.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => {
                Ok(Process::new(number, root, socket, Arc::clone(&site.supervisor)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps a helper for the next job in its root, if its site still has that. Ends the one that has been idle longest if there are
    /// too many. A helper is confined to its own root.
    pub(super) fn keep(&self, process: Process) {
        if !process.is_current() {
            return;
        }
        let mut idle = self.idle.lock();
        idle.push(process);
        let excess = self.take_excess(&mut idle);
        drop((idle, excess));
    }

    /// Ends the idle helpers of earlier roots.
    pub(super) fn retire(&self) {
        let mut idle = self.idle.lock();
        let old: Vec<Process> = idle.extract_if(.., |process| !process.is_current()).collect();
        drop((idle, old));
    }

    /// Takes out as many idle helpers as there are more than threads that use them, unless they could not be replaced.
    fn take_excess(&self, idle: &mut Vec<Process>) -> Vec<Process> {
        let excess = match self.is_gone.load(Ordering::Relaxed) {
            true => 0,
            false => idle.len().saturating_sub(self.executors.load(Ordering::Relaxed)),
        };
        idle.drain(..excess).collect()
    }

    pub(super) fn add_executor(&self) {
        self.executors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one thread less, and ends a helper that is not needed any more.
    pub(super) fn remove_executor(&self) {
        self.executors.fetch_sub(1, Ordering::Relaxed);
        let mut idle = self.idle.lock();
        let excess = self.take_excess(&mut idle);
        drop((idle, excess));
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

    /// Has the configuration read that this process may not read. Returns what it says, and what opens its sites.
    ///
    /// # Errors
    /// All that is wrong with it, in one line or more.
    pub fn read_configuration(&self) -> Result<(Vec<u8>, SiteOpeners), String> {
        let socket = self.request(&ForkRequest::Configuration).map_err(|error| error.to_string())?;
        let mut buffer = ipc::buffer();
        let message = ipc::receive(&socket, &mut buffer).map_err(|error| error.to_string())?;
        match message.as_ref().and_then(|message| message.bytes.split_first()) {
            Some((b'+', said)) => {
                let said = said.to_vec();
                let child = Child { name: "the supervisor of this configuration", ..self.supervisor.child() };
                let supervisor = SupervisorProcess::at(socket, child);
                supervisor.wait_until_ready().map_err(|error| error.to_string())?;
                Ok((said, SiteOpeners::Supervisor(Arc::new(supervisor))))
            }
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

    /// What opens the sites of the start.
    #[must_use]
    pub fn first_openers(&self) -> SiteOpeners {
        SiteOpeners::Supervisor(Arc::clone(&self.supervisor))
    }

    /// The socket of the process that will fulfil the request.
    fn request(&self, request: &ForkRequest) -> io::Result<OwnedFd> {
        self.supervisor.request(&request.to_bytes())
    }
}
