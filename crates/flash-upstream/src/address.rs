//! Where a FastCGI server listens, and the first step of a connection to it, which never blocks.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flash_os::socket::{self, Waits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, ipproto, sockopt};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Unix(UnixAddress),
    /// All that its name stands for: the next is tried where one cannot be reached, or does not answer for a moment.
    Inet(Vec<SocketAddr>),
}

/// A socket's path, which is known to be short enough for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixAddress {
    path: PathBuf,
    address: SocketAddrUnix,
}

/// A connection attempt, as far as it came without blocking.
#[derive(Debug)]
pub(crate) enum Dialed {
    Connected(OwnedFd),
    /// The socket becomes writable when the connection is made or refused ([`connect_result`]).
    InProgress(OwnedFd),
    /// The listen queue of a Unix socket is full. No event tells when it is not.
    Full,
}

impl UnixAddress {
    /// # Errors
    /// When the path is too long for a socket's.
    pub fn new(path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, "a socket's path has at most 108 bytes")
        })?;
        Ok(Self { path: path.to_owned(), address })
    }
}

impl Address {
    /// That of a name with these addresses, in the system's order (RFC 6724). IPv6 and IPv4 take turns (RFC 8305 §4).
    #[must_use]
    pub fn of_name(all: Vec<SocketAddr>) -> Self {
        let is_v6_first = all.first().is_some_and(SocketAddr::is_ipv6);
        let (first, second): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|address| address.is_ipv6() == is_v6_first);
        let count = first.len().max(second.len());
        let pairs = (0..count).flat_map(|at| [first.get(at), second.get(at)]);
        Self::Inet(pairs.flatten().copied().collect())
    }

    /// How many there are to try.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Unix(_) => 1,
            Self::Inet(all) => all.len(),
        }
    }

    /// Whether they are the same, in whatever order the answers of a look-up had them.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Inet(all), Self::Inet(others)) => {
                all.iter().collect::<BTreeSet<_>>() == others.iter().collect()
            }
            _ => self == other,
        }
    }

    /// Whether it is none, because a name has none.
    pub fn is_unknown(&self) -> bool {
        self.count() == 0
    }

    /// The socket's name, of a Unix address.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Unix(address) => Some(&address.path),
            Self::Inet(_) => None,
        }
    }

    /// Connects and closes again, to see whether anything listens there. Waits so long for each address at most.
    pub(crate) fn reach(&self, patience: Duration) -> io::Result<()> {
        let patience = Timespec::try_from(patience).unwrap_or_default();
        let mut result = Err(Errno::ADDRNOTAVAIL);
        for which in 0..self.count() {
            result = match self.dial(which) {
                Ok(Dialed::Connected(_) | Dialed::Full) => Ok(()),
                Ok(Dialed::InProgress(stream)) => {
                    let mut writable = [PollFd::new(&stream, PollFlags::OUT)];
                    let waited = rustix::io::retry_on_intr(|| poll(&mut writable, Some(&patience)));
                    waited.and_then(|_| connect_result(&stream).unwrap_or(Err(Errno::TIMEDOUT)))
                }
                Err(error) => Err(error),
            };
            if result.is_ok() {
                break;
            }
        }
        Ok(result?)
    }

    /// Begins a connection to one of them.
    pub(crate) fn dial(&self, which: usize) -> Result<Dialed, Errno> {
        let socket = |family, protocol| socket::new(family, SocketType::STREAM, protocol, Waits::No);
        match self {
            Self::Unix(UnixAddress { address, .. }) => {
                let stream = socket(AddressFamily::UNIX, None)?;
                match rustix::net::connect(&stream, address) {
                    Ok(()) => Ok(Dialed::Connected(stream)),
                    Err(Errno::AGAIN) => Ok(Dialed::Full),
                    Err(error) => Err(error),
                }
            }
            Self::Inet(all) => {
                let address = all.get(which).ok_or(Errno::ADDRNOTAVAIL)?;
                let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let stream = socket(family, Some(ipproto::TCP))?;
                // A request's last piece shall not wait for the first one's acknowledgement.
                sockopt::set_tcp_nodelay(&stream, true)?;
                match rustix::net::connect(&stream, address) {
                    // On this machine the connection is made or refused by now, although the call did not wait for it.
                    Err(Errno::INPROGRESS | Errno::INTR) => match connect_result(&stream) {
                        Some(Ok(())) => Ok(Dialed::Connected(stream)),
                        Some(Err(error)) => Err(error),
                        None => Ok(Dialed::InProgress(stream)),
                    },
                    Ok(()) => Ok(Dialed::Connected(stream)),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

/// What became of a connection in progress, if that is known by now.
pub(crate) fn connect_result(stream: &OwnedFd) -> Option<Result<(), Errno>> {
    let mut writable = [PollFd::new(stream, PollFlags::OUT)];
    match poll(&mut writable, Some(&Timespec::default())) {
        Ok(0) | Err(Errno::INTR) => None,
        Ok(_) => Some(sockopt::socket_error(stream).and_then(|result| result)),
        Err(error) => Some(Err(error)),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(UnixAddress { path, .. }) => write!(f, "unix:{}", path.display()),
            Self::Inet(all) => all.first().map_or(Ok(()), |address| address.fmt(f)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn unix(path: &Path) -> Address {
        Address::Unix(UnixAddress::new(path).unwrap())
    }

    #[test]
    fn families_take_turns() {
        let of = |all: &[&str]| Address::of_name(all.iter().map(|text| text.parse().unwrap()).collect());
        let listed = |all: &[&str]| Address::Inet(all.iter().map(|text| text.parse().unwrap()).collect());
        let (one, two, three, four) = ("[::1]:1", "[::2]:1", "10.0.0.3:1", "10.0.0.4:1");
        assert_eq!(of(&[one, two, three, four]), listed(&[one, three, two, four]));
        assert_eq!(of(&[three, one, two]), listed(&[three, one, two]));
        assert_eq!(of(&[three, four]), listed(&[three, four]));
        assert!(of(&[]).is_unknown());
    }

    #[test]
    fn a_unix_socket_answers_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert_eq!(unix(&path).dial(0).err(), Some(Errno::NOENT));
        let listener = UnixListener::bind(&path).unwrap();
        assert!(matches!(unix(&path).dial(0), Ok(Dialed::Connected(_))));
        drop(listener);
        assert_eq!(unix(&path).dial(0).err(), Some(Errno::CONNREFUSED));
        assert!(UnixAddress::new(Path::new(&"x".repeat(109))).is_err());
    }

    #[test]
    fn a_full_unix_socket_is_told_from_one_that_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = UnixAddress::new(&path).unwrap();
        let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&listener, &address.address).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let address = Address::Unix(address);
        let waiting: Vec<_> = (0..2).map(|_| address.dial(0).unwrap()).collect();
        assert!(waiting.iter().all(|dialed| matches!(dialed, Dialed::Connected(_))));
        assert!(matches!(address.dial(0), Ok(Dialed::Full)));
    }

    #[test]
    fn loopback_answers_at_once_too() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = Address::Inet(vec![listener.local_addr().unwrap()]);
        assert!(matches!(address.dial(0), Ok(Dialed::Connected(_))));
        drop(listener);
        assert_eq!(address.dial(0).err(), Some(Errno::CONNREFUSED));
        assert_eq!(address.dial(1).err(), Some(Errno::ADDRNOTAVAIL));
    }
}
