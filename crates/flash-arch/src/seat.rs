//! Seats: there is one for each connection that there may be at a time. Where all are taken, the connection that has been
//! idle for longest is closed, and its seat is a new one's.
//!
//! Each loop knows its own idle connections and nothing of others'. A new connection whose loop has none goes to the
//! next loop, and is turned away when it has been to all of them.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use flash_core::record::Peer;
use flash_observe::RateLimit;

use crate::accept;
use crate::inbox::{Inbox, Letter};
use crate::shared::Shared;

pub(crate) struct Seats {
    connections_max: usize,
    connections: AtomicUsize,
    visitors: AtomicUsize,
    /// The inboxes of all that may have idle connections.
    hosts: OnceLock<Vec<Arc<Inbox>>>,
}

/// One of the connections that there may be at a time.
pub(crate) struct Seat(Arc<Shared>);

/// A new connection that found all seats taken.
pub(crate) struct Visitor {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    hosts_asked: usize,
    waiting: Waiting,
}

/// It is counted while it looks for a seat.
struct Waiting(Arc<Shared>);

/// More visitors than these are turned away at once. Each has a descriptor that no seat allows for.
const VISITORS_MAX: usize = 64;

impl Seats {
    pub(crate) fn new(connections_max: usize) -> Self {
        let (connections, visitors) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { connections_max, connections, visitors, hosts: OnceLock::new() }
    }

    pub(crate) fn are_taken(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > 0
    }

    /// Whether a connection waits for a seat.
    pub(crate) fn are_wanted(&self) -> bool {
        self.visitors.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn set_hosts(&self, hosts: Vec<Arc<Inbox>>) {
        // They are the same for as long as the process lives.
        let _ = self.hosts.set(hosts);
    }

    /// The next one, unless all have been asked.
    fn host_after(&self, host: &Arc<Inbox>, asked: usize) -> Option<&Arc<Inbox>> {
        let hosts = self.hosts.get().filter(|hosts| asked < hosts.len())?;
        let place = hosts.iter().position(|other| Arc::ptr_eq(other, host))?;
        hosts.get((place + 1) % hosts.len())
    }
}

impl Shared {
    /// A seat for a new connection, if there is one.
    pub(crate) fn seat(self: &Arc<Self>) -> Option<Seat> {
        let most = self.seats.connections_max;
        let more = |count| (count < most).then_some(count + 1);
        self.seats.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        self.metrics.connections.add(1);
        Some(Seat(Arc::clone(self)))
    }

    /// A new connection becomes a visitor, unless there are too many.
    pub(crate) fn visitor(self: &Arc<Self>, socket: OwnedFd, peer: Peer) -> Option<Visitor> {
        let others = self.seats.visitors.fetch_add(1, Ordering::Relaxed);
        let visitor = Visitor { socket, peer, hosts_asked: 0, waiting: Waiting(Arc::clone(self)) };
        if others >= VISITORS_MAX {
            visitor.turn_away();
            return None;
        }
        Some(visitor)
    }
}

impl Visitor {
    /// This host has no idle connection. The next one is asked, if there is one that was not.
    pub(crate) fn pass_on(mut self, host: &Arc<Inbox>) {
        self.hosts_asked += 1;
        let shared = Arc::clone(&self.waiting.0);
        match shared.seats.host_after(host, self.hosts_asked) {
            Some(next) => next.put(0, Letter::Visitor(self)),
            None => self.turn_away(),
        }
    }

    /// Waits for a seat that a connection leaves, or that an idle one gives up because seats are
    /// [wanted](Seats::are_wanted).
    pub(crate) fn wait(&self, patience: Duration) -> Option<Seat> {
        const LOOK_EVERY: Duration = Duration::from_millis(10);
        let give_up = Instant::now() + patience;
        loop {
            thread::sleep(LOOK_EVERY);
            let seat = self.waiting.0.seat();
            if seat.is_some() || Instant::now() >= give_up {
                return seat;
            }
        }
    }

    pub(crate) fn turn_away(self) {
        static FULL: RateLimit = RateLimit::every(Duration::from_secs(5));
        let Shared { seats, metrics, error_log, .. } = &*self.waiting.0;
        let most = seats.connections_max;
        metrics.shed.add(1);
        error_log.log_limited(&FULL, format_args!("{most} connections are open: one more was turned away"));
        accept::turn_away(&self.socket);
    }
}

impl Seat {
    /// The same seat for another connection.
    pub(crate) fn pass_on(self) -> Self {
        self.0.metrics.connections.add(1);
        self
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.seats.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.seats.visitors.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Visitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::Limits;
    use crate::inbox::Letter;
    use crate::testing;

    fn shared(connections_max: usize) -> Arc<Shared> {
        let folder = tempfile::tempdir().unwrap();
        testing::shared(folder.path(), Limits { connections_max, drain: Duration::ZERO }, 1_000)
    }

    fn visitor_in(inbox: &Inbox) -> Option<Visitor> {
        inbox.empty().next().map(|(_, letter)| match letter {
            Letter::Visitor(visitor) => visitor,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_visitor_asks_each_host_once_and_is_turned_away() {
        let shared = shared(0);
        let hosts: Vec<_> = (0..3).map(|_| Arc::new(Inbox::new().unwrap())).collect();
        shared.seats.set_hosts(hosts.clone());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        assert!(shared.seat().is_none());
        shared.visitor(ours.into(), Peer::Unix).unwrap().pass_on(&hosts[1]);
        assert!(shared.seats.are_wanted());
        for place in [2, 0] {
            visitor_in(&hosts[place]).expect("it is its turn").pass_on(&hosts[place]);
        }
        assert!(hosts.iter().all(|host| visitor_in(host).is_none()));
        assert!(!shared.seats.are_wanted());
        let mut answer = String::new();
        theirs.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }

    #[test]
    fn there_are_as_many_seats_as_connections_and_few_visitors() {
        let shared = shared(2);
        let seats = [shared.seat().unwrap(), shared.seat().unwrap()];
        assert!(shared.seat().is_none());
        let [one, other] = seats.map(Seat::pass_on);
        drop(one);
        assert!(shared.seat().is_some());
        drop(other);
        assert!(!shared.seats.are_taken());
        let visit = || shared.visitor(UnixStream::pair().unwrap().0.into(), Peer::Unix);
        let visitors: Vec<_> = (0..VISITORS_MAX).map_while(|_| visit()).collect();
        assert_eq!(visitors.len(), VISITORS_MAX);
        assert!(visit().is_none());
        drop(visitors);
        assert!(visit().is_some());
    }
}
