//! The helper processes of a server: their idle threads, and requests for more. It also requests what needs more rights:
//! to read the configuration again, to reopen a log, and to remove the sockets' names.
//!
//! The processes that fulfil requests are [roles](super::roles) of the supervisor process. If that process is killed,
//! the server ends in order, and helpers go on until then. After a reload the helpers are requested from a supervisor process
//! of the new configuration. If that one is killed, there are no new helpers until the next reload.

use std::any::Any;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use flash_disk::{Device, SiteRoot};
use flash_observe::RateLimit;
use flash_process::{Child, SupervisorProcess, ipc};
use parking_lot::Mutex;

use super::fork_request::ForkRequest;
use super::helper_site::{HelperSite, SiteOpeners};
use super::process::{Process, ProcessThread, Purpose};

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
    pub(super) helpers: Mutex<Helpers>,
    /// Limits the lines about lost helpers, and about helpers that cannot start.
    pub(super) lost: RateLimit,
    pub(super) refused: RateLimit,
}

#[derive(Default)]
pub(super) struct Helpers {
    /// Threads of processes without a job, the last used one at the end.
    pub(super) idle: Vec<ProcessThread>,
    /// Each lives as long as the server uses one of its threads.
    pub(super) processes: Vec<Weak<Process>>,
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
            helpers: Mutex::default(),
            lost: RateLimit::every(LOG_EVERY),
            refused: RateLimit::every(LOG_EVERY),
        }
    }

    /// A thread of a helper process for one job in this root. Calls `ended` for each idle one that has ended meanwhile.
    ///
    /// A job that was lost with its process gets another one `alone`: if it ends that one too, it takes no other job along.
    pub(super) fn thread(
        &self,
        root: &SiteRoot,
        device: Device,
        alone: bool,
        ended: impl Fn(&ProcessThread),
    ) -> io::Result<ProcessThread> {
        let purpose = Purpose::new(root, device);
        let alone = alone && !self.is_gone.load(Ordering::Relaxed);
        while let Some(thread) = (!alone).then(|| self.idle(purpose)).flatten() {
            if thread.is_waiting() {
                return Ok(thread);
            }
            ended(&thread);
        }
        self.retire();
        // Two that look at once would start two processes.
        let mut helpers = self.helpers.lock();
        while let Some(process) = helpers.with_room(purpose).filter(|_| !alone) {
            let thread = process.thread()?;
            // A process that has ended has no room any more.
            if !process.is_lost() {
                return Ok(thread);
            }
        }
        let process = Arc::new(self.start(root, device)?);
        process.set_alone(alone);
        helpers.processes.retain(|process| process.strong_count() > 0);
        helpers.processes.push(Arc::downgrade(&process));
        process.thread()
    }

    fn idle(&self, purpose: Purpose) -> Option<ProcessThread> {
        let mut helpers = self.helpers.lock();
        let is_usable = |process: &Process| process.is_for(purpose) && !process.is_lost();
        let place = helpers.idle.iter().rposition(|thread| is_usable(thread.process()))?;
        Some(helpers.idle.remove(place))
    }

    fn start(&self, root: &SiteRoot, device: Device) -> io::Result<Process> {
        let opener: Arc<dyn Any + Send + Sync> = root.opener();
        let site = opener.downcast::<HelperSite>().map_err(|_| ErrorKind::Unsupported)?;
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let control = site.request_helper(number);
        let is_gone = matches!(&control, Err(error) if error.kind() == ErrorKind::NotConnected);
        self.is_gone.store(is_gone, Ordering::Relaxed);
        Process::new(number, (root, device), control?, Arc::clone(&site.supervisor))
    }

    /// Keeps a thread for the next job in its root, if its site still has that. Ends the one that has been idle longest if there are
    /// too many. A process that had one job alone is kept only if no other has room.
    pub(super) fn keep(&self, thread: ProcessThread) {
        if !thread.process().is_current() {
            return;
        }
        let mut helpers = self.helpers.lock();
        if thread.process().is_alone() {
            if helpers.with_room(thread.process().purpose()).is_some() {
                return drop((helpers, thread));
            }
            thread.process().set_alone(false);
        }
        helpers.idle.push(thread);
        let excess = self.take_excess(&mut helpers.idle);
        drop((helpers, excess));
    }

    /// Ends the idle threads of earlier roots, and of processes that are lost.
    pub(super) fn retire(&self) {
        let mut helpers = self.helpers.lock();
        let old: Vec<_> = helpers.idle.extract_if(.., |thread| !thread.process().is_current()).collect();
        drop((helpers, old));
    }

    /// Takes out as many idle threads as there are more than executors, unless they could not be replaced.
    fn take_excess(&self, idle: &mut Vec<ProcessThread>) -> Vec<ProcessThread> {
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
        let mut helpers = self.helpers.lock();
        let excess = self.take_excess(&mut helpers.idle);
        drop((helpers, excess));
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

impl Helpers {
    /// A process that takes a job more.
    fn with_room(&self, purpose: Purpose) -> Option<Arc<Process>> {
        let mut processes = self.processes.iter().filter_map(Weak::upgrade);
        processes.find(|process| process.is_for(purpose) && process.has_room())
    }
}
