//! The fork server: a small process, forked before there are threads, that forks helper processes for as long as the
//! server
//! runs. A server that has threads, or is confined, cannot do that itself.
//!
//! Each request is fulfilled by a process of its own, so that none waits for another: a new helper, a log opened again,
//! the
//! sockets' names removed at the end. The fork server keeps the rights that it began with, but all it ever reads are
//! requests. It leaves signals to the server, has a process group of its own, and when the server is gone, however that
//! came, it takes all helpers with it. Should it be killed, the helpers go on until the server has ended in order, which
//! it then does ([`children`](crate::children)).

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use flash_disk::Disk;
use flash_observe::{Destination, RateLimit};
use flash_os::fork::{self, Forked};
use flash_os::signals;
use flash_process::{child, ipc};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::fork_request::ForkRequest;
use super::helper;
use super::process::Process;
use crate::children::Child;

/// What is done in other processes for a server that cannot do it itself.
pub struct ForkServerSetup<'a> {
    /// Opens the folder, in the process that will look after it.
    pub open: &'a dyn Fn() -> io::Result<Disk>,
    /// Confines a helper, once it has opened the folder.
    pub confine: &'a dyn Fn() -> io::Result<()>,
    /// The logs that may be opened again.
    pub logs: &'a [PathBuf],
    /// Names of the sockets that the server listens at.
    pub sockets: &'a [PathBuf],
}

/// In what these processes log.
const NAME: &str = "helper processes";
/// How often trouble with helpers is logged.
const LOG_EVERY: Duration = Duration::from_secs(5);

pub struct ForkServer {
    control: OwnedFd,
    pid: Pid,
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

impl ForkServer {
    /// Forks the fork server.
    ///
    /// # Errors
    /// When the process has more than one thread, or the fork server cannot start.
    pub fn start(setup: &ForkServerSetup<'_>) -> io::Result<Self> {
        let (control, theirs) = ipc::pair()?;
        match fork::fork()? {
            Forked::Child => {
                // Nothing that was open before may stay open longer than in the server: listeners least of all.
                fork::close_all_except(&theirs);
                child::run_and_exit(NAME, || setup.run(&theirs))
            }
            Forked::Parent { child: worker } => {
                drop(theirs);
                let fork_server = Self::at(control, Pid::from_raw(worker).ok_or(ErrorKind::Other)?);
                // It is ready when it says so, and has said why not otherwise.
                match ipc::receive(&fork_server.control, &mut ipc::buffer())? {
                    Some(_) => Ok(fork_server),
                    None => Err(io::Error::other("the fork server of helper processes ended at once")),
                }
            }
        }
    }

    /// The fork server at the other end of a socket.
    pub(super) fn at(control: OwnedFd, pid: Pid) -> Self {
        Self {
            control,
            pid,
            started: AtomicUsize::new(0),
            is_gone: AtomicBool::new(false),
            executors: AtomicUsize::new(0),
            idle: Mutex::default(),
            lost: RateLimit::every(LOG_EVERY),
            refused: RateLimit::every(LOG_EVERY),
        }
    }

    /// The process, which the server cannot do without.
    pub fn child(&self) -> Child {
        Child { pid: self.pid, name: "the fork server of helper processes" }
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
        Ok(Process::new(number, self.fork_request(&ForkRequest::Helper { number })?))
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
        let socket = self.fork_request(&ForkRequest::Log { path: path.to_owned() })?;
        let mut buffer = ipc::buffer();
        let Some(message) = ipc::receive(&socket, &mut buffer)? else { return Err(ErrorKind::Other.into()) };
        let file = message.descriptors.into_iter().next();
        file.map(Into::into).ok_or_else(|| io::Error::other(String::from_utf8_lossy(&message.bytes)))
    }

    /// Removes the names of the server's sockets.
    pub(super) fn tidy_up(&self) {
        if let Ok(socket) = self.fork_request(&ForkRequest::TidyUp) {
            // The end of the one who does it is its answer.
            let _ = ipc::receive(&socket, &mut ipc::buffer());
        }
    }

    /// The socket of the process that will fulfil the request.
    fn fork_request(&self, fork_request: &ForkRequest) -> io::Result<OwnedFd> {
        let (ours, theirs) = ipc::pair()?;
        match ipc::send(&self.control, &fork_request.to_bytes(), &[theirs.as_fd()]) {
            Ok(()) => Ok(ours),
            Err(Errno::PIPE | Errno::CONNRESET) => {
                self.is_gone.store(true, Ordering::Relaxed);
                Err(io::Error::other("the fork server of helper processes is gone"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl ForkServerSetup<'_> {
    /// Serves requests until the server is gone.
    fn run(&self, control: &OwnedFd) -> io::Result<()> {
        rustix::thread::set_name(c"flash-forksrv")?;
        signals::ignore_termination();
        rustix::process::setpgid(None, None)?;
        // Opened once to see that it can be; every helper opens it for itself.
        drop((self.open)()?);
        ipc::send(control, b"ready", &[])?;
        let mut buffer = ipc::buffer();
        while let Some(message) = ipc::receive(control, &mut buffer)? {
            let Some(fork_request) = ForkRequest::of_bytes(&message.bytes) else { continue };
            let Some(socket) = message.descriptors.into_iter().next() else { continue };
            match fork::fork() {
                Ok(Forked::Child) => {
                    fork::close_all_except(&socket);
                    child::run_and_exit(NAME, || self.fulfil(fork_request, &socket))
                }
                // Its socket closes here, so that the server hears of its end.
                Ok(Forked::Parent { .. }) => {}
                Err(error) => child::log(NAME, format_args!("{error}")),
            }
        }
        // The server is gone. A helper may be waiting for a disk that does not answer, and hear of nothing.
        let _ = rustix::process::kill_current_process_group(Signal::KILL);
        Ok(())
    }

    fn fulfil(&self, fork_request: ForkRequest, socket: &OwnedFd) -> io::Result<()> {
        match fork_request {
            ForkRequest::Helper { number } => helper::run(number, socket, (self.open)()?, self.confine),
            ForkRequest::Log { path } if self.logs.contains(&path) => match Destination::Path(path).open() {
                Ok(file) => Ok(ipc::send(socket, b"", &[file.as_fd()])?),
                Err(error) => Ok(ipc::send(socket, error.to_string().as_bytes(), &[])?),
            },
            ForkRequest::Log { .. } => Ok(ipc::send(socket, b"it is none of the logs", &[])?),
            ForkRequest::TidyUp => {
                for name in self.sockets {
                    // It may have gone already.
                    let _ = fs::remove_file(name);
                }
                Ok(())
            }
        }
    }
}
