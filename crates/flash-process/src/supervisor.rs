//! The supervisor of the fork helper: forks it before the server grows, and again when it is killed.
//!
//! The supervisor is a small process, forked while the server has one thread and nothing that a program could inherit.
//! All it does is to fork the fork helper, and to wait for it. If the fork helper is killed, server processes see their
//! sockets close and register again over the rendezvous socket, which the supervisor keeps open for the next fork
//! helper. The supervisor ends when the fork helper has ended in order, after the last server process. If it ends
//! before, the server ends too: see [`ForkHelper::supervisor`].

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flash_os::fork::{self, Forked};
use flash_os::signals;
use flash_os::spawn::{self, Limit};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, getpid, getrlimit, setrlimit, wait, waitpid};

use crate::child;
use crate::fork_helper::{self, HelperMode};
use crate::ipc;
use crate::restart;
use crate::setup::Setup;

/// Where programs are started.
#[derive(Debug)]
pub struct ForkHelper {
    handle: HelperHandle,
}

#[derive(Debug)]
enum HelperHandle {
    /// A process of its own, at the other end of this socket.
    Process { rendezvous: OwnedFd, supervisor: Pid },
    /// In a thread of each server process.
    Thread { setup: Arc<Setup> },
}

/// In what it logs.
const NAME: &str = "the fork helper";
/// After a fork helper that lived shortly.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

impl ForkHelper {
    /// Forks the supervisor, which calls `prepare` first: to become another user, for instance.
    ///
    /// # Errors
    /// When the process has more than one thread, when `prepare` fails, or a folder of scripts cannot be opened.
    pub fn start(setup: Setup, prepare: &dyn Fn() -> io::Result<()>) -> io::Result<Self> {
        let (rendezvous, theirs) = ipc::pair()?;
        match fork::fork()? {
            Forked::Child => {
                // Nothing that was open before may stay open longer than in the server: listeners least of all.
                fork::close_all_except(&theirs);
                child::run_and_exit(NAME, || supervise(theirs, setup, prepare))
            }
            Forked::Parent { child: worker } => {
                drop(theirs);
                match ipc::receive(&rendezvous, &mut ipc::buffer())? {
                    Some(message) if *message.bytes == *READY => {
                        let supervisor = Pid::from_raw(worker).ok_or(io::ErrorKind::Other)?;
                        Ok(Self { handle: HelperHandle::Process { rendezvous, supervisor } })
                    }
                    Some(message) => {
                        Err(io::Error::other(String::from_utf8_lossy(&message.bytes).into_owned()))
                    }
                    None => {
                        // Nobody else waits for it.
                        let _ = waitpid(Pid::from_raw(worker), WaitOptions::empty());
                        Err(io::Error::other("the fork helper ended at once"))
                    }
                }
            }
        }
    }

    /// None apart: each server process forks for itself. For experiments, which show what that costs.
    ///
    /// # Errors
    /// When a folder of scripts cannot be opened.
    pub fn in_thread(setup: Setup) -> io::Result<Self> {
        fork_helper::open_scripts(&setup)?;
        Ok(Self { handle: HelperHandle::Thread { setup: Arc::new(setup) } })
    }

    /// The supervisor's process, a child of the one that started it. When it ends, the next fork helper that ends is
    /// not replaced.
    pub fn supervisor(&self) -> Option<Pid> {
        match self.handle {
            HelperHandle::Process { supervisor, .. } => Some(supervisor),
            HelperHandle::Thread { .. } => None,
        }
    }

    /// A rendezvous socket for this process.
    pub(crate) fn rendezvous(&self) -> io::Result<OwnedFd> {
        match &self.handle {
            HelperHandle::Process { rendezvous, .. } => rendezvous.try_clone(),
            HelperHandle::Thread { setup } => {
                let (rendezvous, theirs) = ipc::pair()?;
                let setup = Arc::clone(setup);
                thread::Builder::new().name("fork".into()).spawn(move || {
                    signals::block_all();
                    if let Err(error) = fork_helper::run(theirs, setup, HelperMode::Thread) {
                        child::log(NAME, format_args!("{error}"));
                    }
                })?;
                Ok(rendezvous)
            }
        }
    }
}

const READY: &[u8] = b"ready";

fn supervise(rendezvous: OwnedFd, mut setup: Setup, prepare: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
    // The kernel keeps 15 bytes of a name.
    rustix::thread::set_name(c"flash-supervise")?;
    // Those from the terminal are meant for the server.
    signals::block_all();
    rustix::process::setpgid(None, None)?;
    // Orphans of programs are reaped by the fork helper, and by the supervisor if the fork helper is killed.
    rustix::process::set_child_subreaper(Some(getpid()))?;
    if let Err(error) = prepare().and_then(|()| fork_helper::open_scripts(&setup).map(drop)) {
        ipc::send(&rendezvous, error.to_string().as_bytes(), &[])?;
        return Ok(());
    }
    raise_descriptor_limit(&mut setup);
    let setup = Arc::new(setup);
    ipc::send(&rendezvous, READY, &[])?;
    loop {
        let born = Instant::now();
        match fork::fork() {
            Ok(Forked::Child) => {
                rustix::thread::set_name(c"flash-fork")?;
                rustix::process::set_child_subreaper(Some(getpid()))?;
                return fork_helper::run(rendezvous, setup, HelperMode::Process);
            }
            Ok(Forked::Parent { child: worker }) => {
                if wait_for(worker) {
                    return Ok(());
                }
                child::log(NAME, format_args!("it was killed: replaced"));
            }
            Err(error) => child::log(NAME, format_args!("it cannot be forked: {error}")),
        }
        restart::pause(born, RESTART_PAUSE);
    }
}

/// Waits for the fork helper to end, and reaps orphans. Returns whether the fork helper ended as it should.
fn wait_for(helper: i32) -> bool {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_pid() == helper => return status.exit_status() == Some(0),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Many programs are many descriptors here, but each shall find the limit that it would find elsewhere: some close all
/// that there could be, and `select` knows 1,024.
fn raise_descriptor_limit(setup: &mut Setup) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current < maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok() {
        let [soft, hard] = [current, maximum].map(|limit| limit.unwrap_or(u64::MAX));
        setup.limits.push(Limit { resource: spawn::Resource::Descriptors, soft, hard });
    }
    // Refused or not, programs run.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}
