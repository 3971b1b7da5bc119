//! Listening sockets, and accepting from them.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use flash_core::TransportInfo;
use flash_core::record::Peer;
use flash_http::Scheme;
use flash_os::socket::{self, NO_SIGNAL, Waits};
use flash_os::tcp;
use flash_trust::SocketAccess;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrAny, SocketAddrUnix, SocketType, sockopt};

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    place: ListenAddress,
    /// What it is called where it is passed on.
    name: String,
    /// Whether each connection begins with a header of the PROXY protocol.
    proxy_header: AtomicBool,
    /// Whether connections begin with a TLS handshake.
    tls: AtomicBool,
    /// Whether a loop is accepting now.
    taken: AtomicBool,
    /// How many loops watch it.
    pub(crate) loops: AtomicUsize,
}

/// The listeners of a process by their numbers. No number is given twice.
pub(crate) type Listeners = Vec<Option<Arc<Listener>>>;

#[derive(Clone, Debug)]
enum ListenAddress {
    Inet(SocketAddr),
    Unix {
        path: PathBuf,
        /// Whether this server has made the name, and removes it in the end.
        is_own: bool,
    },
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
        let socket = socket::new(family, SocketType::STREAM, None, Waits::Yes)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, is_ipv6_only)?;
        }
        // Accepted sockets inherit this, which saves a call for each. Responses leave in whole pieces anyway.
        sockopt::set_tcp_nodelay(&socket, true)?;
        // One wake-up for a connection and its request, and none for a connection without bytes.
        tcp::defer_accept(&socket, DEFER_SECONDS);
        net::bind(&socket, &address)?;
        net::listen(&socket, BACKLOG)?;
        let bound = SocketAddr::try_from(net::getsockname(&socket)?)?;
        Ok(Self::new(socket, ListenAddress::Inet(bound)))
    }

    /// Listens at a UNIX socket. Takes over a path that a server left behind, but none that a server listens at.
    pub fn unix(path: &Path, access: SocketAccess) -> io::Result<Self> {
        let socket = socket::new(AddressFamily::UNIX, SocketType::STREAM, None, Waits::Yes)?;
        flash_trust::bind(&socket, path, access)?;
        net::listen(&socket, BACKLOG)?;
        Ok(Self::new(socket, ListenAddress::Unix { path: path.to_owned(), is_own: true }))
    }

    /// Takes a socket at which another process has begun to listen. The name of a Unix socket stays that process's.
    ///
    /// # Errors
    /// If it is not a listening socket of TCP or a Unix stream socket.
    pub fn inherited(socket: OwnedFd) -> io::Result<Self> {
        let wrong = |what: &str| Err(io::Error::other(what.to_owned()));
        match sockopt::socket_type(&socket) {
            Err(Errno::NOTSOCK) => return wrong("it is not a socket"),
            Err(error) => return Err(error.into()),
            Ok(SocketType::STREAM) => {}
            Ok(_) => return wrong("it is not a stream socket"),
        }
        if !socket::is_listening(&socket)? {
            return wrong("nobody listens at it");
        }
        let address = net::getsockname(&socket)?;
        if let Ok(address) = SocketAddr::try_from(address.clone()) {
            sockopt::set_tcp_nodelay(&socket, true)?;
            tcp::defer_accept(&socket, DEFER_SECONDS);
            return Ok(Self::new(socket, ListenAddress::Inet(address)));
        }
        let Ok(address) = SocketAddrUnix::try_from(address) else {
            return wrong("it is neither a TCP socket nor a Unix socket");
        };
        let path = match (address.path_bytes(), socket::name_without_file(&address)) {
            (Some(path), _) => OsStr::from_bytes(path).into(),
            (None, name) => format!("@{}", name.unwrap_or_default().escape_ascii()).into(),
        };
        Ok(Self::new(socket, ListenAddress::Unix { path, is_own: false }))
    }

    /// Gives the name of a Unix socket the mode and the owner that the configuration says now. What it does not say stays, and so do
    /// names that others have made.
    ///
    /// # Errors
    /// If this process has no right to do that, or the name leads elsewhere.
    pub fn set_access(&self, access: SocketAccess) -> io::Result<()> {
        self.own_name().map_or(Ok(()), |path| flash_trust::set_access(path, access))
    }

    fn new(socket: OwnedFd, place: ListenAddress) -> Self {
        Self {
            socket,
            place,
            name: String::new(),
            proxy_header: AtomicBool::new(false),
            tls: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            loops: AtomicUsize::new(0),
        }
    }

    /// Calls it so where it is passed on.
    pub fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// What it is called where it is passed on.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes over from the server that has made the socket: the name of a Unix socket is this server's from now on.
    pub fn taken_over(self) -> Self {
        let place = match self.place {
            ListenAddress::Unix { path, .. } => ListenAddress::Unix { path, is_own: true },
            place @ ListenAddress::Inet(_) => place,
        };
        Self { place, ..self }
    }

    /// Sets how connections begin from now on: with a TLS handshake or not, and before that with a header of the PROXY protocol or
    /// not.
    pub fn speak(&self, scheme: Scheme, proxy_header: bool) {
        self.tls.store(scheme == Scheme::Https, Ordering::Relaxed);
        self.proxy_header.store(proxy_header, Ordering::Relaxed);
    }

    /// What its connections speak.
    pub fn scheme(&self) -> Scheme {
        if self.tls.load(Ordering::Relaxed) { Scheme::Https } else { Scheme::Http }
    }

    /// The address and port that the system has given.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.place {
            ListenAddress::Inet(address) => Some(*address),
            ListenAddress::Unix { .. } => None,
        }
    }

    /// The path of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            ListenAddress::Inet(_) => None,
            ListenAddress::Unix { path, .. } => Some(path),
        }
    }

    /// The name of a Unix socket that this server has made, to be removed in the end.
    pub fn own_name(&self) -> Option<&Path> {
        match &self.place {
            ListenAddress::Unix { path, is_own: true } => Some(path),
            ListenAddress::Inet(_) | ListenAddress::Unix { .. } => None,
        }
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.socket, true)?)
    }

    /// Closes the socket in this process, whoever still refers to it here. Later calls fail with EINVAL. It wakes nobody.
    ///
    /// The socket is never shut down, because it may be a successor's or the service manager's as well. If no other process has it,
    /// later connections are refused.
    pub fn close(&self) {
        // Without a descriptor in its place it stays open until the process ends.
        let _ = flash_os::descriptor::close_in_place(&self.socket);
        self.remove_name();
    }

    /// Removes the name that this server has made, if no process listens there.
    pub fn remove_name(&self) {
        if let Some(name) = self.own_name() {
            // One that stays is taken over by the next server.
            let _ = flash_trust::remove_abandoned(name);
        }
    }

    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// If there is no descriptor for it.
    pub fn try_clone(&self) -> io::Result<Self> {
        let clone = Self::new(self.socket.try_clone()?, self.place.clone()).named(self.name.clone());
        clone.speak(self.scheme(), self.proxy_header.load(Ordering::Relaxed));
        Ok(clone)
    }

    /// Accepts for a loop. The kernel locks a listener while it accepts, and other loops would sleep meanwhile. Here
    /// they get EAGAIN at once, and the poller reports the listener again.
    pub(crate) fn accept_now(&self) -> Result<(OwnedFd, TransportInfo), Errno> {
        if self.taken.swap(true, Ordering::Acquire) {
            return Err(Errno::AGAIN);
        }
        let accepted = self.accept(Waits::No);
        self.taken.store(false, Ordering::Release);
        accepted
    }

    /// Accepts a connection, and says what carries its bytes.
    pub(crate) fn accept(&self, waits: Waits) -> Result<(OwnedFd, TransportInfo), Errno> {
        let accepted = socket::accept(&self.socket, waits);
        // It is closed, and something else is in its place.
        let (socket, address) =
            accepted.map_err(|error| if error == Errno::NOTSOCK { Errno::INVAL } else { error })?;
        let peer = address.map_or(Peer::Unix, peer);
        let plain = TransportInfo::plain(peer);
        Ok((
            socket,
            TransportInfo {
                scheme: self.scheme(),
                proxy_header: self.proxy_header.load(Ordering::Relaxed),
                ..plain
            },
        ))
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
            ListenAddress::Inet(address) => write!(f, "{}://{address}/", self.scheme().name()),
            ListenAddress::Unix { path, .. } if self.scheme() == Scheme::Https => {
                write!(f, "https://unix:{}", path.display())
            }
            ListenAddress::Unix { path, .. } => write!(f, "unix:{}", path.display()),
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
    let _ = net::send(socket, answer, NO_SIGNAL | net::SendFlags::DONTWAIT);
    let _ = net::shutdown(socket, net::Shutdown::Write);
}
