//! `--cgi-user`: programs and applications run as a user of their own, who can do nothing to the server.
//!
//! The fork helper becomes that user for good, before it receives anything. So neither a server that was taken over nor a program
//! gains a right by it. The fork helper can end no process but that user's. Only its supervisor process, which no other role
//! has, stays root's, with no capability but to become another user, for the next fork helper. Nobody can ask it for anything.

use std::fs;
use std::io;

use flash_os::user::{self, Identity};
use flash_process::{Folder, ForkHelper, Role, Setup, SupervisorProcess, SupervisorSetup, child};

use super::privileges;
use crate::failure::Failure;
use crate::flags::{self, Spawn};

/// In what it logs.
const NAME: &str = "the supervisor of programs";

/// The user of programs, if it is not the server's.
pub(super) fn identity(flags: &flags::Serve) -> Result<Option<Identity>, Failure> {
    let Some(text) = &flags.programs.cgi_user else { return Ok(None) };
    let cannot = |why: &str| Failure::Run(format!("cannot run programs as user {text}: {why}"));
    if flags.experiments.spawn == Spawn::Server {
        return Err(Failure::Usage("--cgi-user needs --spawn helper (see flash serve --help)".into()));
    }
    let (name, user) = privileges::user_of(text).map_err(cannot)?;
    let of_server = flags.user.as_deref().and_then(|user| privileges::user_of(user).ok());
    match user.id {
        0 => Err(cannot("root may do everything to the server")),
        id if of_server.is_some_and(|(_, of_server)| of_server.id == id) => {
            Err(cannot("it is the server's own user"))
        }
        _ => Identity::new(name.as_deref(), &user).map(Some).map_err(|error| cannot(&error.to_string())),
    }
}

/// Makes this process that user's.
pub(super) fn take(identity: &Identity, flags: &flags::Serve) -> io::Result<()> {
    identity.take()?;
    let _ = privileges::protect_memory(flags);
    Ok(())
}

/// Starts the supervisor process of the fork helper. Finds out whether the user may open the folders of scripts.
pub(super) fn start(
    setup: &Setup,
    fork_helper: Role<'_>,
    identity: &Identity,
    flags: &flags::Serve,
) -> Result<SupervisorProcess, Failure> {
    let text = flags.programs.cgi_user.as_deref().unwrap_or_default();
    let try_it = || {
        take(identity, flags).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                io::Error::other(format!("cannot run programs as user {text}: only root can"))
            }
            _ => io::Error::other(format!("cannot run programs as user {text}: {error}")),
        })?;
        ForkHelper::check(setup)
            .and_then(|()| setup.folders.iter().try_for_each(enter))
            .map_err(|error| io::Error::other(format!("cannot run programs as user {text}: {error}")))
    };
    let prepare = || child::run_apart(NAME, try_it).and_then(|()| user::keep_right_to_users());
    SupervisorProcess::start(SupervisorSetup {
        title: c"flash-programs",
        name: NAME,
        prepare: &prepare,
        permanent: vec![fork_helper],
        ..SupervisorSetup::default()
    })
    .map_err(|error| Failure::Run(error.to_string()))
}

/// Finds out whether this user may enter the folder. A folder can be opened without that right.
fn enter(folder: &Folder) -> io::Result<()> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.path.display()));
    fs::metadata(folder.path.join(".")).map(drop).map_err(named)
}
