//! TCP's own options and counters: accepting late, bytes written, and bytes that the peer has not acknowledged.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// Has the kernel hold connections back until their first bytes have come, or for about so many seconds
/// (`TCP_DEFER_ACCEPT`).
pub fn defer_accept(listener: impl AsFd, seconds: i32) -> io::Result<()> {
    // SAFETY: the option takes an int, and `seconds` is one that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            listener.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bytes written, those that the peer has acknowledged and those that it has not. The beginning and the end of a
/// connection may count as one each: differences tell.
///
/// # Errors
/// For anything but a TCP connection.
pub fn bytes_written(connection: impl AsFd) -> io::Result<u64> {
    let socket = connection.as_fd().as_raw_fd();
    // SAFETY: plain numbers, for which all zeroes is a value.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`, which is as long.
    check(unsafe {
        libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &mut length)
    })?;
    Ok(info.tcpi_bytes_acked + bytes_unacked(connection)?)
}

/// Bytes that the connection has taken and the peer has not acknowledged. Of sockets that are not TCP's the kernel
/// counts the memory they take instead.
///
/// # Errors
/// For anything but a socket.
pub fn bytes_unacked(connection: impl AsFd) -> io::Result<u64> {
    let mut queued: libc::c_int = 0;
    // SAFETY: the kernel writes one number into `queued`.
    check(unsafe { libc::ioctl(connection.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut queued) })?;
    Ok(queued.unsigned_abs().into())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
