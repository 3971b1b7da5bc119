//! A site as the supervisor process of its configuration knows it: by its number among the sites there.
//!
//! So a server can request a helper or a root for a site of its configuration, and for no other folder.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use flash_disk::{Opened, OpensHere, RootOpener};
use flash_process::{SupervisorProcess, ipc};

use super::fork_request::ForkRequest;

/// What opens the folders of the sites of a configuration.
#[derive(Clone, Debug)]
pub enum SiteOpeners {
    ThisProcess,
    /// The supervisor process that has read the configuration.
    Supervisor(Arc<SupervisorProcess>),
}

#[derive(Debug)]
pub(super) struct HelperSite {
    pub(super) supervisor: Arc<SupervisorProcess>,
    /// Among the sites of its configuration.
    number: usize,
}

impl SiteOpeners {
    /// What opens the folder of the site with this number.
    #[must_use]
    pub fn of_site(&self, number: usize) -> Arc<dyn RootOpener> {
        match self {
            Self::ThisProcess => Arc::new(OpensHere),
            Self::Supervisor(supervisor) => {
                Arc::new(HelperSite { supervisor: Arc::clone(supervisor), number })
            }
        }
    }
}

impl SiteOpeners {
    /// Requests the connector of the configuration. Returns the socket to it.
    ///
    /// # Errors
    /// When this process connects itself, or the supervisor process is gone.
    pub fn request_connector(&self) -> io::Result<OwnedFd> {
        match self {
            Self::ThisProcess => Err(ErrorKind::Unsupported.into()),
            Self::Supervisor(supervisor) => supervisor.request(&ForkRequest::Connector.to_bytes()),
        }
    }
}

impl HelperSite {
    /// The socket of a new helper. It waits for its root.
    pub(super) fn request_helper(&self, number: usize) -> io::Result<OwnedFd> {
        self.supervisor.request(&ForkRequest::Helper { number, site: self.number }.to_bytes())
    }
}

impl RootOpener for HelperSite {
    fn open(&self, _folder: &Path) -> io::Result<Opened> {
        let socket = self.supervisor.request(&ForkRequest::Root { site: self.number }.to_bytes())?;
        let mut buffer = ipc::buffer();
        let Some(message) = ipc::receive(&socket, &mut buffer)? else { return Err(ErrorKind::Other.into()) };
        match (message.descriptors.into_iter().next(), message.bytes.as_ref().try_into()) {
            (Some(folder), _) => Ok((folder, OsStr::from_bytes(&message.bytes).into())),
            (None, Ok(code)) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code))),
            (None, Err(_)) => Err(ErrorKind::Other.into()),
        }
    }
}
