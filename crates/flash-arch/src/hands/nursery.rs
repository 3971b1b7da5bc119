//! The nursery: a small process, forked before there are threads, that forks helper processes for as long as the server
//! runs. A server that has threads, or is confined, cannot do that itself.
//!
//! Each wish is granted by a process of its own, so that none waits for another: a new helper, a log opened again, the
//! sockets' names removed at the end. The nursery keeps the rights that it began with, but all it ever reads are
//! wishes. It leaves signals to the server, has a process group of its own, and when the server is gone, however that
//! came, it takes all helpers with it. Should it be killed, the helpers go on until the server has ended in order, which
//! it then does ([`children`](crate::children)).

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use flash_disk::Disk;
use flash_observe::{Destination, RateLimit};
use flash_os::fork::{self, Forked};
use flash_os::signals;
use parking_lot::Mutex;
use rustix::net::SendFlags;
use rustix::process::{Pid, Signal};

use super::helper;
use super::post;
use super::process::Process;
use super::wish::Wish;
use crate::children::Child;

/// What is done in other processes for a server that cannot do it itself.
pub struct Chores<'a> {
    /// Opens the folder, in the process that will look after it.
    pub open: &'a dyn Fn() -> io::Result<Disk>,
    /// Confines a helper, once it has opened the folder.
    pub confine: &'a dyn Fn() -> io::Result<()>,
    /// The logs that may be opened again.
    pub logs: &'a [PathBuf],
    /// Names of the sockets that the server listens at.
    pub sockets: &'a [PathBuf],
}

/// How often trouble with helpers is said.
const SAY_EVERY: Duration = Duration::from_secs(5);

pub struct Nursery {
    control: OwnedFd,
    pid: Pid,
    started: AtomicUsize,
    is_gone: AtomicBool,
    /// Threads that have helpers do their jobs.
    hands: AtomicUsize,
    /// Helpers without a job, the one that had one last at the end.
    pub(super) idle: Mutex<Vec<Process>>,
    /// When it was last said that helpers were lost, and that none could be had.
    pub(super) lost: RateLimit,
    pub(super) refused: RateLimit,
}

impl Nursery {
    /// Forks the nursery.
    ///
    /// # Errors
    /// When the process has more than one thread, or the nursery cannot begin.
    pub fn start(chores: &Chores<'_>) -> io::Result<Self> {
        let (control, theirs) = post::pair()?;
        match fork::fork()? {
            Forked::Child => {
                // Nothing that was open before may stay open longer than in the server: listeners least of all.
                fork::close_all_except(&theirs);
                end_with(|| chores.raise(&theirs))
            }
            Forked::Parent { child: worker } => {
                drop(theirs);
                let nursery = Self::at(control, Pid::from_raw(worker).ok_or(ErrorKind::Other)?);
                // It is ready when it says so, and has said why not otherwise.
                match post::receive(&nursery.control, &mut post::buffer())? {
                    Some(_) => Ok(nursery),
                    None => Err(io::Error::other("the nursery of helper processes ended at once")),
                }
            }
        }
    }

    /// The nursery at the other end of a socket.
    pub(super) fn at(control: OwnedFd, pid: Pid) -> Self {
        Self {
            control,
            pid,
            started: AtomicUsize::new(0),
            is_gone: AtomicBool::new(false),
            hands: AtomicUsize::new(0),
            idle: Mutex::default(),
            lost: RateLimit::every(SAY_EVERY),
            refused: RateLimit::every(SAY_EVERY),
        }
    }

    /// The process, which the server cannot do without.
    pub fn child(&self) -> Child {
        Child { pid: self.pid, name: "the nursery of helper processes" }
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
        Ok(Process::new(number, self.wish(&Wish::Helper { number })?))
    }

    /// For the next job.
    pub(super) fn keep(&self, process: Process) {
        self.idle.lock().push(process);
    }

