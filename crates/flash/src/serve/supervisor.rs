//! The supervisor process of a server, and its roles: the fork helper for programs, and what helper processes need.
//!
//! It is forked while the server has one thread, before it listens, and becomes the server's user first. A server that needs
//! none of its roles has no supervisor process. With helper processes each reload makes another one, which knows the sites of its
//! configuration. If programs have [a user of their own](super::cgi_user), the fork helper has a supervisor process of its own.

use std::env;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use flash_arch::HelperRoles;
use flash_disk::{Disk, Opened, open_root};
use flash_process::{ForkHelper, Role, Setup, SupervisorProcess, SupervisorSetup, ipc, supervise};
use rustix::io::Errno;

use super::acme_process::{self, AcmeProcess};
use super::dir::Dir;
use super::inherited::Inherited;
use super::named_files::{ReadNamed, Secrets, open_or_leave};
use super::plan::Plan;
use super::programs::Programs;
use super::reader::{Again, Reader};
use super::{admin, cgi_user, logs, privileges};
use crate::failure::{Failure, cannot};
use crate::flags::{self, Helpers, Listen, ListenAddress, Spawn};

/// What was started before the server listens.
#[derive(Default)]
pub(super) struct Started {
    pub(super) process: Option<Arc<SupervisorProcess>>,
    /// That of the fork helper, if programs have a user of their own.
    pub(super) of_programs: Option<SupervisorProcess>,
    pub(super) fork_helper: Option<ForkHelper>,
}

/// The sites that helper processes serve.
pub(super) struct HelperSites<'a> {
    pub(super) plan: &'a Plan,
    pub(super) dir: &'a Dir,
    pub(super) reader: Reader,
    pub(super) sockets: &'a [PathBuf],
    pub(super) memory_file_bytes_max: u64,
}

/// Finds out, as the server's user, whether all roles can be played.
pub(super) fn start(
    sites: &HelperSites<'_>,
    setup: Option<&Setup>,
    acme: Option<AcmeProcess>,
) -> Result<Started, Failure> {
    let flags = &sites.plan.flags;
    let cannot_fork = |error: io::Error| Failure::Run(format!("cannot start the fork helper: {error}"));
    let programs_user = cgi_user::identity(flags)?;
    let (fork_helper, role) = match (setup, flags.experiments.spawn) {
        (None, _) => (None, None),
        (Some(setup), Spawn::Server) => {
            (Some(ForkHelper::in_thread(setup.clone()).map_err(cannot_fork)?), None)
        }
        (Some(setup), Spawn::Helper) => {
            let become_user =
                || programs_user.as_ref().map_or(Ok(()), |identity| cgi_user::take(identity, flags));
            let (helper, role) = ForkHelper::new(setup.clone(), become_user).map_err(cannot_fork)?;
            (Some(helper), Some(role))
        }
    };
    let (of_programs, permanent) = match (&programs_user, setup, role) {
        (Some(identity), Some(setup), Some(role)) => {
            (Some(cgi_user::start(setup, role, identity, flags)?), Vec::new())
        }
        (_, _, role) => (None, Vec::from_iter(role)),
    };
    let (has_helpers, has_acme) = (flags.helpers == Helpers::Process, acme.is_some());
    let permanent: Vec<Role<'_>> = permanent.into_iter().chain(acme.map(|acme| acme.role(flags))).collect();
    if permanent.is_empty() && !has_helpers {
        return Ok(Started { process: None, of_programs, fork_helper });
    }
    let prepare = || {
        if let Some(name) = &flags.user {
            privileges::become_user(name).map_err(io::Error::other)?;
            let _ = privileges::protect_memory(flags);
        }
        if let Some(setup) = setup.filter(|_| programs_user.is_none()) {
            ForkHelper::check(setup).map_err(|error| io::Error::other(cannot_fork(error)))?;
        }
        if has_acme {
            acme_process::check(flags)?;
        }
        if has_helpers {
            // Opened once to see that it can be; every helper opens it for itself.
            sites
                .open_root(0)
                .and_then(|root| sites.open(0, root))
                .map_err(|error| io::Error::other(cannot(format_args!("start helper processes"), &error)))?;
        }
        Ok(())
    };
    let process = sites.with_roles(|roles| {
        let requested = |request: &[u8], socket: Rc<OwnedFd>| -> Option<Role<'_>> {
            if has_helpers { roles.role(request, socket) } else { None }
        };
        let setup = SupervisorSetup {
            prepare: &prepare,
            permanent,
            requested: &requested,
            ..SupervisorSetup::default()
        };
        SupervisorProcess::start(setup).map_err(|error| Failure::Run(error.to_string()))
    })?;
    Ok(Started { process: Some(Arc::new(process)), of_programs, fork_helper })
}

