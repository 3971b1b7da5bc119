//! Admission: each new connection needs a permit. If all permits are taken, another connection gives way, and the new one gets its
//! permit. Which one that is, [`victims`](crate::connections::victims) says.
//!
//! A client holds a connection without a request until its TLS handshake is complete. So their number has a limit of its own. Beyond
//! it, the connection is closed whose handshake is the oldest of the loop. One that stops in the middle thus keeps no other out.
//!
//! Each loop knows its own connections only. If none of them gives way, the new connection goes to the next loop. When all loops
//! have been asked, the connection is turned away. Where connections move between threads, each thread is asked several times.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flash_core::TransportInfo;
use flash_core::record::ResponseEnd;
use flash_core::record::counters::Count;
use flash_core::record::refusal::Refusal;
use flash_observe::RateLimit;

use crate::clock::server_us;
use crate::completion_queue::{Completion, CompletionQueue};
use crate::connections::listener;
use crate::connections::loop_threads::LoopThreads;
use crate::connections::permit::{ConnectionPermit, WaitingConnection};
use crate::server_state::ServerState;

impl ServerState {
    /// A permit for a new connection, if there is one.
    pub(crate) fn permit(&self) -> Option<ConnectionPermit> {
        let permit = self.permits.take()?;
        self.metrics.add(Count::Connections, 1);
        Some(permit)
    }

    /// The permit of a connection that gives way, for a new connection.
    pub(crate) fn reuse(&self, permit: ConnectionPermit) -> ConnectionPermit {
        self.metrics.add(Count::Evicted, 1);
        self.metrics.add(Count::Connections, 1);
        permit
    }

    /// Whether a new connection's client may have another one. Else turns the connection away, before it takes a permit from
    /// others.
    pub(crate) fn lets_connect(&self, socket: &OwnedFd, transport: &TransportInfo) -> bool {
        let server = &self.configuration().server;
        if server.settings.may_connect(transport) {
            return true;
        }
        self.metrics.add(Count::Shed, 1);
        let now_ms = server_us(Instant::now()) / 1000;
        server.refusals.note_connection(Refusal::Connections, transport.peer, b"", now_ms);
        self.count_refusal(429);
        listener::turn_away_client(socket);
        false
    }

    /// How many connections of a loop may not have finished their TLS handshakes.
    pub(crate) fn handshakes_share(&self) -> u64 {
        let loops = self.threads.get().map_or(1, |threads| threads.loops).max(1);
        (self.configuration().limits.handshakes_max / loops).max(1) as u64
    }

    /// Lets a new connection wait for a permit. Turns it away if too many wait.
    pub(crate) fn waiting_connection(
        &self,
        socket: OwnedFd,
        transport: TransportInfo,
    ) -> Option<WaitingConnection> {
        self.permits.wait(socket, transport).map_err(|socket| self.turn_away(&socket)).ok()
    }

    /// Blocks until a connection leaves a permit, or `given_up` returns that of one that gives way. Turns the connection away if
    /// there is none in time.
    pub(crate) fn wait_for_permit(
        &self,
        waiting_connection: WaitingConnection,
        timeout: Duration,
        mut given_up: impl FnMut() -> Option<ConnectionPermit>,
    ) -> Option<(OwnedFd, ConnectionPermit)> {
        const LOOK_EVERY: Duration = Duration::from_millis(10);
        let give_up = Instant::now() + timeout;
        loop {
            thread::sleep(LOOK_EVERY);
            if let Some(permit) = self.permit().or_else(&mut given_up) {
                return Some((waiting_connection.socket, permit));
            }
            if Instant::now() >= give_up {
                self.turn_away(&waiting_connection.socket);
                return None;
            }
        }
    }

    /// Sets the threads that have connections. They are the same for as long as the process lives.
    pub(crate) fn set_threads(&self, threads: LoopThreads) {
        let _ = self.threads.set(threads);
    }

    /// Passes a connection on, because no connection of this queue's thread gives way. The next one is asked, if there is one that
    /// was not, or not often enough.
    pub(crate) fn pass_on(&self, mut waiting_connection: WaitingConnection, from: &Arc<CompletionQueue>) {
        waiting_connection.loops_asked += 1;
        let threads = self.threads.get();
        match threads.and_then(|threads| threads.after(from, waiting_connection.loops_asked)) {
            Some(next) => next.push(0, Completion::WaitingConnection(waiting_connection)),
            None => self.turn_away(&waiting_connection.socket),
        }
    }

    fn turn_away(&self, socket: &OwnedFd) {
        static FULL: RateLimit = RateLimit::every(Duration::from_secs(5));
        let most = self.permits.connections_max();
        self.metrics.add(Count::Shed, 1);
        self.error_log
            .log_limited(&FULL, format_args!("{most} connections are open: one more was turned away"));
        self.count_refusal(503);
        listener::turn_away(socket);
    }

    /// Counts the response to a connection that is turned away, of which no site is known.
    pub(crate) fn count_refusal(&self, status: u16) {
        let end = ResponseEnd { status, ..ResponseEnd::default() };
        self.metrics.memory().count_refusal(&end);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use flash_core::record::Peer;

    use super::*;
    use crate::connections::permit::WAITING_MAX;
    use crate::{Limits, testing};

    fn shared(connections_max: usize) -> Arc<ServerState> {
        let folder = tempfile::tempdir().unwrap();
        testing::shared(
            folder.path(),
            Limits { connections_max, handshakes_max: 100, ..Limits::default() },
            1_000,
        )
    }

    fn waiting_in(completions: &CompletionQueue) -> Option<WaitingConnection> {
        completions.drain().next().map(|(_, completion)| match completion {
            Completion::WaitingConnection(waiting_connection) => waiting_connection,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_waiting_connection_asks_each_loop_in_each_round_and_is_turned_away() {
        let shared = shared(0);
        let loops: Vec<_> = (0..3).map(|_| Arc::new(CompletionQueue::new().unwrap())).collect();
        shared.set_threads(LoopThreads { loops: 3, queues: loops.clone(), rounds: 2 });
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        assert!(shared.permit().is_none());
        shared.pass_on(
            shared.waiting_connection(ours.into(), TransportInfo::plain(Peer::Unix)).unwrap(),
            &loops[1],
        );
        assert!(shared.permits.are_wanted());
        for place in [2, 0, 1, 2, 0] {
            shared.pass_on(waiting_in(&loops[place]).expect("it is its turn"), &loops[place]);
        }
        assert!(loops.iter().all(|queue| waiting_in(queue).is_none()));
        assert!(!shared.permits.are_wanted());
        let mut answer = String::new();
        theirs.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }

    #[test]
    fn there_are_as_many_permits_as_connections_and_few_connections_wait() {
        let shared = shared(2);
        let permits = [shared.permit().unwrap(), shared.permit().unwrap()];
        assert!(shared.permit().is_none());
        let [one, other] = permits.map(|permit| shared.reuse(permit));
        assert_eq!(shared.metrics.get(Count::Connections), 4, "a reused permit is a connection more");
        drop(one);
        assert!(shared.permit().is_some());
        drop(other);
        assert!(!shared.permits.are_taken());
        let local = TransportInfo::plain(Peer::Unix);
        let wait = || shared.waiting_connection(UnixStream::pair().unwrap().0.into(), local);
        let waiting: Vec<_> = (0..WAITING_MAX).map_while(|_| wait()).collect();
        assert_eq!(waiting.len(), WAITING_MAX);
        assert!(wait().is_none());
        drop(waiting);
        assert!(wait().is_some());
    }
}
