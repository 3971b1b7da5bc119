//! A connection's socket, with TLS above it or without. The only way that bytes come and go.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with,
};
use rustls::client::UnbufferedClientConnection;
use socket2::SockRef;

use crate::received::{Failed, Received};
use crate::tls::TlsStream;
use crate::{Address, Link};

/// Of slow lines: what Ethernet carries.
const SEGMENT_BYTES: u32 = 1460;
/// Connections to a loopback address from one source address; more would run out of ports.
const LOOPBACK_CONNECTIONS_MAX: usize = 25_000;

pub(crate) enum Transport {
    Plain(OwnedFd),
    /// Boxed, because it is large.
    Tls(Box<TlsStream>),
}

impl Transport {
    /// Begins to connect. `number` tells the connections of a run apart.
    pub(crate) fn open(
        address: &Address,
        link: Option<Link>,
        number: usize,
        session: Option<UnbufferedClientConnection>,
    ) -> Result<Transport, Errno> {
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
            Ok(()) | Err(Errno::INPROGRESS) => Ok(match session {
                Some(session) => Transport::Tls(Box::new(TlsStream::new(socket, session))),
                None => Transport::Plain(socket),
            }),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Transport::Plain(socket) => send(socket, bytes, SendFlags::NOSIGNAL),
            Transport::Tls(stream) => stream.send(bytes),
        }
    }

    /// Receives up to `room` bytes. With TLS, `scratch` takes what is encrypted.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        room: usize,
        scratch: &mut [u8],
    ) -> Result<Received, Failed> {
        match self {
            Transport::Plain(socket) => {
                let bytes = retry_on_intr(|| recv(&*socket, &mut buffer[..room], RecvFlags::empty()))?.1;
                Ok(Received { bytes, plaintext: bytes, is_all: bytes < room, secured: None })
            }
            Transport::Tls(stream) => stream.receive(buffer, room, scratch),
        }
    }

    /// Receives bytes and discards them. TCP does not copy them then; the buffer only limits their number.
    pub(crate) fn discard(&self, buffer: &mut [u8]) -> Result<Received, Failed> {
        let bytes = retry_on_intr(|| recv(self, &mut *buffer, RecvFlags::TRUNC))?.1;
        Ok(Received { bytes, plaintext: bytes, is_all: bytes < buffer.len(), secured: None })
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Transport::Tls(_))
    }

    /// Whether requests may leave: the handshake is complete, if there is one.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Transport::Plain(_) => true,
            Transport::Tls(stream) => stream.is_open(),
        }
    }

    /// Whether the end of the stream is the server's word, and not an accident or an attack (RFC 8446 §6.1).
    pub(crate) fn ends_rightly(&self) -> bool {
        match self {
            Transport::Plain(_) => true,
            Transport::Tls(stream) => stream.has_ended(),
        }
    }

    /// Whether records wait for the socket.
    pub(crate) fn waits(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.waits(),
        }
    }

    /// Says goodbye, where that is usual.
    pub(crate) fn close(&mut self) {
        if let Transport::Tls(stream) = self {
            stream.close();
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Transport::Plain(socket) => socket.as_fd(),
            Transport::Tls(stream) => stream.as_fd(),
        }
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
