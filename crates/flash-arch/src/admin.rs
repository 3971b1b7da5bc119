//! The admin socket: how an administrator asks a server, and tells it to reload.
//!
//! It is HTTP/1.1 at a Unix socket, so `curl --unix-socket` speaks it. An [`AdminServer`] waits for no loop, no disk and no client.
//! It has a thread of its own, or a part of each turn of mp's parent, which has no threads. So it answers at full load, during a disk
//! hang and while the server drains. Only root and the server's user may use it.
//!
//! A second listener may stand at an address. Whoever reaches that may read, and change nothing. What a server can tell and do is
//! behind [`Administered`].

mod administered;
mod client;
pub(crate) mod gather;
pub(crate) mod history;
mod host;
mod last_minute;
pub(crate) mod listeners;
mod open_metrics;
mod page;
mod request;
mod response;
pub(crate) mod slowest;
pub mod snapshot;
pub(crate) mod thread;
pub(crate) mod top_clients;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_os::poller::{Event, Interest, Poller};
use flash_os::socket::{self, Waits};
use flash_os::waker::Waker;
use rustix::event::PollFd;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

pub(crate) use self::administered::Administered;
use self::client::AdminClient;
use self::history::History;
use self::host::{Access, Policy};
use self::request::{Answer, Subject, respond};
use self::response::Response;
pub(crate) use self::snapshot::Snapshot;
use crate::admin::listeners::AdminListeners;
use crate::connections::listener::Listener;

/// More connections at once to one listener are refused.
const CONNECTIONS_MAX: usize = 16;
/// So many clients that are refused are told so. More connections are closed at once.
const REFUSED_MAX: usize = 100;
/// More clients that watch at once are refused.
const WATCHERS_MAX: usize = 8;
/// How often the history looks at the server.
const EVERY: Duration = Duration::from_secs(1);
/// How soon a browser asks again after the connection was lost.
const RETRY: &str = "retry: 1000\n\n";
const EVENTS_MAX: usize = 64;
const WAKER: u64 = 0;
const SOCKET: u64 = 1;

/// Answers administrators. No call waits.
pub(crate) struct AdminServer {
    listeners: Vec<(Listener, Policy)>,
    clients: Vec<AdminClient>,
    history: History,
    next_look: Instant,
    /// Watches all sockets. Its events only wake: a turn tries all sockets, which are few.
    poller: Poller,
    events: Vec<Event>,
    /// Woken when the outcome of a request is there.
    waker: Arc<Waker>,
}

impl AdminServer {
    pub(crate) fn new(listeners: AdminListeners) -> io::Result<Self> {
        let AdminListeners { socket, read_only, hosts, upgrader } = listeners;
        let upgrader = upgrader.map(Arc::new);
        let mut server = Self {
            listeners: Vec::new(),
            clients: Vec::new(),
            history: History::default(),
            next_look: Instant::now(),
            poller: Poller::new()?,
            events: Vec::with_capacity(EVENTS_MAX),
            waker: Arc::new(Waker::new()?),
        };
        server.poller.add_waker(&server.waker, WAKER)?;
        for (listener, access) in [(socket, Access::Full), (read_only, Access::ReadOnly)] {
            let Some(listener) = listener else { continue };
            listener.set_nonblocking()?;
            watch(&server.poller, &listener)?;
            let policy = Policy { access, hosts: Arc::clone(&hosts), upgrader: upgrader.clone() };
            server.listeners.push((listener, policy));
        }
        Ok(server)
    }

