//! The socket at which askers connect: made here, or by the service manager.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use flash_os::activation::{self, Passed};
use flash_os::socket::{self, Waits};
use flash_trust::SocketAccess;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketType, sockopt};

/// A listening socket, and its name.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    place: String,
}

/// The most askers that may wait to be accepted. The kernel may allow fewer.
const BACKLOG: i32 = 1024;
/// Anyone may connect. The daemon asks the kernel who did.
const MODE: u32 = 0o666;

impl Listener {
    /// Listens at a path. Takes over a name that a daemon left behind, but none at which a process listens.
    ///
    /// # Errors
    /// If there is another file, or the folder is missing.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let socket = socket::new(AddressFamily::UNIX, SocketType::SEQPACKET, None, Waits::No)?;
        flash_trust::bind(&socket, path, SocketAccess { mode: Some(MODE), ..SocketAccess::default() })?;
        net::listen(&socket, BACKLOG)?;
        let place: PathBuf = path.into();
        Ok(Self { socket, place: format!("unix:{}", place.display()) })
    }

    /// The socket that the service manager has opened, if it started this process.
    ///
    /// # Errors
    /// If it is not one SEQPACKET socket.
    pub fn passed() -> io::Result<Option<Self>> {
        let mut sockets = activation::take_sockets()?;
        let Some(Passed { socket, .. }) = sockets.pop() else { return Ok(None) };
        if !sockets.is_empty() {
            return Err(io::Error::other("LISTEN_FDS names several sockets: flash helper takes one"));
        }
        let is_it = sockopt::socket_type(&socket) == Ok(SocketType::SEQPACKET)
            && socket::is_listening(&socket) == Ok(true);
        if !is_it {
            let why =
                "the socket of LISTEN_FDS is not a listening SEQPACKET socket (ListenSequentialPacket=)";
            return Err(io::Error::other(why));
        }
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Some(Self { socket, place: "the socket of the service manager".into() }))
    }

    pub(crate) fn accept(&self) -> Result<OwnedFd, Errno> {
        Ok(socket::accept(&self.socket, Waits::No)?.0)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_over_only_from_a_daemon_that_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = Listener::bind(&path).unwrap();
        assert_eq!(Listener::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        drop(Listener::bind(&path).unwrap());
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(Listener::bind(&file).unwrap_err().to_string().contains("not a socket"));
        assert!(Listener::bind(&folder.path().join("none/socket")).is_err());
    }
}
