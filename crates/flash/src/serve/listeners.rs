//! The listeners that the flags ask for. After a reload, those that stay are the same sockets.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use flash_arch::Listener;
use flash_http::Scheme;
use flash_process::{child, predecessor};
use flash_trust::SocketAccess;

use super::inherited::Inherited;
use super::privileges;
use crate::failure::{Failure, cannot};
use crate::flags::{self, Listen, ListenAddress, UnixAddress};

/// Listeners, each with the place that it was made for.
#[derive(Clone, Default)]
pub(super) struct Listeners(Vec<(Listen, Arc<Listener>)>);

impl Listeners {
    /// The listeners of these flags. Takes those that there are already, then inherited ones, and makes the others.
    pub(super) fn open(
        flags: &flags::Serve,
        present: &Self,
        inherited: &mut Inherited,
    ) -> Result<Self, Failure> {
        // Those that no place of the next configuration names.
        let mut left = present.0.clone();
        let mut kept = Vec::new();
        for place in &flags.listen {
            if let Some(known) = left.iter().position(|(known, _)| known == place) {
                kept.push(left.swap_remove(known));
            }
        }
        let before: Vec<Listen> = present.0.iter().map(|(place, _)| place.clone()).collect();
        let mut take = |place: &Listen| {
            let known = kept.iter().position(|(known, _)| known == place);
            let listener = match known {
                // The kernel takes this choice before the socket is bound only.
                Some(_) if leaves_ipv4(place, &before) && !leaves_ipv4(place, &flags.listen) => {
                    let place = &place.place;
                    return Err(Failure::Run(format!(
                        "{place} is for IPv6 alone, because it began beside a listener for IPv4: only a restart changes that"
                    )));
                }
                Some(known) => kept.swap_remove(known).1,
                None => {
                    // The same socket, whose connections will begin in another way.
                    let same = left.iter().position(|(known, _)| known.place == place.place);
                    match (same, inherited.at(&place.place)) {
                        (Some(same), _) => left.swap_remove(same).1,
                        (None, Some(listener)) => {
                            if let ListenAddress::Unix(unix) = &place.place {
                                let access = socket_access(unix, flags.user.as_deref());
                                let is_set = access.and_then(|access| listener.set_access(access));
                                is_set.unwrap_or_else(|error| say_it_stays(&place.place.to_string(), &error));
                            }
                            Arc::new(listener)
                        }
                        (None, None) => {
                            let made = listen(place, &flags.listen, flags.user.as_deref(), present)?;
                            Arc::new(made.named(predecessor::name_of_own(&place.place.to_string())))
                        }
                    }
                }
            };
            Ok((place.clone(), listener))
        };
        flags.listen.iter().map(&mut take).collect::<Result<_, _>>().map(Self)
    }

    /// From now on connections begin as the flags say.
    pub(super) fn speak(&self) {
        self.0.iter().for_each(|(place, listener)| listener.speak(place.scheme(), place.proxy_protocol));
    }

    pub(super) fn all(&self) -> Vec<Arc<Listener>> {
        self.0.iter().map(|(_, listener)| Arc::clone(listener)).collect()
    }

    /// The port to which requests without TLS are redirected.
    pub(super) fn https_port(&self) -> Option<u16> {
        let https = self.0.iter().filter(|(place, _)| place.scheme() == Scheme::Https);
        https.filter_map(|(_, listener)| listener.address()).map(|address| address.port()).next()
    }

    /// As the line of the start shows them.
    pub(super) fn shown(&self) -> String {
        self.0.iter().map(|(_, listener)| listener.to_string()).collect::<Vec<_>>().join(" and ")
    }

    /// The place of one of these listeners that keeps another one from this place.
    fn in_the_way_of(&self, place: &Listen) -> Option<&Listen> {
        let port = |place: &ListenAddress| match place {
            ListenAddress::Inet(address) => Some(address.port()),
            ListenAddress::EveryAddress(port) => Some(*port),
            ListenAddress::Unix(_) => None,
        };
        let is_same = |known: &Listen| match (&known.place, &place.place) {
            (ListenAddress::Unix(known), ListenAddress::Unix(place)) => known.path == place.path,
            (known, place) => port(known).is_some() && port(known) == port(place),
        };
        self.0.iter().map(|(known, _)| known).find(|known| is_same(known))
    }
}

/// Finds places that are in each other's way.
pub(super) fn check(flags: &flags::Serve) -> Result<(), Failure> {
    for (number, listen) in flags.listen.iter().enumerate() {
        let place = &listen.place;
        if let Some(other) = flags.listen[..number].iter().find(|other| are_one(&other.place, place)) {
            return Err(Failure::Usage(format!(
                "--listen {place} is a part of --listen {}: leave one of them out (see flash serve --help)",
                other.place
            )));
        }
    }
    Ok(())
}

