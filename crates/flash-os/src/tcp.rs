//! TCP's own options and counters: accepting late, bytes written, and bytes that the peer has not acknowledged.

use std::io;
use std::os::fd::AsFd;

use crate::system;

/// Has the kernel hold connections back until their first bytes have come, or for about so many seconds, where it can
/// (`TCP_DEFER_ACCEPT`).
pub fn defer_accept(listener: impl AsFd, seconds: i32) {
    system::tcp::defer_accept(listener.as_fd(), seconds);
}

/// Bytes written, those that the peer has acknowledged and those that it has not. The beginning and the end of a
/// connection may count as one each: differences tell.
///
/// # Errors
/// For anything but a TCP connection, and where nobody counts them.
pub fn bytes_written(connection: impl AsFd) -> io::Result<u64> {
    Ok(system::tcp::bytes_acked(connection.as_fd())? + bytes_unacked(connection)?)
}

/// Bytes that the connection has taken and the peer has not acknowledged. Of sockets that are not TCP's the kernel
/// counts the memory they take instead.
///
/// # Errors
/// For anything but a socket, and where nobody counts them.
pub fn bytes_unacked(connection: impl AsFd) -> io::Result<u64> {
    system::tcp::bytes_unacked(connection.as_fd())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_on_its_way_counts_as_what_arrived() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        let before = bytes_written(&server).unwrap();
        server.write_all(&[0; 100_000]).unwrap();
        assert_eq!(bytes_written(&server).unwrap() - before, 100_000);
        client.read_exact(&mut [0; 100_000]).unwrap();
        assert_eq!(bytes_written(&server).unwrap() - before, 100_000);
        assert!(bytes_written(UnixStream::pair().unwrap().0).is_err());
    }

    #[test]
    fn what_the_client_has_no_room_for_is_unconfirmed() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        server.set_nonblocking(true).unwrap();
        assert_eq!(bytes_unacked(&server).unwrap(), 0);
        let mut taken = 0;
        while let Ok(count) = server.write(&[0; 10_000]) {
            taken += count as u64;
        }
        let unacked = bytes_unacked(&server).unwrap();
        assert!((1..=taken).contains(&unacked), "{unacked} of {taken}");
        let mut read = 0;
        while read < taken {
            read += client.read(&mut [0; 10_000]).unwrap() as u64;
        }
        assert_eq!(bytes_unacked(&server).unwrap(), 0);
    }
}