    /// What tells when there is something to do.
    pub(crate) fn polled(&self) -> Vec<PollFd<'_>> {
        self.poller.polled()
    }

    /// When there is something to do without an event.
    pub(crate) fn due(&self) -> Instant {
        self.next_look
    }

    /// Whether no client is there, and none can come.
    pub(crate) fn is_over(&self) -> bool {
        self.listeners.is_empty() && self.clients.is_empty()
    }

    /// Accepts no more. What has been asked is answered.
    pub(crate) fn leave(&mut self) {
        for (listener, _) in self.listeners.drain(..) {
            // Another process may have the socket, so a close would not end the watch.
            let _ = self.poller.delete(&listener);
        }
        self.forget(AdminClient::is_watching);
    }

    /// Does what there is to do.
    pub(crate) fn turn(&mut self, server: &mut dyn Administered, now: Instant) {
        let waited = self.poller.wait(&mut self.events, Some(Duration::ZERO));
        let is_woken = waited.is_ok() && !self.events.is_empty();
        let looks = now >= self.next_look && !self.is_over();
        if !is_woken && !looks {
            return;
        }
        self.accept(now);
        if looks {
            self.look(server, now);
        }
        for at in 0..self.clients.len() {
            if let Some(request) = self.clients[at].request() {
                self.answer(at, &request, server, now);
            }
            self.clients[at].go_on(now);
        }
        self.forget(AdminClient::is_gone);
        self.rearm();
    }

    /// Asks for the next event of each socket, where one is not told of all.
    fn rearm(&self) {
        // If it fails, the next look finds what has happened.
        for (listener, _) in &self.listeners {
            let _ = self.poller.rearm(listener, SOCKET, true, false);
        }
        for client in &self.clients {
            let (input, room) = client.awaits();
            let _ = self.poller.rearm_wanted(client, SOCKET, input, room);
        }
    }

    fn accept(&mut self, now: Instant) {
        for (listener, policy) in &self.listeners {
            loop {
                let socket = match listener.accept(Waits::No) {
                    Ok((socket, _)) => socket,
                    Err(Errno::INTR | Errno::CONNABORTED) => continue,
                    // There is no connection, or what is missing is there at another look.
                    Err(_) => break,
                };
                let is_alike =
                    |other: &&AdminClient| !other.is_watching() && other.policy.access == policy.access;
                let alike = self.clients.iter().filter(is_alike).count();
                if alike >= CONNECTIONS_MAX + REFUSED_MAX {
                    continue;
                }
                let is_refused = policy.access == Access::Full && !may_ask(&socket);
                let mut client = AdminClient::new(socket, policy.clone(), now);
                if is_refused {
                    client
                        .respond(&Response::text(403, "only root and the server's user may ask here\n"), now);
                } else if alike >= CONNECTIONS_MAX {
                    client.respond(&Response::text(503, "too many connections to this listener\n"), now);
                }
                if watch(&self.poller, &client).is_ok() {
                    self.clients.push(client);
                }
            }
        }
    }

    /// Looks at the server. If nobody watches, it reads a few counters only.
    fn look(&mut self, server: &mut dyn Administered, now: Instant) {
        self.next_look = (self.next_look + EVERY).max(now);
        let needs_sites = self.history.needs_sites(now);
        self.history.add(server.sample(), now);
        if needs_sites {
            self.history.add_sites(&server.changed_sites(), now);
        }
        if self.clients.iter().any(AdminClient::is_watching) {
            let event = event(&self.subject(server));
            self.clients.iter_mut().for_each(|client| client.tell(&event, now));
        }
    }

    fn subject<'s>(&'s self, server: &'s mut dyn Administered) -> Subject<'s> {
        let is_reloading = self.clients.iter().any(AdminClient::reloads);
        Subject { server, history: &self.history, waker: &self.waker, is_reloading }
    }

    fn answer(&mut self, at: usize, request: &[u8], server: &mut dyn Administered, now: Instant) {
        match respond(request, &self.clients[at].policy, self.subject(server)) {
            Answer::Later(pending) => self.clients[at].wait(pending),
            Answer::Now(response) if !response.is_stream() => self.clients[at].respond(&response, now),
            Answer::Now(_)
                if self.clients.iter().filter(|client| client.is_watching()).count() >= WATCHERS_MAX =>
            {
                self.clients[at].respond(&Response::text(503, "too many watch already\n"), now);
            }
            Answer::Now(head) => {
                // The first event does not wait for the next second.
                let event = event(&self.subject(server));
                self.clients[at].watch([&head.bytes(), RETRY.as_bytes(), event.as_bytes()].concat(), now);
            }
        }
    }

    /// Forgets clients of this kind.
    fn forget(&mut self, is_over: impl Fn(&AdminClient) -> bool) {
        for client in self.clients.extract_if(.., |client| is_over(client)) {
            // A worker of mp may have the socket too, so a close would end neither the watch nor the connection.
            let _ = self.poller.delete(&client);
            // In a sandbox, where no other process has it, this is refused and not needed.
            let _ = shutdown(&client, Shutdown::Both);
        }
    }
}

/// What those who watch get.
fn event(subject: &Subject<'_>) -> String {
    format!("data: {}\n\n", subject.page().event())
}

fn watch(poller: &Poller, socket: impl AsFd) -> io::Result<()> {
    Ok(poller.add(socket, SOCKET, Interest::BOTH.edge())?)
}

/// Whether the client is root or the server's user. The socket's mode says the same, but it can be changed.
fn may_ask(client: &OwnedFd) -> bool {
    let own = rustix::process::geteuid().as_raw();
    socket::peer(client).is_ok_and(|peer| peer.user == 0 || peer.user == own)
}

#[cfg(test)]
mod tests;