    pub(super) fn lend(&self) {
        self.hands.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread less asks for helpers. One that is not needed any more ends, unless it could not be replaced.
    pub(super) fn take_back(&self) {
        let hands = self.hands.fetch_sub(1, Ordering::Relaxed) - 1;
        let mut idle = self.idle.lock();
        if idle.len() > hands && !self.is_gone.load(Ordering::Relaxed) {
            idle.remove(0);
        }
    }

    /// Opens a log that this process may not open.
    ///
    /// # Errors
    /// As opening it fails.
    pub fn open_log(&self, path: &Path) -> io::Result<fs::File> {
        let socket = self.wish(&Wish::Log { path: path.to_owned() })?;
        let mut buffer = post::buffer();
        let Some(letter) = post::receive(&socket, &mut buffer)? else { return Err(ErrorKind::Other.into()) };
        let file = letter.descriptors.into_iter().next();
        file.map(Into::into).ok_or_else(|| io::Error::other(String::from_utf8_lossy(&letter.bytes)))
    }

    /// Removes the names of the server's sockets.
    pub(super) fn tidy_up(&self) {
        if let Ok(socket) = self.wish(&Wish::TidyUp) {
            // The end of the one who does it is its answer.
            let _ = post::receive(&socket, &mut post::buffer());
        }
    }

    /// The socket of the process that will grant it.
    fn wish(&self, wish: &Wish) -> io::Result<OwnedFd> {
        let (ours, theirs) = post::pair()?;
        match post::send(&self.control, &wish.to_bytes(), &[theirs.as_fd()], SendFlags::empty()) {
            Ok(()) => Ok(ours),
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                self.is_gone.store(true, Ordering::Relaxed);
                Err(io::Error::other("the nursery of helper processes is gone"))
            }
            Err(error) => Err(error),
        }
    }
}

impl Chores<'_> {
    /// The nursery's life.
    fn raise(&self, control: &OwnedFd) -> io::Result<()> {
        rustix::thread::set_name(c"flash-nursery")?;
        signals::ignore_termination();
        rustix::process::setpgid(None, None)?;
        // Opened once to see that it can be; every helper opens it for itself.
        drop((self.open)()?);
        post::send(control, b"ready", &[], SendFlags::empty())?;
        let mut buffer = post::buffer();
        while let Some(letter) = post::receive(control, &mut buffer)? {
            let Some(wish) = Wish::of_bytes(&letter.bytes) else { continue };
            let Some(socket) = letter.descriptors.into_iter().next() else { continue };
            match fork::fork() {
                Ok(Forked::Child) => {
                    fork::close_all_except(&socket);
                    end_with(|| self.grant(wish, &socket))
                }
                // Its socket closes here, so that the server hears of its end.
                Ok(Forked::Parent { .. }) => {}
                Err(error) => say(&error),
            }
        }
        // The server is gone. A helper may be waiting for a disk that does not answer, and hear of nothing.
        let _ = rustix::process::kill_current_process_group(Signal::KILL);
        Ok(())
    }

    fn grant(&self, wish: Wish, socket: &OwnedFd) -> io::Result<()> {
        match wish {
            Wish::Helper { number } => helper::run(number, socket, (self.open)()?, self.confine),
            Wish::Log { path } if self.logs.contains(&path) => match Destination::Path(path).open() {
                Ok(file) => post::send(socket, b"", &[file.as_fd()], SendFlags::empty()),
                Err(error) => post::send(socket, error.to_string().as_bytes(), &[], SendFlags::empty()),
            },
            Wish::Log { .. } => post::send(socket, b"it is none of the logs", &[], SendFlags::empty()),
            Wish::TidyUp => {
                for name in self.sockets {
                    // It may have gone already.
                    let _ = fs::remove_file(name);
                }
                Ok(())
            }
        }
    }
}

/// Ends this process with what is left of its life.
fn end_with(life: impl FnOnce() -> io::Result<()>) -> ! {
    process::exit(match catch_unwind(AssertUnwindSafe(life)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            say(&error);
            1
        }
        Err(_) => 1,
    })
}

fn say(error: &io::Error) {
    let _ = writeln!(io::stderr(), "flash: helper processes: {error}");
}
