//! The server that a process replaces in an upgrade, as the new process sees it.
//!
//! It has started this process with its listening sockets, and serves until this one is ready. The process that has
//! [executed](crate::upgrader) this one passes messages on. How an upgrade ends for the old server is not known here.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use flash_os::descriptor;
use rustix::io::Errno;

use crate::ipc;

/// The name of the socket to the predecessor, among the sockets that it passes on.
pub const PREDECESSOR: &str = "flash=predecessor";
/// The name of the standard error to go on with.
pub const STDERR: &str = "flash=stderr";
/// How the names of the predecessor's own listening sockets begin. The others are the service manager's.
const OWN: &str = "flash=listen=";

pub(crate) const READY: &[u8] = b"+";
pub(crate) const GO: &[u8] = b"go";
/// Before the reason for which there will be no successor.
pub(crate) const FAILED: u8 = b'-';

/// The server to be replaced.
#[derive(Debug)]
pub struct Predecessor(OwnedFd);

impl Predecessor {
    /// The one at the other end of this socket. So far standard error was read by the process that executed this one, because what
    /// was said there is why a start fails. From now on it is `stderr`, and [`Predecessor::failed`] says that.
    ///
    /// # Errors
    /// When standard error cannot be replaced.
    pub fn new(socket: OwnedFd, stderr: OwnedFd) -> io::Result<Self> {
        descriptor::replace_stderr(stderr.as_fd())?;
        Ok(Self(socket))
    }

    /// This process serves nobody. Tells why.
    pub fn failed(&self, why: &impl fmt::Display) {
        let mut message = vec![FAILED];
        message.extend_from_slice(why.to_string().as_bytes());
        // If nobody waits for it, standard error has it too.
        let _ = ipc::send(&self.0, &message, &[]);
    }

    /// This process accepts connections. Waits until the predecessor has said so to the service manager, and accepts no more
    /// requests from administrators.
    ///
    /// # Errors
    /// If the predecessor does not want to be replaced any more, or has ended.
    pub fn ready(&self) -> io::Result<()> {
        let gone = || io::Error::other("the server that was to be replaced is stopping");
        match ipc::send(&self.0, READY, &[]) {
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(gone()),
            sent => sent?,
        }
        match ipc::receive(&self.0, &mut ipc::buffer())? {
            Some(message) if *message.bytes == *GO => Ok(()),
            _ => Err(gone()),
        }
    }
}

/// The name under which a server passes on a listening socket that it has made for this place.
#[must_use]
pub fn name_of_own(place: &str) -> String {
    // A colon separates names.
    format!("{OWN}{}", place.replace('%', "%25").replace(':', "%3A"))
}

/// The place for which the predecessor has made the socket with this name. `None` if others have made it.
#[must_use]
pub fn own_place(name: &str) -> Option<String> {
    Some(name.strip_prefix(OWN)?.replace("%3A", ":").replace("%25", "%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_in_a_name() {
        for place in ["127.0.0.1:0", "[::1]:80", "unix:/run/a%3Ab.sock", "%", ""] {
            let name = name_of_own(place);
            assert!(!name.contains(':'), "{name}");
            assert_eq!(own_place(&name).as_deref(), Some(place));
        }
        assert_eq!(own_place("http"), None);
    }
}
