//! Where administrators reach a server, and how that is opened. What is answered there is `flash-arch`'s.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use flash_arch::{AdminListeners, Listener};
use flash_process::{child, predecessor};
use flash_trust::SocketAccess;

use super::inherited::Inherited;
use super::listeners;
use super::privileges;
use crate::failure::{Failure, cannot};
use crate::flags::{self, AdminAt};

/// Only the socket's owner may connect.
const MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o755;

/// Where the server with these flags is reached.
fn place(flags: &flags::Serve) -> AdminAt {
    match (&flags.administration.admin, &flags.config) {
        (Some(admin), _) => admin.clone(),
        (None, Some(_)) => AdminAt::usual(),
        (None, None) => AdminAt::Off,
    }
}

/// The path of the admin socket, if the flags lead to one.
pub(super) fn path(flags: &flags::Serve) -> Option<PathBuf> {
    match place(flags) {
        AdminAt::Unix(path) => Some(path),
        AdminAt::Off => None,
    }
}

/// Opens the socket, and the listener for those who only read. `upgrader` is where root names another program.
pub(super) fn open(
    flags: &flags::Serve,
    inherited: &mut Inherited,
    upgrader: Option<BorrowedFd<'_>>,
) -> Result<AdminListeners, Failure> {
    let read_only = flags.administration.admin_listen.map(|address| {
        let name = predecessor::name_of_own(&format!("admin-listen {address}"));
        let made = inherited.named(&name, address).map_or_else(|| Listener::inet(address), Ok);
        made.map(|listener| listener.named(name))
            .map_err(|error| cannot(format_args!("listen for administrators at {address}"), &error))
    });
    Ok(AdminListeners {
        socket: open_socket(flags, inherited)?,
        read_only: read_only.transpose()?,
        hosts: flags.administration.admin_hosts.as_slice().into(),
        // Without a descriptor for it, nobody can name another program.
        upgrader: upgrader.and_then(|upgrader| upgrader.try_clone_to_owned().ok()),
    })
}

/// Opens the socket. One that nobody has asked for may be missing, and the server says so.
fn open_socket(flags: &flags::Serve, inherited: &mut Inherited) -> Result<Option<Listener>, Failure> {
    let Some(path) = path(flags) else { return Ok(None) };
    let user = flags.user.as_deref().map(privileges::user_of).transpose();
    let user = user.map_err(|why| Failure::Run(format!("cannot give away the admin socket: {why}")))?;
    let (user, group) = user.map_or((None, None), |(_, user)| (Some(user.id), Some(user.group)));
    let access = SocketAccess { mode: Some(MODE), user, group };
    if let Some(listener) = inherited.at_path(&path) {
        let place = format!("unix:{}", path.display());
        listener.set_access(access).unwrap_or_else(|error| listeners::say_it_stays(&place, &error));
        return Ok(Some(listener));
    }
    let opened =
        make_folder(&path).and_then(|()| listeners::listen_unix(&path, access, flags.user.as_deref()));
    match opened {
        Ok(listener) => Ok(Some(listener.named(predecessor::name_of_own("admin")))),
        Err(error) if flags.administration.admin.is_some() => {
            Err(cannot(format_args!("open the admin socket {}", path.display()), &error))
        }
        Err(error) => {
            let why = cannot(format_args!("open the admin socket {}", path.display()), &error);
            child::log(format_args!("{why}: flash reload cannot reach this server, and SIGHUP can"));
            Ok(None)
        }
    }
}

/// The last folder of the path may be missing, because `/run` is empty after a start of the machine.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    flash_trust::make_folder(folder, FOLDER_MODE)
}
