//! Listening sockets that another process has opened and passed on: the service manager, or the server before an upgrade.
//!
//! A socket serves the place that `--listen` or `--admin` gives, if its address or path is the same. So the configuration reads
//! the same with and without them.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::path::Path;

use flash_arch::Listener;
use flash_os::activation;
use flash_process::hot_paths::{self, HOT_PATHS};
use flash_process::{EarlierServer, EarlierServers, HotPath, Predecessor, predecessor};

use crate::failure::Failure;
use crate::flags::ListenAddress;

/// Those that serve no place yet.
#[derive(Default)]
pub(super) struct Inherited(Vec<Listener>);

/// What a server to be replaced passes on besides sockets.
#[derive(Default)]
pub(super) struct Legacy {
    /// What it is asked for most often.
    pub(super) hot_paths: Vec<HotPath>,
    /// It, and those whose place it and others have taken.
    pub(super) earlier_servers: EarlierServers,
}

impl Inherited {
    /// Takes the sockets from the environment. In an upgrade there is a server to be replaced, too, and what else it passes on.
    pub(super) fn take() -> Result<(Self, Option<Predecessor>, Legacy), Failure> {
        let cannot = |error: io::Error| Failure::Run(error.to_string());
        let mut passed = activation::take_sockets().map_err(cannot)?;
        let predecessor = match passed.iter().rev().map(|passed| &*passed.name).take(2).collect::<Vec<_>>()[..]
        {
            [predecessor::STDERR, predecessor::PREDECESSOR] => {
                let mut last = passed.split_off(passed.len() - 2).into_iter().map(|passed| passed.socket);
                last.next().zip(last.next()).map(|(socket, stderr)| Predecessor::new(socket, stderr))
            }
            _ => None,
        };
        let predecessor = predecessor.transpose().map_err(cannot)?;
        let legacy = if predecessor.is_some() { Legacy::take(&mut passed) } else { Legacy::default() };
        let listener = |passed: activation::Passed| {
            let listener = Listener::inherited(passed.socket).map_err(|error| {
                let name = passed.name.escape_debug();
                Failure::Run(format!("cannot listen at the inherited socket `{name}`: {error}"))
            });
            let listener = listener?.named(passed.name);
            let is_own = predecessor::own_place(listener.name()).is_some();
            Ok::<_, Failure>(if is_own { listener.taken_over() } else { listener })
        };
        let all = passed.into_iter().map(listener).collect::<Result<_, _>>()?;
        Ok((Self(all), predecessor, legacy))
    }

    /// The socket for this place, if there is one.
    pub(super) fn at(&mut self, place: &ListenAddress) -> Option<Listener> {
        let position = self.0.iter().position(|listener| is_at(listener, place))?;
        Some(self.0.swap_remove(position))
    }

    /// The socket with this path, if there is one.
    pub(super) fn at_path(&mut self, path: &Path) -> Option<Listener> {
        let position = self.0.iter().position(|listener| listener.path() == Some(path))?;
        Some(self.0.swap_remove(position))
    }

    /// A predecessor's socket with this name at this address, if there is one.
    pub(super) fn named(&mut self, name: &str, address: SocketAddr) -> Option<Listener> {
        let is_it = |listener: &Listener| {
            listener.name() == name && listens_at(listener, &ListenAddress::Inet(address), true)
        };
        Some(self.0.swap_remove(self.0.iter().position(is_it)?))
    }

    /// Whether there is a socket with this path that others have made.
    pub(super) fn is_of_others(&self, path: &Path) -> bool {
        self.0.iter().any(|listener| listener.path() == Some(path) && listener.own_name().is_none())
    }

    /// Clients would wait for ever at a socket of the service manager that nobody accepts from. A predecessor's that no listen
    /// names any more is closed.
    pub(super) fn check_all_taken(self) -> Result<(), Failure> {
        let is_of_manager = |listener: &&Listener| predecessor::own_place(listener.name()).is_none();
        let Some(listener) = self.0.iter().find(is_of_manager) else { return Ok(()) };
        let place = match (listener.address(), listener.path()) {
            (Some(address), _) => address.to_string(),
            (None, path) => format!("unix:{}", path.unwrap_or(Path::new("")).display()),
        };
        let name = listener.name().escape_debug();
        Err(Failure::Run(format!(
            "the inherited socket `{name}` listens at {place}, and no listen does: add `{place}` to listen, or take the socket out of \
             its unit"
        )))
    }
}

impl Legacy {
    /// Takes it out of what was passed on.
    fn take(passed: &mut Vec<activation::Passed>) -> Self {
        let (mut hot_paths, mut earlier) = (Vec::new(), Vec::new());
        for activation::Passed { socket, name } in mem::take(passed) {
            match EarlierServer::passed(&name, socket) {
                Ok(server) => earlier.push(server),
                Err(memory) if name == HOT_PATHS => hot_paths = hot_paths::read(&memory),
                Err(socket) => passed.push(activation::Passed { socket, name }),
            }
        }
        Self { hot_paths, earlier_servers: EarlierServers::new(earlier) }
    }
}

/// Whether it listens at this place. A name alone says nothing: a predecessor that was taken over gives any.
fn is_at(listener: &Listener, place: &ListenAddress) -> bool {
    let own = predecessor::own_place(listener.name());
    if own.as_ref().is_some_and(|own| *own != place.to_string()) {
        return false;
    }
    listens_at(listener, place, own.is_some())
}

/// Whether it really listens there. The system `may_have_chosen` the port, if none is given.
fn listens_at(listener: &Listener, place: &ListenAddress, may_have_chosen: bool) -> bool {
    let is_port = |wanted: u16, found: u16| wanted == found || may_have_chosen && wanted == 0;
    match (place, listener.address()) {
        (ListenAddress::Inet(wanted), Some(address)) => {
            let mut wanted = *wanted;
            if is_port(wanted.port(), address.port()) {
                wanted.set_port(address.port());
            }
            wanted == address
        }
        (ListenAddress::EveryAddress(port), Some(address)) => {
            is_port(*port, address.port()) && address.ip().is_unspecified()
        }
        (ListenAddress::Unix(wanted), None) => listener.path() == Some(&wanted.path),
        (ListenAddress::Inet(_) | ListenAddress::EveryAddress(_), None)
        | (ListenAddress::Unix(_), Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_predecessors_name_does_not_make_its_socket_another_one() {
        let name = predecessor::name_of_own("admin-listen 127.0.0.1:0");
        let listener = |address: &str| Listener::inet(address.parse().unwrap()).unwrap().named(name.clone());
        let mut inherited = Inherited(vec![listener("0.0.0.0:0"), listener("127.0.0.1:0")]);
        let taken = inherited.named(&name, "127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(taken.address().unwrap().ip().is_loopback());
        assert!(inherited.named(&name, "127.0.0.1:0".parse().unwrap()).is_none());
    }
}
