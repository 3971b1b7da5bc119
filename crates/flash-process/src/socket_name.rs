//! The name of a Unix socket in the filesystem, which outlives the socket.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Removes the name if it is a socket's at which no process listens. What a successor listens at stays, and so does a file.
///
/// # Errors
/// When the name cannot be removed.
pub fn remove_abandoned(path: &Path) -> io::Result<()> {
    let is_socket = path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && is_abandoned(path) { fs::remove_file(path) } else { Ok(()) }
}

fn is_abandoned(path: &Path) -> bool {
    // Nonblocking: the queue of a busy listener may be full.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connected = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .and_then(|socket| connect(socket, &SocketAddrUnix::new(path)?));
    connected == Err(Errno::CONNREFUSED)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_a_name_without_a_listener_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [socket, file] = ["socket", "file"].map(|name| folder.path().join(name));
        fs::write(&file, "").unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        for path in [&socket, &file] {
            remove_abandoned(path).unwrap();
            assert!(path.exists());
        }
        drop(listener);
        remove_abandoned(&socket).unwrap();
        assert!(!socket.exists());
        remove_abandoned(&socket).unwrap();
    }
}
