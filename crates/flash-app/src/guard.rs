//! The fork helper as a process: born before the server grows, born again when it is killed.
//!
//! A small process, the guard, is forked while the server has one thread and nothing that a program could inherit. All
//! it does is to fork the helper, and to wait for it. Should the helper be killed, its servers see their sockets close,
//! and present themselves at the door again, which the guard keeps open: the next helper finds them there. The guard
//! ends when its helper has nothing left to do, after the last server has gone. Should it end before, the server ends too:
//! see [`ForkHelper::guard`].

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flash_os::fork::{self, Forked};
use flash_os::signals;
use flash_os::spawn::{self, Limit};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, getpid, getrlimit, setrlimit, wait, waitpid};

use crate::helper::{self, Place};
use crate::post::{self, Received};
use crate::setup::Setup;

/// Where programs are begun.
#[derive(Debug)]
pub struct ForkHelper {
    place: Whereabouts,
}

#[derive(Debug)]
enum Whereabouts {
    /// At the other end of this door.
    Apart { door: OwnedFd, guard: Pid },
    /// In a thread of each server process.
    Inside { setup: Arc<Setup> },
}

/// A helper that lived shorter than this is not replaced at once, or a fault at its start would fork without end.
const LIFE_MIN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);

impl ForkHelper {
    /// Forks the guard, which calls `prepare` first: to become another user, for instance.
    ///
    /// # Errors
    /// When the process has more than one thread, when `prepare` fails, or a folder of scripts cannot be opened.
    pub fn start(setup: Setup, prepare: &dyn Fn() -> io::Result<()>) -> io::Result<Self> {
        let (door, theirs) = post::pair()?;
        match fork::fork()? {
            Forked::Child => {
                // Nothing that was open before may stay open longer than in the server: listeners least of all.
                fork::close_all_except(&theirs);
                end_with(|| guard(theirs, setup, prepare))
            }
            Forked::Parent { child: worker } => {
                drop(theirs);
                let mut readable = [PollFd::new(&door, PollFlags::IN)];
                rustix::io::retry_on_intr(|| rustix::event::poll(&mut readable, None))?;
                match post::receive(&door, &mut post::buffer())? {
                    Received::Message { bytes: READY, .. } => {
                        let guard = Pid::from_raw(worker).ok_or(io::ErrorKind::Other)?;
                        Ok(Self { place: Whereabouts::Apart { door, guard } })
                    }
                    Received::Message { bytes, .. } => {
                        Err(io::Error::other(String::from_utf8_lossy(bytes).into_owned()))
                    }
                    _ => {
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
    pub fn inside(setup: Setup) -> io::Result<Self> {
        helper::open_scripts(&setup)?;
        Ok(Self { place: Whereabouts::Inside { setup: Arc::new(setup) } })
    }

    /// The guard's process, a child of the one that started it. When it ends, the next fork helper that ends is not replaced.
    pub fn guard(&self) -> Option<Pid> {
        match self.place {
            Whereabouts::Apart { guard, .. } => Some(guard),
            Whereabouts::Inside { .. } => None,
        }
    }

    /// A door of one's own to it.
    pub(crate) fn door(&self) -> io::Result<OwnedFd> {
        match &self.place {
            Whereabouts::Apart { door, .. } => door.try_clone(),
            Whereabouts::Inside { setup } => {
                let (door, theirs) = post::pair()?;
                let setup = Arc::clone(setup);
                thread::Builder::new().name("fork".into()).spawn(move || {
                    signals::block_all();
                    if let Err(error) = helper::run(theirs, setup, Place::Inside) {
                        say(format_args!("{error}"));
                    }
                })?;
                Ok(door)
            }
        }
    }
}

const READY: &[u8] = b"ready";

fn guard(door: OwnedFd, mut setup: Setup, prepare: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
    rustix::thread::set_name(c"flash-guard")?;
    // Those from the terminal are meant for the server.
    signals::block_all();
    rustix::process::setpgid(None, None)?;
    // Orphans of programs are the helper's to wait for, and the guard's should the helper be killed.
    rustix::process::set_child_subreaper(Some(getpid()))?;
    if let Err(error) = prepare().and_then(|()| helper::open_scripts(&setup).map(drop)) {
        post::send(&door, error.to_string().as_bytes(), &[])?;
        return Ok(());
    }
    widen(&mut setup);
    let setup = Arc::new(setup);
    post::send(&door, READY, &[])?;
    loop {
        let born = Instant::now();
        match fork::fork() {
            Ok(Forked::Child) => {
                rustix::thread::set_name(c"flash-fork")?;
                rustix::process::set_child_subreaper(Some(getpid()))?;
                return helper::run(door, setup, Place::Apart);
            }
            Ok(Forked::Parent { child: worker }) => {
                if wait_for(worker) {
                    return Ok(());
                }
                say(format_args!("it was killed: replaced"));
            }
            Err(error) => say(format_args!("it cannot be forked: {error}")),
        }
        if born.elapsed() < LIFE_MIN {
            thread::sleep(PAUSE);
        }
    }
}

/// Waits for the helper to end, and for orphans that came here. Tells whether it ended as it should.
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
fn widen(setup: &mut Setup) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current < maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok() {
        let [soft, hard] = [current, maximum].map(|limit| limit.unwrap_or(u64::MAX));
        setup.limits.push(Limit { resource: spawn::Resource::Descriptors, soft, hard });
    }
    // Refused or not, programs run.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// Ends this process with what is left of its life.
fn end_with(life: impl FnOnce() -> io::Result<()>) -> ! {
    process::exit(match catch_unwind(AssertUnwindSafe(life)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            say(format_args!("{error}"));
            1
        }
        Err(_) => 1,
    })
}

fn say(what: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "flash: the fork helper: {what}");
}