impl HelperSites<'_> {
    fn with_roles<T>(&self, then: impl FnOnce(&HelperRoles<'_>) -> T) -> T {
        then(&HelperRoles {
            open_root: &|site| self.open_root(site),
            open: &|site, root| self.open(site, root),
            confine: &|root| privileges::confine_helper(&self.plan.flags, root),
            configuration: &|server| self.read_again(server),
            connect: &|server| self.connect(server),
            logs: &logs::paths(self.plan),
            sockets: self.sockets,
        })
    }

    fn open_root(&self, site: usize) -> io::Result<Opened> {
        match self.plan.sites.on_disk(site) {
            Some(_) if site == 0 => self.dir.open(),
            Some((folder, _)) => open_root(folder),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn open(&self, site: usize, root: Opened) -> io::Result<Disk> {
        let (folder, settings) = self.plan.sites.on_disk(site).ok_or(ErrorKind::NotFound)?;
        Disk::of_root(folder, root, self.plan.disk_settings(0, settings, self.memory_file_bytes_max))
    }

    /// Makes the connections of the server, to what the configuration names.
    fn connect(&self, server: &OwnedFd) -> io::Result<()> {
        let flags = &self.plan.flags;
        let _ = privileges::protect_memory(flags);
        let programs = || self.plan.sites.programs();
        // Sockets of applications have a name at first.
        let has_applications = programs().any(Programs::have_applications);
        let sockets: Vec<PathBuf> = has_applications.then(env::temp_dir).into_iter().collect();
        let confine = || privileges::confine_connector(flags, &sockets);
        let servers = programs().flat_map(Programs::servers);
        flash_upstream::run_connector(server, servers, &privileges::NAME_FILES, confine)
    }

    /// Reads the configuration again for the server, and is the supervisor process of its sites until the server needs them no more.
    fn read_again(&self, server: &OwnedFd) -> io::Result<()> {
        let named: ReadNamed<'_> = (&open_or_leave, Secrets::Left);
        let read = || {
            let Again { flags, of_file } = self.reader.read(&self.plan.flags, named, &|_| Vec::new())?;
            let certificates = Arc::clone(&self.plan.certificates);
            let next = || -> Result<_, Failure> {
                let dir = self.dir.again(&flags.dir, false)?;
                Ok((self.plan.next((flags.into(), certificates), &dir, named, false)?, dir))
            };
            next().map(|(plan, dir)| (of_file, plan, dir)).map_err(|failure| failure.to_string())
        };
        match read() {
            Ok((of_file, plan, dir)) => {
                match ipc::send(server, &[b"+", &of_file[..]].concat(), &[]) {
                    Err(Errno::MSGSIZE) => {
                        return Ok(ipc::send(server, b"-the configuration is too long for a message", &[])?);
                    }
                    sent => sent?,
                }
                let sites = HelperSites { plan: &plan, dir: &dir, ..*self };
                let server = server.try_clone()?;
                sites.with_roles(|roles| {
                    let requested = |request: &[u8], socket: Rc<OwnedFd>| -> Option<Role<'_>> {
                        roles.role(request, socket)
                    };
                    supervise(server, SupervisorSetup { requested: &requested, ..SupervisorSetup::default() })
                })
            }
            Err(why) => Ok(ipc::send(server, &[b"-", why.as_bytes()].concat(), &[])?),
        }
    }
}

/// Names of the sockets that this server makes, to be removed in the end.
pub(super) fn socket_names(flags: &flags::Serve, inherited: &Inherited) -> Vec<PathBuf> {
    let path = |listen: &Listen| match &listen.place {
        ListenAddress::Unix(place) => Some(place.path.clone()),
        ListenAddress::Inet(_) | ListenAddress::EveryAddress(_) => None,
    };
    let all = flags.listen.iter().filter_map(path).chain(admin::path(flags));
    all.filter(|path| !inherited.is_of_others(path)).collect()
}
