//! Listening sockets, and accepting from them.

use std::fmt;
use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use flash_core::TransportInfo;
use flash_core::record::Peer;
use flash_http::Scheme;
use flash_os::tcp;
use flash_process::socket_name;
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, sockopt,
};

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    place: Place,
    /// Whether each connection begins with a header of the PROXY protocol.
    proxy_header: bool,
    /// Whether connections begin with a TLS handshake.
    scheme: Scheme,
    /// Whether a loop is accepting now.
    taken: AtomicBool,
    /// How many loops watch it.
    pub(crate) loops: AtomicUsize,
}

/// The listeners of a process by their numbers. No number is given twice.
pub(crate) type Listeners = Vec<Option<Arc<Listener>>>;

#[derive(Clone, Debug)]
enum Place {
    Inet(SocketAddr),
    /// A name that is removed in the end.
    Unix(PathBuf),
}

/// Who may connect to a UNIX socket. What is not given stays as the system makes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketAccess {
    pub mode: Option<u32>,
    pub user: Option<u32>,
    pub group: Option<u32>,
}

impl SocketAccess {
    fn apply(self, path: &Path) -> io::Result<()> {
        if self.user.is_some() || self.group.is_some() {
            std::os::unix::fs::lchown(path, self.user, self.group)?;
        }
        self.mode.map_or(Ok(()), |mode| std::fs::set_permissions(path, Permissions::from_mode(mode)))
    }
}

/// The most connections that may wait to be accepted. The kernel may allow fewer.
const BACKLOG: i32 = 4096;
/// After this time the kernel delivers a connection without bytes too, and its deadline begins.
const DEFER_SECONDS: i32 = 1;

impl Listener {
    /// Listens at a TCP address. `[::]` takes IPv4 as well.
    pub fn inet(address: SocketAddr) -> io::Result<Self> {
        Self::of_kind(address, !address.ip().is_unspecified())
    }

    /// Listens at an IPv6 address only. Another listener may take IPv4 of the same port.
    pub fn inet6(address: SocketAddr) -> io::Result<Self> {
        Self::of_kind(address, true)
    }

    fn of_kind(address: SocketAddr, is_ipv6_only: bool) -> io::Result<Self> {
        let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, is_ipv6_only)?;
        }
        // Accepted sockets inherit this, which saves a call for each. Responses leave in whole pieces anyway.
        sockopt::set_tcp_nodelay(&socket, true)?;
        // One wake-up for a connection and its request, and none for a connection without bytes.
        tcp::defer_accept(&socket, DEFER_SECONDS)?;
        net::bind(&socket, &address)?;
        net::listen(&socket, BACKLOG)?;
        let bound = SocketAddr::try_from(net::getsockname(&socket)?)?;
        Ok(Self {
            socket,
            place: Place::Inet(bound),
            proxy_header: false,
            scheme: Scheme::Http,
            taken: AtomicBool::new(false),
            loops: AtomicUsize::new(0),
        })
    }

    /// Listens at a UNIX socket. Takes over a path that a server left behind, but none that a server listens at.
    pub fn unix(path: &Path, access: SocketAccess) -> io::Result<Self> {
        if path.symlink_metadata().is_ok_and(|metadata| !metadata.file_type().is_socket()) {
            return Err(io::Error::other("a file or folder is there, which is not a socket"));
        }
        socket_name::remove_abandoned(path)?;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        // Until it listens, connections are refused.
        access.apply(path)?;
        net::listen(&socket, BACKLOG)?;
        Ok(Self {
            socket,
            place: Place::Unix(path.to_owned()),
            proxy_header: false,
            scheme: Scheme::Http,
            taken: AtomicBool::new(false),
            loops: AtomicUsize::new(0),
        })
    }

    /// Requires each connection to begin with a header of the PROXY protocol.
    pub fn requiring_proxy_header(self) -> Self {
        Self { proxy_header: true, ..self }
    }

    /// Speaks HTTP within TLS.
    pub fn with_tls(self) -> Self {
        Self { scheme: Scheme::Https, ..self }
    }

    /// What its connections speak.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The address and port that the system has given.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.place {
            Place::Inet(address) => Some(*address),
            Place::Unix(_) => None,
        }
    }

    /// The name of a UNIX socket, to be removed in the end.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Inet(_) => None,
            Place::Unix(path) => Some(path),
        }
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.socket, true)?)
    }

    /// Wakes threads that wait for a connection, and refuses later connections.
    pub fn shut(&self) {
        // It fails only if the socket is shut already.
        let _ = net::shutdown(&self.socket, net::Shutdown::Both);
        if let Place::Unix(path) = &self.place {
            // A successor may have taken the name over.
            let _ = socket_name::remove_abandoned(path);
        }
    }

    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// If there is no descriptor for it.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            socket: self.socket.try_clone()?,
            place: self.place.clone(),
            proxy_header: self.proxy_header,
            scheme: self.scheme,
            taken: AtomicBool::new(false),
            loops: AtomicUsize::new(0),
        })
    }

    /// Accepts for a loop. The kernel locks a listener while it accepts, and other loops would sleep meanwhile. Here
    /// they get EAGAIN at once, and the poller reports the listener again.
    pub(crate) fn accept_now(&self) -> Result<(OwnedFd, TransportInfo), Errno> {
        if self.taken.swap(true, Ordering::Acquire) {
            return Err(Errno::AGAIN);
        }
        let accepted = self.accept(SocketFlags::NONBLOCK);
        self.taken.store(false, Ordering::Release);
        accepted
    }

    /// Accepts a connection, and says what carries its bytes.
    pub(crate) fn accept(&self, flags: SocketFlags) -> Result<(OwnedFd, TransportInfo), Errno> {
        let (socket, address) = acceptfrom_with(&self.socket, flags | SocketFlags::CLOEXEC)?;
        let peer = address.map_or(Peer::Unix, peer);
        let plain = TransportInfo::plain(peer);
        Ok((socket, TransportInfo { scheme: self.scheme, proxy_header: self.proxy_header, ..plain }))
    }
}

fn peer(address: SocketAddrAny) -> Peer {
    SocketAddr::try_from(address).map_or(Peer::Unix, |address| {
        // An IPv4 client of an IPv6 socket counts as an IPv4 client.
        Peer::Inet(SocketAddr::new(address.ip().to_canonical(), address.port()))
    })
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Inet(address) => write!(f, "{}://{address}/", self.scheme.name()),
            Place::Unix(path) if self.scheme == Scheme::Https => write!(f, "https://unix:{}", path.display()),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The response to a connection that is turned away.
pub(crate) fn turn_away(socket: &OwnedFd) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nServer: Flash\r\nRetry-After: 1\r\n\
        Content-Length: 0\r\nConnection: close\r\n\r\n";
    send_and_shut(socket, ANSWER);
}

/// The response to a connection whose client has too many.
pub(crate) fn turn_away_client(socket: &OwnedFd) {
    const ANSWER: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nServer: Flash\r\nRetry-After: 1\r\n\
        Content-Length: 0\r\nConnection: close\r\n\r\n";
    send_and_shut(socket, ANSWER);
}

fn send_and_shut(socket: &OwnedFd, answer: &[u8]) {
    // A client that does not get it sees the connection close.
    let _ = net::send(socket, answer, net::SendFlags::NOSIGNAL | net::SendFlags::DONTWAIT);
    let _ = net::shutdown(socket, net::Shutdown::Write);
}
