//! How much was written to a TCP connection, by whichever process.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes written, those that the other side has confirmed and those that it has not. The beginning and the end of a
/// connection may count as one each: differences tell.
///
/// # Errors
/// For anything but a TCP connection.
pub fn bytes_written(connection: impl AsFd) -> io::Result<u64> {
    let socket = connection.as_fd().as_raw_fd();
    // SAFETY: plain numbers, for which all zeroes is a value.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&info) as libc::socklen_t;
    let mut queued: libc::c_int = 0;
    // SAFETY: the kernel writes at most `length` bytes into `info`, which is as long.
    check(unsafe {
        libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &mut length)
    })?;
    // SAFETY: the kernel writes one number into `queued`.
    check(unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &mut queued) })?;
    Ok(info.tcpi_bytes_acked + u64::from(queued.unsigned_abs()))
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
}
