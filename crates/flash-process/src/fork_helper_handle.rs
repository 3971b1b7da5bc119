//! Where a server process has programs started: the fork helper as its role, and the socket at which server processes
//! register with it. What it does with their requests, [`fork_helper`] knows.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_os::spawn::{self, Limit};
use flash_os::{process, signals};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::child;
use crate::fork_helper::{self, HelperMode};
use crate::ipc;
use crate::role::{OnEnd, Role};
use crate::setup::Setup;
use crate::supervisor_process::{SupervisorProcess, SupervisorSetup};

/// Where programs are started.
#[derive(Debug)]
pub struct ForkHelper {
    handle: HelperHandle,
    /// A supervisor process that has no other role. Without its server it would replace the fork helper no more.
    _supervisor: Option<SupervisorProcess>,
}

#[derive(Debug)]
enum HelperHandle {
    /// A process of its own, at the other end of this socket.
    Process { rendezvous: OwnedFd },
    /// In a thread of each server process.
    Thread { setup: Arc<Setup> },
}

/// In what it logs.
const NAME: &str = "the fork helper";
/// After a fork helper that lived shortly.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

impl ForkHelper {
    /// The fork helper, and its role. If its process is killed, server processes see their sockets close. They register again
    /// over the rendezvous socket, which its supervisor keeps open for the next fork helper. It ends in order after the last
    /// server process. `prepare` is called first in each of its processes: to become another user.
    ///
    /// # Errors
    /// When the process cannot have two descriptors more.
    pub fn new<'a>(
        mut setup: Setup,
        prepare: impl Fn() -> io::Result<()> + 'a,
    ) -> io::Result<(Self, Role<'a>)> {
        let (rendezvous, theirs) = ipc::pair()?;
        let theirs = Rc::new(theirs);
        // A server that has raised its own since has said what programs are to find.
        if !setup.limits.iter().any(|limit| limit.resource == spawn::Resource::Descriptors) {
            setup.limits.extend(descriptor_limit());
        }
        let (socket, setup) = (Rc::clone(&theirs), Arc::new(setup));
        let main = move || {
            prepare()?;
            process::set_name(c"flash-fork");
            // Orphans of programs are reaped here, and by the supervisor if the fork helper is killed.
            process::adopt_orphans();
            raise_descriptor_limit();
            fork_helper::run(socket.try_clone()?, Arc::clone(&setup), HelperMode::Process)
        };
        let on_end = OnEnd::RestartUnlessDone { pause_max: RESTART_PAUSE };
        let role = Role { name: NAME.into(), on_end, socket: Some(theirs), main: Rc::new(main) };
        Ok((Self { handle: HelperHandle::Process { rendezvous }, _supervisor: None }, role))
    }

    /// Looks whether the fork helper could do what it is for.
    ///
    /// # Errors
    /// The first folder of scripts that cannot be opened.
    pub fn check(setup: &Setup) -> io::Result<()> {
        fork_helper::open_scripts(setup).map(drop)
    }

    /// Starts a fork helper under a supervisor process that has no other role, and calls `prepare` there first.
    ///
    /// # Errors
    /// When the process has more than one thread, when `prepare` fails, or a folder of scripts cannot be opened.
    pub fn start(setup: Setup, prepare: &dyn Fn() -> io::Result<()>) -> io::Result<Self> {
        let check = || prepare().and_then(|()| Self::check(&setup));
        let (helper, role) = Self::new(setup.clone(), || Ok(()))?;
        let supervisor = SupervisorProcess::start(SupervisorSetup {
            prepare: &check,
            permanent: vec![role],
            requested: &|_, _| None,
            ..SupervisorSetup::default()
        })?;
        Ok(Self { _supervisor: Some(supervisor), ..helper })
    }

    /// None apart: each server process forks for itself. For experiments, which show what that costs.
    ///
    /// # Errors
    /// When a folder of scripts cannot be opened.
    pub fn in_thread(setup: Setup) -> io::Result<Self> {
        Self::check(&setup)?;
        Ok(Self { handle: HelperHandle::Thread { setup: Arc::new(setup) }, _supervisor: None })
    }

    /// A rendezvous socket for this process.
    pub(crate) fn rendezvous(&self) -> io::Result<OwnedFd> {
        match &self.handle {
            HelperHandle::Process { rendezvous } => rendezvous.try_clone(),
            HelperHandle::Thread { setup } => {
                let (rendezvous, theirs) = ipc::pair()?;
                let setup = Arc::clone(setup);
                thread::Builder::new().name("fork".into()).spawn(move || {
                    signals::block_all();
                    if let Err(error) = fork_helper::run(theirs, setup, HelperMode::Thread) {
                        child::log(format_args!("{NAME}: {error}"));
                    }
                })?;
                Ok(rendezvous)
            }
        }
    }
}

/// The present limit, for programs. The server and the fork helper raise their own limits, because many programs need many
/// descriptors there. But each program gets the usual limit: some programs close every possible descriptor, and `select` knows
/// only 1,024.
pub fn descriptor_limit() -> Option<Limit> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let [soft, hard] = [current, maximum].map(|limit| limit.unwrap_or(u64::MAX));
    (current < maximum).then_some(Limit { resource: spawn::Resource::Descriptors, soft, hard })
}

/// Refused or not, programs run.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}
