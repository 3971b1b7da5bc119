//! ConnectionPermits: there is one for each connection that there may be at a time. Where all are taken, the connection that has been
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

use crate::completion_queue::{Completion, CompletionQueue};
use crate::listener;
use crate::server_state::ServerState;

pub(crate) struct ConnectionPermits {
    connections_max: usize,
    connections: AtomicUsize,
    waiting_count: AtomicUsize,
    /// The inboxes of all that may have idle connections.
    hosts: OnceLock<Vec<Arc<CompletionQueue>>>,
}

/// One of the connections that there may be at a time.
pub(crate) struct ConnectionPermit(Arc<ServerState>);

/// A new connection that found all permits taken.
pub(crate) struct WaitingConnection {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    hosts_asked: usize,
    waiting: Waiting,
}

/// It is counted while it waits for a permit.
struct Waiting(Arc<ServerState>);

/// More waiting connections than these are turned away at once. Each has a descriptor that no permit allows for.
const WAITING_MAX: usize = 64;

impl ConnectionPermits {
    pub(crate) fn new(connections_max: usize) -> Self {
        let (connections, waiting_count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { connections_max, connections, waiting_count, hosts: OnceLock::new() }
    }

    pub(crate) fn are_taken(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > 0
    }

    /// Whether a connection waits for a permit.
    pub(crate) fn are_wanted(&self) -> bool {
        self.waiting_count.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn set_hosts(&self, hosts: Vec<Arc<CompletionQueue>>) {
        // They are the same for as long as the process lives.
        let _ = self.hosts.set(hosts);
    }

    /// The next one, unless all have been asked.
    fn host_after(&self, host: &Arc<CompletionQueue>, asked: usize) -> Option<&Arc<CompletionQueue>> {
        let hosts = self.hosts.get().filter(|hosts| asked < hosts.len())?;
        let place = hosts.iter().position(|other| Arc::ptr_eq(other, host))?;
        hosts.get((place + 1) % hosts.len())
    }
}

impl ServerState {
    /// A permit for a new connection, if there is one.
    pub(crate) fn permit(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let most = self.permits.connections_max;
        let more = |count| (count < most).then_some(count + 1);
        self.permits.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        self.metrics.connections.add(1);
        Some(ConnectionPermit(Arc::clone(self)))
    }

    /// A new connection waits for a permit, unless too many wait.
    pub(crate) fn waiting_connection(
        self: &Arc<Self>,
        socket: OwnedFd,
        peer: Peer,
    ) -> Option<WaitingConnection> {
        let others = self.permits.waiting_count.fetch_add(1, Ordering::Relaxed);
        let waiting_connection =
            WaitingConnection { socket, peer, hosts_asked: 0, waiting: Waiting(Arc::clone(self)) };
        if others >= WAITING_MAX {
            waiting_connection.turn_away();
            return None;
        }
        Some(waiting_connection)
    }
}

impl WaitingConnection {
    /// This loop has no idle connection. The next one is asked, if there is one that was not.
    pub(crate) fn pass_on(mut self, host: &Arc<CompletionQueue>) {
        self.hosts_asked += 1;
        let shared = Arc::clone(&self.waiting.0);
        match shared.permits.host_after(host, self.hosts_asked) {
            Some(next) => next.push(0, Completion::WaitingConnection(self)),
            None => self.turn_away(),
        }
    }

    /// Waits for a permit that a connection leaves, or that an idle one gives up because permits are
    /// [wanted](ConnectionPermits::are_wanted).
    pub(crate) fn wait(&self, patience: Duration) -> Option<ConnectionPermit> {
        const LOOK_EVERY: Duration = Duration::from_millis(10);
        let give_up = Instant::now() + patience;
        loop {
            thread::sleep(LOOK_EVERY);
            let permit = self.waiting.0.permit();
            if permit.is_some() || Instant::now() >= give_up {
                return permit;
            }
        }
    }

    pub(crate) fn turn_away(self) {
        static FULL: RateLimit = RateLimit::every(Duration::from_secs(5));
        let ServerState { permits, metrics, error_log, .. } = &*self.waiting.0;
        let most = permits.connections_max;
        metrics.shed.add(1);
        error_log.log_limited(&FULL, format_args!("{most} connections are open: one more was turned away"));
        listener::turn_away(&self.socket);
    }
}

impl ConnectionPermit {
    /// The same permit for another connection.
    pub(crate) fn pass_on(self) -> Self {
        self.0.metrics.connections.add(1);
        self
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.permits.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.permits.waiting_count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for WaitingConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingConnection").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::Limits;
    use crate::completion_queue::Completion;
    use crate::testing;

    fn shared(connections_max: usize) -> Arc<ServerState> {
        let folder = tempfile::tempdir().unwrap();
        testing::shared(folder.path(), Limits { connections_max, drain: Duration::ZERO }, 1_000)
    }

    fn visitor_in(completions: &CompletionQueue) -> Option<WaitingConnection> {
        completions.drain().next().map(|(_, completion)| match completion {
            Completion::WaitingConnection(waiting_connection) => waiting_connection,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_visitor_asks_each_host_once_and_is_turned_away() {
        let shared = shared(0);
        let hosts: Vec<_> = (0..3).map(|_| Arc::new(CompletionQueue::new().unwrap())).collect();
        shared.permits.set_hosts(hosts.clone());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        assert!(shared.permit().is_none());
        shared.waiting_connection(ours.into(), Peer::Unix).unwrap().pass_on(&hosts[1]);
        assert!(shared.permits.are_wanted());
        for place in [2, 0] {
            visitor_in(&hosts[place]).expect("it is its turn").pass_on(&hosts[place]);
        }
        assert!(hosts.iter().all(|host| visitor_in(host).is_none()));
        assert!(!shared.permits.are_wanted());
        let mut answer = String::new();
        theirs.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }

    #[test]
    fn there_are_as_many_seats_as_connections_and_few_visitors() {
        let shared = shared(2);
        let permits = [shared.permit().unwrap(), shared.permit().unwrap()];
        assert!(shared.permit().is_none());
        let [one, other] = permits.map(ConnectionPermit::pass_on);
        drop(one);
        assert!(shared.permit().is_some());
        drop(other);
        assert!(!shared.permits.are_taken());
        let visit = || shared.waiting_connection(UnixStream::pair().unwrap().0.into(), Peer::Unix);
        let waiting_count: Vec<_> = (0..WAITING_MAX).map_while(|_| visit()).collect();
        assert_eq!(waiting_count.len(), WAITING_MAX);
        assert!(visit().is_none());
        drop(waiting_count);
        assert!(visit().is_some());
    }
}
