//! The roles of processes that a server with helper processes requests. Each request gets a process of its own, so that none waits
//! for another.
//!
//! They are a helper, opening a new root, reading the configuration again, reopening a log, making connections, and removing the
//! sockets' names.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;

use flash_disk::{Disk, Opened, SiteRoot};
use flash_process::{OnEnd, Role, ipc};
use rustix::io::Errno;

use super::fork_request::ForkRequest;
use super::helper;

/// What these roles need to know.
pub struct HelperRoles<'a> {
    /// Opens the folder of the site with this number.
    pub open_root: &'a dyn Fn(usize) -> io::Result<Opened>,
    /// Makes a disk of a root of the site, in a helper.
    pub open: &'a dyn Fn(usize, Opened) -> io::Result<Disk>,
    /// Confines a helper to its root.
    pub confine: &'a dyn Fn(&SiteRoot) -> io::Result<()>,
    /// Reads the configuration again, and checks it. Sends what it says, or all that is wrong. If nothing is wrong, it is the
    /// supervisor process of that configuration from then on.
    pub configuration: &'a dyn Fn(&OwnedFd) -> io::Result<()>,
    /// Makes the connections of this configuration, until the server is gone.
    pub connect: &'a dyn Fn(&OwnedFd) -> io::Result<()>,
    /// The logs that may be reopened.
    pub logs: &'a [PathBuf],
    /// The names of the server's sockets.
    pub sockets: &'a [PathBuf],
}

/// The name in log lines of these processes.
const NAME: &str = "helper processes";

impl HelperRoles<'_> {
    /// The role of a process for this request, which came with this socket.
    pub fn role(&self, request: &[u8], socket: Rc<OwnedFd>) -> Option<Role<'_>> {
        let request = ForkRequest::of_bytes(request)?;
        let to = Rc::clone(&socket);
        let main = Rc::new(move || self.fulfil(&request, &to));
        Some(Role { name: NAME.into(), on_end: OnEnd::Forget, socket: Some(socket), main })
    }

    fn fulfil(&self, request: &ForkRequest, socket: &OwnedFd) -> io::Result<()> {
        match request {
            ForkRequest::Helper { number, site } => {
                helper::run(*number, socket, &|root| (self.open)(*site, root), self.confine)
            }
            ForkRequest::Root { site } => match (self.open_root)(*site) {
                Ok((folder, real_path)) => {
                    Ok(ipc::send(socket, real_path.as_os_str().as_bytes(), &[folder.as_fd()])?)
                }
                Err(error) => {
                    let code = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
                    Ok(ipc::send(socket, &code.to_ne_bytes(), &[])?)
                }
            },
            ForkRequest::Configuration => (self.configuration)(socket),
            ForkRequest::Connector => (self.connect)(socket),
            ForkRequest::Log { path } if self.logs.contains(path) => match flash_trust::open_log(path) {
                Ok(file) => Ok(ipc::send(socket, b"", &[file.as_fd()])?),
                Err(error) => Ok(ipc::send(socket, error.to_string().as_bytes(), &[])?),
            },
            ForkRequest::Log { .. } => {
                Ok(ipc::send(socket, b"in the sandbox only `flash upgrade` or a restart adds a log", &[])?)
            }
            ForkRequest::TidyUp => {
                for name in self.sockets {
                    // One that stays is taken over by the next server.
                    let _ = flash_trust::remove_abandoned(name);
                }
                Ok(())
            }
        }
    }
}
