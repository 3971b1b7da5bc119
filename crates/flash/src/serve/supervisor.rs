//! The supervisor process of a server, and its roles: the fork helper for programs, and what helper processes need.
//!
//! It is forked while the server has one thread, before it listens, and becomes the server's user first. A server that needs
//! none of its roles has no supervisor process.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use flash_arch::HelperRoles;
use flash_disk::{Disk, Opened};
use flash_process::{ForkHelper, Role, Setup, SupervisorProcess, SupervisorSetup};

use super::dir::Dir;
use super::inherited::Inherited;
use super::reader::Reader;
use super::{admin, logs, privileges};
use crate::failure::{Failure, cannot};
use crate::flags::{self, Helpers, Listen, Place, Spawn};

/// What was started before the server listens.
#[derive(Default)]
pub(super) struct Started {
    pub(super) process: Option<Arc<SupervisorProcess>>,
    pub(super) fork_helper: Option<ForkHelper>,
}

/// Finds out, as the server's user, whether all roles can be played.
pub(super) fn start(
    flags: &flags::Serve,
    dir: &Dir,
    reader: Reader,
    setup: Option<&Setup>,
    sockets: &[PathBuf],
    open: &dyn Fn(Opened) -> io::Result<Disk>,
) -> Result<Started, Failure> {
    let cannot_fork = |error: io::Error| Failure::Run(format!("cannot start the fork helper: {error}"));
    let (fork_helper, permanent) = match (setup, flags.experiments.spawn) {
        (None, _) => (None, Vec::new()),
        (Some(setup), Spawn::Server) => {
            (Some(ForkHelper::in_thread(setup.clone()).map_err(cannot_fork)?), Vec::new())
        }
        (Some(setup), Spawn::Helper) => {
            let (helper, role) = ForkHelper::new(setup.clone()).map_err(cannot_fork)?;
            (Some(helper), vec![role])
        }
    };
    let has_helpers = flags.helpers == Helpers::Process;
    if permanent.is_empty() && !has_helpers {
        return Ok(Started { process: None, fork_helper });
    }
    let prepare = || {
        if let Some(name) = &flags.user {
            privileges::become_user(name).map_err(io::Error::other)?;
        }
        if let Some(setup) = setup {
            ForkHelper::check(setup).map_err(|error| io::Error::other(cannot_fork(error)))?;
        }
        if has_helpers {
            // Opened once to see that it can be; every helper opens it for itself.
            dir.open()
                .and_then(open)
                .map_err(|error| io::Error::other(cannot(format_args!("start helper processes"), &error)))?;
        }
        Ok(())
    };
    let beside = privileges::readable_beside(flags);
    let roles = HelperRoles {
        open_root: &|| dir.open(),
        open,
        confine: &|root| privileges::confine_helper(flags, root, &beside),
        configuration: &|| reader.read(flags, &|_| Vec::new()).map(|again| again.of_file),
        logs: &logs::paths(flags),
        sockets,
    };
    let requested = |request: &[u8], socket: Rc<OwnedFd>| -> Option<Role<'_>> {
        if has_helpers { roles.role(request, socket) } else { None }
    };
    let setup =
        SupervisorSetup { prepare: &prepare, permanent, requested: &requested, ..SupervisorSetup::default() };
    let process = SupervisorProcess::start(setup).map_err(|error| Failure::Run(error.to_string()))?;
    Ok(Started { process: Some(Arc::new(process)), fork_helper })
}

/// Names of the sockets that this server makes, to be removed in the end.
pub(super) fn socket_names(flags: &flags::Serve, inherited: &Inherited) -> Vec<PathBuf> {
    let path = |listen: &Listen| match &listen.place {
        Place::Unix(place) => Some(place.path.clone()),
        Place::Inet(_) | Place::EveryAddress(_) => None,
    };
    let all = flags.listen.iter().filter_map(path).chain(admin::path(flags));
    all.filter(|path| !inherited.is_of_others(path)).collect()
}
