//! One process's part in an exchange, and who hears of its life.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use flash_core::program::{Finish, Lease, Refusal};
use rustix::io::Errno;
use rustix::net::Shutdown;

use super::{Event, Pool};
use crate::clerk::Letter;
use crate::fastcgi::abort;
use crate::keeper::{Started, Watcher};
use crate::lines::Lines;
use crate::wire::Ended;

/// The right to a process for one request. Dropping it ends the process.
pub(super) struct Loan {
    pool: Arc<Pool>,
    number: u64,
    name: Arc<str>,
    lines: Lines,
    has_begun: bool,
    is_over: bool,
}

/// An answer that nobody wants any more, up to its end: then its process is free.
pub(crate) struct Winding {
    pool: Arc<Pool>,
    number: u64,
    pub(crate) stream: OwnedFd,
    pub(crate) give_up_at: Instant,
}

/// Hears of a process's beginning and end.
pub(super) struct Staff {
    /// The keeper holds this, and the pool may go before.
    pool: Weak<Pool>,
    number: u64,
}

/// What a process gets to notice that nobody listens. After that it is ended.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What is read of them at a time.
const BUFFER_BYTES: usize = 64 << 10;

impl Loan {
    pub(super) fn new(pool: Arc<Pool>, number: u64, name: Arc<str>) -> Self {
        Self { pool, number, name, lines: Lines::default(), has_begun: false, is_over: false }
    }
}

impl Lease for Loan {
    fn begins(&mut self) {
        self.has_begun = true;
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.lines.take(bytes, |line| self.pool.hears.complaint(&self.name, line));
    }

    fn finish(mut self: Box<Self>, stream: OwnedFd, how: Finish) {
        self.is_over = true;
        let number = self.number;
        match how {
            Finish::Reusable => self.pool.tell(Event::Free { number, stream: Some(stream) }),
            Finish::Ended => {
                drop(stream);
                self.pool.tell(Event::Free { number, stream: None });
            }
            Finish::Aborted => {
                abort(&stream);
                // It is served to its end otherwise, in the hope of another request.
                let _ = rustix::net::shutdown(&stream, Shutdown::Write);
                let give_up_at = Instant::now() + LAST_WORDS;
                let winding = Winding { pool: Arc::clone(&self.pool), number, stream, give_up_at };
                self.pool.clerk.put(Letter::Wind(winding));
            }
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.lines.end(|line| self.pool.hears.complaint(&self.name, line));
        let number = self.number;
        match (self.is_over, self.has_begun) {
            (true, _) => {}
            (false, true) => self.pool.tell(Event::Useless { number }),
            (false, false) => self.pool.tell(Event::Unused { number }),
        }
    }
}

impl Winding {
    /// Reads what there is. Returns itself if there may be more to come.
    pub(crate) fn read(self) -> Option<Self> {
        let mut buffer = vec![0; BUFFER_BYTES];
        match rustix::io::read(&self.stream, &mut buffer[..]) {
            Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => return Some(self),
            Ok(0) | Err(_) => {}
        }
        self.pool.hear(Event::Free { number: self.number, stream: None });
        None
    }

    /// It has taken too long.
    pub(crate) fn give_up(self) {
        self.pool.hear(Event::Useless { number: self.number });
    }
}

impl Staff {
    pub(super) fn new(pool: &Arc<Pool>, number: u64) -> Self {
        Self { pool: Arc::downgrade(pool), number }
    }

    /// Not on this thread, which is the keeper's: starting another would be asking itself.
    fn tell(&self, event: Event) {
        if let Some(pool) = self.pool.upgrade() {
            let clerk = Arc::clone(&pool.clerk);
            clerk.put(Letter::Pool(pool, event));
        }
    }
}

impl Watcher for Staff {
    fn begun(&mut self, result: Result<Started, Refusal>) {
        self.tell(Event::Started { number: self.number, result });
    }

    fn ended(&mut self, how: Ended) {
        self.tell(Event::Ended { number: self.number, how });
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("name", &self.name).field("number", &self.number).finish_non_exhaustive()
    }
}
