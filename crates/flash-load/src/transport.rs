//! A connection's socket. The only way that bytes come and go; whatever else speaks to a server, such as TLS, becomes a
//! variant here.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with,
};
use socket2::SockRef;

use crate::{Address, Link};

/// Of slow lines: what Ethernet carries.
const SEGMENT_BYTES: u32 = 1460;
/// Connections to a loopback address from one source address; more would run out of ports.
const LOOPBACK_CONNECTIONS_MAX: usize = 25_000;

pub(crate) enum Transport {
    Plain(OwnedFd),
}

impl Transport {
    /// Begins to connect. `number` tells the connections of a run apart.
    pub(crate) fn open(address: &Address, link: Option<Link>, number: usize) -> Result<Transport, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = match address {
            Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Address::Unix(_) => AddressFamily::UNIX,
        };
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        if let Some(link) = link {
            // Before connecting, because the segments and the window that are offered to the server depend on it.
            if family != AddressFamily::UNIX {
                SockRef::from(&socket).set_tcp_mss(SEGMENT_BYTES).map_err(errno)?;
            }
            set_socket_recv_buffer_size(&socket, link.buffer_bytes(link.down_bytes_per_second))?;
            set_socket_send_buffer_size(&socket, link.buffer_bytes(link.up_bytes_per_second))?;
        }
        let began = match address {
            Address::Tcp(address) => {
                set_tcp_nodelay(&socket, true)?;
                if let (IpAddr::V4(ip), turn @ 1..) = (address.ip(), number / LOOPBACK_CONNECTIONS_MAX)
                    && ip.is_loopback()
                {
                    bind(&socket, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, 1 + turn as u8), 0)))?;
                }
                connect(&socket, address)
            }
            Address::Unix(path) => connect(&socket, &SocketAddrUnix::new(path.as_path())?),
        };
        match began {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Transport::Plain(socket)),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let Transport::Plain(socket) = self;
        send(socket, bytes, SendFlags::NOSIGNAL)
    }

    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let Transport::Plain(socket) = self;
        recv(socket, buffer, RecvFlags::empty()).map(|(_, bytes)| bytes)
    }

    /// Receives bytes and discards them. TCP does not copy them then; the buffer only limits their number.
    pub(crate) fn discard(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let Transport::Plain(socket) = self;
        recv(socket, buffer, RecvFlags::TRUNC).map(|(_, bytes)| bytes)
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let Transport::Plain(socket) = self;
        socket.as_fd()
    }
}

impl Link {
    /// A fiftieth of a second's bytes, but at least some segments with the kernel's overhead. If a window is shorter than a
    /// segment, its sender tries a few bytes five times a second, and the line stops.
    fn buffer_bytes(self, per_second: u64) -> usize {
        (per_second / 50).clamp(16 << 10, 1 << 20) as usize
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
}
