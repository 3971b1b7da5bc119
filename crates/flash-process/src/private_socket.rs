//! A listening Unix socket without a name: only who holds a descriptor of its place can connect.
//!
//! It gets a name in a folder that only this user can open, which is removed as soon as the socket is open. So no file is left after
//! a crash, and no other process can take the name. Every process of the machine could connect to an abstract name or a port.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use flash_os::socket::{self, Waits};
use flash_os::walk;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

const NAME: &str = "socket";

/// A listening socket, and its place. When the last descriptor of the socket is closed, connections are refused.
///
/// # Errors
/// If no folder can be made below `TMPDIR`, or below `/tmp`.
pub fn listen(kind: SocketType, backlog: i32) -> io::Result<(OwnedFd, OwnedFd)> {
    let own = Permissions::from_mode(0o700);
    let named = tempfile::Builder::new().prefix("flash-").permissions(own).tempdir()?;
    // From here on by its descriptor: another user may own the folder above, and put something else in its place.
    let flags = walk::SEARCH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, named.path(), flags, Mode::empty())?;
    let status = rustix::fs::fstat(&folder)?;
    if status.st_uid != rustix::process::geteuid().as_raw()
        || Mode::from_raw_mode(status.st_mode).intersects(Mode::RWXG | Mode::RWXO)
    {
        return Err(io::Error::other(format!("{} is another user's", named.path().display())));
    }
    let listener = socket::new(AddressFamily::UNIX, kind, None, Waits::Yes)?;
    // The place gets its mode from the socket.
    rustix::fs::fchmod(&listener, Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&listener, &SocketAddrUnix::new(path(&folder).join(NAME))?)?;
    rustix::net::listen(&listener, backlog)?;
    let place = rustix::fs::openat(&folder, NAME, walk::PLACE | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::unlinkat(&folder, NAME, AtFlags::empty())?;
    Ok((listener, place))
}

/// The path at which this process reaches the place, for as long as it is open.
pub fn path(place: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", place.as_fd().as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn it_leads_to_whoever_holds_the_listener_and_to_nobody_else() {
        let [(first, one), (second, other)] = [(); 2].map(|()| listen(SocketType::STREAM, 4).unwrap());
        let listener = UnixListener::from(first);
        let stream = UnixStream::connect(path(&one)).unwrap();
        listener.accept().unwrap();
        assert_eq!(path(&one).metadata().unwrap().mode() & 0o777, 0o600);
        let name = std::fs::read_link(path(&one)).unwrap();
        assert!(!name.exists() && !name.parent().unwrap().exists(), "nothing is left of {}", name.display());
        drop((stream, listener));
        assert!(UnixStream::connect(path(&one)).is_err());
        assert!(UnixStream::connect(path(&other)).is_ok());
        drop(second);
    }
}
