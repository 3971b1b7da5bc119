//! Root's word that the next server of an upgrade may be another program.
//!
//! A server that was taken over can show its upgrader connections of root's. It holds sockets that were made while it was root. It may
//! also connect to its own listeners, whose peer is root to the kernel. So neither the word nor who gives it comes by way of the
//! server. The upgrader accepts at a [socket](private_socket) of its own, which the server cannot. The kernel says who has connected,
//! and what that process sends is the path.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use flash_os::socket::{self, Waits};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect};

use crate::ipc::{self, Received};
use crate::private_socket;

/// More than one administrator at a time is rare.
const BACKLOG: i32 = 8;

/// The word, as long as this is not dropped.
#[derive(Debug)]
pub struct Authorization {
    _connection: OwnedFd,
}

/// The socket at which the upgrader takes root's word.
pub(super) struct Authorizations(OwnedFd);

impl Authorization {
    /// Gives the word to the upgrader with this socket. `program` is an absolute path.
    ///
    /// # Errors
    /// PermissionDenied if this process is not root's.
    pub fn give(place: impl AsFd, program: &Path) -> io::Result<Self> {
        let connection = socket::new(AddressFamily::UNIX, SocketType::SEQPACKET, None, Waits::Yes)?;
        connect(&connection, &SocketAddrUnix::new(private_socket::path(&place))?)?;
        ipc::send(&connection, program.as_os_str().as_bytes(), &[])?;
        Ok(Self { _connection: connection })
    }
}

impl Authorizations {
    /// A new socket, and its place.
    pub(super) fn open() -> io::Result<(Self, OwnedFd)> {
        let (listener, place) = private_socket::listen(SocketType::SEQPACKET, BACKLOG)?;
        rustix::io::ioctl_fionbio(&listener, true)?;
        Ok((Self(listener), place))
    }

    /// The programs that root has named by now. Each word counts once, and only if who gave it is still there.
    pub(super) fn take(&self) -> Vec<PathBuf> {
        let accept = || socket::accept(&self.0, Waits::Yes).ok().map(|(from, _)| from);
        std::iter::from_fn(accept).take(BACKLOG as usize + 1).filter_map(|from| program(&from)).collect()
    }
}

impl AsFd for Authorizations {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn program(from: &OwnedFd) -> Option<PathBuf> {
    socket::peer(from).ok().filter(|peer| peer.user == 0)?;
    let mut buffer = ipc::buffer();
    let Ok(Received::Message(message)) = ipc::try_receive(from, &mut buffer) else { return None };
    ipc::is_idle(from).then(|| OsStr::from_bytes(&message.bytes).into())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use rustix::process::Uid;

    use super::*;

    const PROGRAM: &str = "/usr/bin/flash.old";

    fn give(place: &OwnedFd) -> io::Result<Authorization> {
        Authorization::give(place, Path::new(PROGRAM))
    }

    fn is_root() -> bool {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            eprintln!("NOT TESTED, root's word: this user is not root");
        }
        is_root
    }

    #[test]
    fn roots_word_counts_once_while_root_waits() {
        if !is_root() {
            return;
        }
        let (words, place) = Authorizations::open().unwrap();
        assert!(words.take().is_empty());
        let word = give(&place).unwrap();
        assert_eq!(words.take(), [Path::new(PROGRAM)]);
        assert!(words.take().is_empty());
        drop(word);
        drop(give(&place).unwrap());
        assert!(words.take().is_empty(), "who gave that word has left");
        let [_one, _other] = [(); 2].map(|()| give(&place).unwrap());
        assert_eq!(words.take().len(), 2);
    }

    /// A thread of this process can be another user's.
    #[test]
    fn another_users_word_does_not_count() {
        if !is_root() {
            return;
        }
        let (words, place) = Authorizations::open().unwrap();
        let as_nobody = || {
            thread::scope(|scope| {
                let nobody = scope.spawn(|| {
                    rustix::thread::set_thread_res_uid(None, Uid::from_raw(65_534), None).unwrap();
                    give(&place)
                });
                nobody.join().unwrap()
            })
        };
        assert_eq!(as_nobody().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        set_permissions(private_socket::path(&place), Permissions::from_mode(0o666)).unwrap();
        let word = as_nobody().unwrap();
        assert!(words.take().is_empty());
        drop(word);
    }
}
