//! What servers of HTTP/2 do in another way: requests share connections, which the [multiplexer](crate::multiplexer) has. One is made at
//! a time, for all requests that come meanwhile.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use flash_core::record::counters::ProgramCount;
use flash_core::upstream::{OnOpened, OpenError, Opened};
use rustix::io::Errno;

use super::{Asking, Http2, Server};
use crate::idle_connections::Kept;
use crate::multiplexer::Origin;

impl Server {
    /// Gives a server of HTTP/2 a request: over a connection that there is, or over one that is made for all that come meanwhile.
    pub(super) fn begin_shared(
        self: &Arc<Self>,
        http2: &Http2,
        asking: Asking,
        reply: OnOpened,
        now: Instant,
    ) -> Option<Opened> {
        if http2.is_open() {
            return Some(self.share(http2, asking));
        }
        let dial = match self.dial(asking, reply, now) {
            Ok(dial) => dial,
            Err(refused) => return Some(refused),
        };
        match http2.join(dial) {
            Some(dial) if self.breaker.allow(now) => {
                let attempt = self.attempt(dial.give_up_at);
                dial.go_on(attempt);
            }
            Some(dial) => dial.end(OpenError::Broken),
            None => {}
        }
        None
    }

    /// A connection of HTTP/2 is there, or is not: those that came meanwhile go on.
    pub(super) fn connected_shared(
        self: &Arc<Self>,
        http2: &Http2,
        result: Result<OwnedFd, OpenError>,
    ) -> Result<(), OpenError> {
        if result.is_ok() {
            http2.open.store(1, Ordering::Relaxed);
        }
        let joined = http2.connecting().take().unwrap_or_default();
        let (made, outcome) = match result {
            Ok(stream) => (Some((stream, self.begin_tls())), Ok(())),
            Err(error) => (None, Err(error)),
        };
        http2.multiplexer.connected(self.origin(), made);
        if self.has_hidden_address() {
            self.background.tick();
        }
        for dial in joined {
            dial.answer(|asking| self.share_if(http2, outcome, asking));
        }
        outcome
    }

    pub(super) fn share_if(
        self: &Arc<Self>,
        http2: &Http2,
        outcome: Result<(), OpenError>,
        asking: Asking,
    ) -> Opened {
        match outcome {
            Ok(()) => self.share(http2, asking),
            Err(error) => Opened::Failed(error),
        }
    }

    /// What a check is sent over: a new connection, or its only stream.
    pub(crate) fn checked_over(self: &Arc<Self>, stream: OwnedFd) -> io::Result<Kept> {
        let tls = self.begin_tls();
        let Some(http2) = &self.http2 else { return Ok((stream, tls)) };
        Ok((http2.multiplexer.open_alone(self.origin(), (stream, tls))?, None))
    }

    fn origin(self: &Arc<Self>) -> Arc<dyn Origin> {
        let server: Arc<Self> = Arc::clone(self);
        server
    }

    /// A stream of a connection that other requests have, too.
    fn share(self: &Arc<Self>, http2: &Http2, asking: Asking) -> Opened {
        match http2.multiplexer.open(self.origin()) {
            Ok(stream) => self.lend((stream, None), asking, None, false),
            Err(error) => {
                self.reporter.log(format_args!("{}: {error}", self.name));
                self.refuse()
            }
        }
    }
}

impl Origin for Server {
    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    fn connect_time(&self) -> Duration {
        self.connect
    }

    fn connect(self: Arc<Self>) {
        let Some(http2) = &self.http2 else { return };
        // Else that one serves them, too.
        if !http2.begin_connecting() {
            return;
        }
        let now = Instant::now();
        if !self.breaker.allow(now) {
            _ = self.connected_shared(http2, Err(OpenError::Broken));
            return;
        }
        let (until, server) = (now + self.connect, Arc::clone(&self));
        let then = move |result: Result<OwnedFd, Errno>| {
            let result = result.map_err(|error| server.failed(error));
            if let Some(http2) = &server.http2 {
                _ = server.connected_shared(http2, result);
            }
        };
        self.attempt(until).wait(until, &self.background, Box::new(then));
    }

    fn set_open(&self, connections: usize) {
        if let Some(http2) = &self.http2 {
            http2.open.store(connections, Ordering::Relaxed);
        }
    }

    fn is_served(&self) {
        self.is_there(Instant::now());
    }

    fn is_useless(&self, why: &str) {
        self.count(ProgramCount::Failed);
        self.trip(&why);
    }

    fn report(&self, why: &str) {
        if self.http2.as_ref().is_some_and(|http2| http2.faults.is_due(Instant::now())) {
            self.reporter.log(format_args!("{}: {why}", self.name));
        }
    }
}