/// Whether only one of them can be listened at.
fn are_one(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (one, other) {
        (ListenAddress::Unix(one), ListenAddress::Unix(other)) => one.path == other.path,
        (ListenAddress::Inet(one), ListenAddress::Inet(other)) => {
            let is_every = one.ip().is_unspecified() || other.ip().is_unspecified();
            one.port() == other.port()
                && one.port() != 0
                && one.is_ipv4() == other.is_ipv4()
                && (is_every || one.ip() == other.ip())
        }
        (ListenAddress::EveryAddress(every), ListenAddress::Inet(one))
        | (ListenAddress::Inet(one), ListenAddress::EveryAddress(every)) => {
            *every != 0 && one.port() == *every
        }
        (ListenAddress::EveryAddress(one), ListenAddress::EveryAddress(other)) => *one != 0 && one == other,
        (ListenAddress::Unix(_), _) | (_, ListenAddress::Unix(_)) => false,
    }
}

/// Whether `[::]` is for IPv6 alone: among all places there is one for IPv4 of its port.
fn leaves_ipv4(wanted: &Listen, all: &[Listen]) -> bool {
    let ListenAddress::Inet(SocketAddr::V6(address)) = wanted.place else { return false };
    let port = address.port();
    let is_it = |other: &Listen| matches!(other.place, ListenAddress::Inet(SocketAddr::V4(other)) if other.port() == port);
    port != 0 && address.ip().is_unspecified() && all.iter().any(is_it)
}

fn listen(
    wanted: &Listen,
    all: &[Listen],
    user: Option<&str>,
    present: &Listeners,
) -> Result<Listener, Failure> {
    let place = &wanted.place;
    let listener = match place {
        ListenAddress::Inet(address) if leaves_ipv4(wanted, all) => Listener::inet6(*address),
        ListenAddress::Inet(address) => Listener::inet(*address),
        ListenAddress::EveryAddress(port) => {
            Listener::inet(SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port))).or_else(|error| {
                match error.kind() {
                    // A machine without IPv6.
                    ErrorKind::AddrNotAvailable | ErrorKind::Unsupported => {
                        Listener::inet(SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)))
                    }
                    _ if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {
                        Listener::inet(SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)))
                    }
                    _ => Err(error),
                }
            })
        }
        ListenAddress::Unix(place) => {
            socket_access(place, user).and_then(|access| listen_unix(&place.path, access, user))
        }
    };
    let in_the_way = present.in_the_way_of(wanted);
    listener.map_err(|error| match (place, error.kind()) {
        (_, ErrorKind::AddrInUse) if in_the_way.is_some() => {
            let known = in_the_way.map(|known| known.place.to_string()).unwrap_or_default();
            Failure::Run(format!(
                "cannot listen at {place}: this server listens at {known}, and only a restart changes that"
            ))
        }
        (ListenAddress::Inet(_) | ListenAddress::EveryAddress(_), ErrorKind::PermissionDenied) => Failure::Run(format!(
            "cannot listen at {place}: ports below 1024 are for root, and for programs with CAP_NET_BIND_SERVICE"
        )),
        _ => cannot(format_args!("listen at {place}"), &error),
    })
}

/// Listens at a Unix socket, which is made by the server's user if that user may.
pub(super) fn listen_unix(path: &Path, access: SocketAccess, user: Option<&str>) -> io::Result<Listener> {
    let of_maker = SocketAccess { mode: access.mode, ..SocketAccess::default() };
    let listener = privileges::as_user_first(user, || Listener::unix(path, of_maker))?;
    listener.set_access(access)?;
    Ok(listener)
}

/// A predecessor has made the socket, and the right to change who may connect is missing.
pub(super) fn say_it_stays(place: &str, error: &io::Error) {
    child::log(format_args!(
        "cannot change the mode and the owner of {place}: {error}: they stay what they were until a restart"
    ));
}

/// Who may connect. With --user the socket is that user's, and the group's that is given or that user's own.
fn socket_access(place: &UnixAddress, user: Option<&str>) -> io::Result<SocketAccess> {
    let user = user.map(privileges::user_of).transpose().map_err(io::Error::other)?.map(|(_, user)| user);
    let group = match &place.group {
        Some(name) => {
            let group = flash_os::user::group_named(name.as_bytes()).or_else(|| name.parse().ok());
            Some(group.ok_or_else(|| io::Error::other(format!("there is no group {name}")))?)
        }
        None => user.as_ref().map(|user| user.group),
    };
    Ok(SocketAccess { mode: place.mode, user: user.map(|user| user.id), group })
}
