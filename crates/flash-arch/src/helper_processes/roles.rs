//! The roles of processes that a server with helper processes requests: a helper, a log opened again, the sockets' names
//! removed at the end. Each request is fulfilled by a process of its own, so that none waits for another.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use flash_disk::Disk;
use flash_observe::Destination;
use flash_process::{OnEnd, Role, ipc};

use super::fork_request::ForkRequest;
use super::helper;

/// What is done in other processes for a server that cannot do it itself.
pub struct HelperRoles<'a> {
    /// Opens the folder, in the process that will look after it.
    pub open: &'a dyn Fn() -> io::Result<Disk>,
    /// Confines a helper, once it has opened the folder.
    pub confine: &'a dyn Fn() -> io::Result<()>,
    /// The logs that may be opened again.
    pub logs: &'a [PathBuf],
    /// Names of the sockets that the server listens at.
    pub sockets: &'a [PathBuf],
}

/// In what these processes log.
const NAME: &str = "helper processes";

impl HelperRoles<'_> {
    /// The role of a process for that request, which came with that socket.
    pub fn role(&self, request: &[u8], socket: Rc<OwnedFd>) -> Option<Role<'_>> {
        let request = ForkRequest::of_bytes(request)?;
        let to = Rc::clone(&socket);
        let main = Rc::new(move || self.fulfil(&request, &to));
        Some(Role { name: NAME.into(), on_end: OnEnd::Forget, socket: Some(socket), main })
    }

    fn fulfil(&self, request: &ForkRequest, socket: &OwnedFd) -> io::Result<()> {
        match request {
            ForkRequest::Helper { number } => helper::run(*number, socket, (self.open)()?, self.confine),
            ForkRequest::Log { path } if self.logs.contains(path) => {
                match Destination::Path(path.clone()).open() {
                    Ok(file) => Ok(ipc::send(socket, b"", &[file.as_fd()])?),
                    Err(error) => Ok(ipc::send(socket, error.to_string().as_bytes(), &[])?),
                }
            }
            ForkRequest::Log { .. } => Ok(ipc::send(socket, b"it is none of the logs", &[])?),
            ForkRequest::TidyUp => {
                for name in self.sockets {
                    // It may have gone already.
                    let _ = fs::remove_file(name);
                }
                Ok(())
            }
        }
    }
}
