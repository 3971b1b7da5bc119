//! The supervisor process: a small process that starts others for the server. It was forked while the server had one thread, or is
//! a role of the first one.
//!
//! A server that has threads, or is confined, cannot fork. Some roles have a process for as long as the server runs: the
//! fork helper. Others get one for each request: a helper process, a log that is opened again. A request is a message of
//! the role's own with a socket, which is all that the new process has. So no request waits for another, and the
//! supervisor process never waits for a disk. It keeps the rights that it began with, but all it ever reads are requests.
//!
//! It leaves signals to the server, and ends after the server in any case. It kills processes that the server requested. The
//! others end by themselves, when their sockets close, and none is replaced any more. If the first supervisor process is killed, the server ends in order
//! ([`Supervisor::reap`]).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use flash_os::fork::{self, Forked};
use flash_os::{process, signals};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::child;
use crate::ipc::{self, Received};
use crate::role::Role;
use crate::supervisor::{Child, Supervisor};

/// The role that a message requests, with the socket that came along.
pub type RequestedRole<'a> = dyn Fn(&[u8], Rc<OwnedFd>) -> Option<Role<'a>> + 'a;

/// What a supervisor process starts.
pub struct SupervisorSetup<'a> {
    /// The process's name in `ps`, and in what is logged.
    pub title: &'a CStr,
    pub name: &'static str,
    /// What stays open there, beside the sockets of permanent roles.
    pub keep: &'a [BorrowedFd<'a>],
    /// Called there first: to become another user, and to find out what is wrong.
    pub prepare: &'a dyn Fn() -> io::Result<()>,
    /// Roles that have a process all the time.
    pub permanent: Vec<Role<'a>>,
    /// `None` for a request without a role.
    pub requested: &'a RequestedRole<'a>,
    /// Processes that were requested and run at a time. Beyond them, the socket of a request closes at once.
    pub requested_max: usize,
}

impl Default for SupervisorSetup<'_> {
    /// One that starts nothing.
    fn default() -> Self {
        Self {
            title: c"flash-supervise",
            name: "the supervisor",
            keep: &[],
            prepare: &|| Ok(()),
            permanent: Vec::new(),
            requested: &|_, _| None,
            requested_max: usize::MAX,
        }
    }
}

/// The supervisor process as the server sees it.
#[derive(Debug)]
pub struct SupervisorProcess {
    control: OwnedFd,
    child: Child,
}

const READY: &[u8] = b"ready";

impl SupervisorProcess {
    /// Forks the supervisor process.
    ///
    /// # Errors
    /// When the process has more than one thread, or as `prepare` says.
    pub fn start(setup: SupervisorSetup<'_>) -> io::Result<Self> {
        let name = setup.name;
        let (control, theirs) = ipc::pair()?;
        match fork::fork()? {
            Forked::Child => {
                // Nothing that was open before may stay open longer than in the server: listeners least of all.
                let sockets = setup.permanent.iter().filter_map(|role| role.socket.as_deref());
                let sockets = sockets.chain([&theirs]).map(AsFd::as_fd);
                fork::close_all_except(&sockets.chain(setup.keep.iter().copied()).collect::<Vec<_>>());
                child::run_and_exit(name, || supervise(theirs, setup))
            }
            Forked::Parent { child } => {
                drop((theirs, setup));
                let pid = Pid::from_raw(child).ok_or(io::ErrorKind::Other)?;
                let process = Self::at(control, Child { pid, name });
                let ready = process.wait_until_ready();
                if matches!(&ready, Err(error) if error.kind() == io::ErrorKind::NotConnected) {
                    // Nobody else waits for it.
                    let _ = waitpid(Some(pid), WaitOptions::empty());
                }
                ready.map(|()| process)
            }
        }
    }

    /// The supervisor process at the other end of a socket.
    #[must_use]
    pub fn at(control: OwnedFd, child: Child) -> Self {
        Self { control, child }
    }

    /// Waits until it takes requests.
    ///
    /// # Errors
    /// NotConnected if it has ended. Otherwise what is wrong.
    pub fn wait_until_ready(&self) -> io::Result<()> {
        match ipc::receive(&self.control, &mut ipc::buffer())? {
            Some(message) if *message.bytes == *READY => Ok(()),
            Some(message) => Err(io::Error::other(String::from_utf8_lossy(&message.bytes).into_owned())),
            None => {
                let why = format!("{} ended at once", self.child.name);
                Err(io::Error::new(io::ErrorKind::NotConnected, why))
            }
        }
    }

    /// The process, which the server cannot do without.
    #[must_use]
    pub fn child(&self) -> Child {
        self.child
    }

    /// Requests a process. Returns the socket to it.
    ///
    /// # Errors
    /// NotConnected if the supervisor process is gone. Others pass.
    pub fn request(&self, message: &[u8]) -> io::Result<OwnedFd> {
        let (ours, theirs) = ipc::pair()?;
        match ipc::send(&self.control, message, &[theirs.as_fd()]) {
            Ok(()) => Ok(ours),
            Err(Errno::PIPE | Errno::CONNRESET) => {
                Err(io::Error::new(io::ErrorKind::NotConnected, format!("{} has ended", self.child.name)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Is a supervisor process: serves requests until the server is gone.
///
/// # Errors
/// When the kernel has no room for what this needs.
pub fn supervise(control: OwnedFd, setup: SupervisorSetup<'_>) -> io::Result<()> {
    process::set_name(setup.title);
    // Those from the terminal are meant for the server.
    signals::block_all();
    // A program that another user runs must not reach the terminal of the start: what it puts there, a shell would read.
    process::leave_session()?;
    if let Err(error) = (setup.prepare)() {
        return Ok(ipc::send(&control, error.to_string().as_bytes(), &[])?);
    }
    let child_ends = signals::child_ends()?;
    let mut supervisor = Supervisor::subreaper();
    for role in setup.permanent {
        supervisor.start(role)?;
    }
    ipc::send(&control, READY, &[])?;
    let (mut control, mut buffer) = (Some(control), ipc::buffer());
    while control.is_some() || !supervisor.is_done() {
        let events: Vec<BorrowedFd<'_>> =
            [&child_ends].into_iter().chain(&control).map(AsFd::as_fd).collect();
        supervisor.wait(&events)?;
        // Before the look at children, so that none ends unnoticed. What it says is not needed.
        let _ = rustix::io::read(&child_ends, &mut buffer[..]);
        supervisor.reap();
        let Some(server) = &control else { continue };
        match ipc::try_receive(server, &mut buffer) {
            Ok(Received::Message(message)) => {
                let has_room = supervisor.requested() < setup.requested_max;
                let socket = message.descriptors.into_iter().next().filter(|_| has_room).map(Rc::new);
                let role = socket.and_then(|socket| (setup.requested)(&message.bytes, socket));
                // The server learns by the socket if there is no process.
                if let Some(Err(error)) = role.map(|role| supervisor.start(role)) {
                    child::log(format_args!("{}: {error}", setup.name));
                }
            }
            Ok(Received::Nothing) => {}
            // A helper may be waiting for a disk that does not answer, and learn of nothing.
            Ok(Received::Gone) | Err(_) => {
                supervisor.kill_requested();
                supervisor.replace_no_more();
                control = None;
            }
        }
    }
    Ok(())
}
