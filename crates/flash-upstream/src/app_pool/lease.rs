//! One process's part in an exchange: its lease, the rest of an answer after an abort, and the observer of its life.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use flash_core::upstream::{Lease, OpenError, ReleaseMode};
use flash_process::{ExitStatus, LineLimiter, ProcessObserver, Started};
use rustix::io::Errno;
use rustix::net::Shutdown;

use super::{AppPool, Event};
use crate::background::Command;
use crate::fastcgi::abort;

/// The lease of a process for one request. Dropping it ends the process.
pub(super) struct ProcessLease {
    pool: Arc<AppPool>,
    number: u64,
    name: Arc<str>,
    lines: LineLimiter,
    has_begun: bool,
    is_over: bool,
}

/// The rest of an answer that has no reader any more. At its end its process is free.
pub(crate) struct Draining {
    pool: Arc<AppPool>,
    number: u64,
    pub(crate) stream: OwnedFd,
    pub(crate) give_up_at: Instant,
}

/// Tells the pool of a process's start and end.
pub(super) struct PoolObserver {
    /// The monitor holds this, and the pool may go before.
    pool: Weak<AppPool>,
    number: u64,
}

/// How long a process may take to notice that its client is gone. Then it is ended.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// What is read of them at a time.
const BUFFER_BYTES: usize = 64 << 10;

impl ProcessLease {
    pub(super) fn new(pool: Arc<AppPool>, number: u64, name: Arc<str>) -> Self {
        Self { pool, number, name, lines: LineLimiter::default(), has_begun: false, is_over: false }
    }
}

impl Lease for ProcessLease {
    fn begins(&mut self) {
        self.has_begun = true;
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.lines.push(bytes, |line| self.pool.reporter.stderr_line(&self.name, line));
    }

    fn finish(mut self: Box<Self>, stream: OwnedFd, how: ReleaseMode) {
        self.is_over = true;
        let number = self.number;
        match how {
            ReleaseMode::Reusable => self.pool.tell(Event::Free { number, stream: Some(stream) }),
            ReleaseMode::Ended => {
                drop(stream);
                self.pool.tell(Event::Free { number, stream: None });
            }
            ReleaseMode::Aborted => {
                abort(&stream);
                // It is served to its end otherwise, in the hope of another request.
                let _ = rustix::net::shutdown(&stream, Shutdown::Write);
                let give_up_at = Instant::now() + DRAIN_MAX;
                let draining = Draining { pool: Arc::clone(&self.pool), number, stream, give_up_at };
                self.pool.background.send(Command::Drain(draining));
            }
        }
    }
}

impl Drop for ProcessLease {
    fn drop(&mut self) {
        self.lines.end(|line| self.pool.reporter.stderr_line(&self.name, line));
        let number = self.number;
        match (self.is_over, self.has_begun) {
            (true, _) => {}
            (false, true) => self.pool.tell(Event::Useless { number }),
            (false, false) => self.pool.tell(Event::Unused { number }),
        }
    }
}

impl Draining {
    /// Reads what there is. Returns itself if there may be more to come.
    pub(crate) fn read(self) -> Option<Self> {
        let mut buffer = vec![0; BUFFER_BYTES];
        match rustix::io::read(&self.stream, &mut buffer[..]) {
            Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => return Some(self),
            Ok(0) | Err(_) => {}
        }
        self.pool.handle(Event::Free { number: self.number, stream: None });
        None
    }

    /// It has taken too long.
    pub(crate) fn give_up(self) {
        self.pool.handle(Event::Useless { number: self.number });
    }
}

impl PoolObserver {
    pub(super) fn new(pool: &Arc<AppPool>, number: u64) -> Self {
        Self { pool: Arc::downgrade(pool), number }
    }

    /// Not on this thread, which is the monitor's: starting another would be asking itself.
    fn tell(&self, event: Event) {
        if let Some(pool) = self.pool.upgrade() {
            let background = Arc::clone(&pool.background);
            background.send(Command::Pool(pool, event));
        }
    }
}

impl ProcessObserver for PoolObserver {
    fn started(&mut self, result: Result<Started, OpenError>) {
        self.tell(Event::Started { number: self.number, result });
    }

    fn exited(&mut self, how: ExitStatus) {
        self.tell(Event::Ended { number: self.number, how });
    }
}

impl fmt::Debug for ProcessLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessLease")
            .field("name", &self.name)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
