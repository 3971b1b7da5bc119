//! The watchdog of the service manager: it restarts a server whose loop no longer comes to the end of its turn.
//!
//! A thread of its own looks twice in each interval of the manager. A loop that waits for events lives, and is not woken.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::server_state::ServerState;

/// Starts the thread, if the manager has a watchdog.
pub(crate) fn start(shared: &Arc<ServerState>) -> io::Result<()> {
    let manager = shared.manager();
    let Some(interval) = manager.watchdog() else { return Ok(()) };
    let shared = Arc::clone(shared);
    let life = move || {
        let mut before = Vec::new();
        loop {
            thread::sleep(interval / 2);
            let now = shared.metrics.turns_under_way();
            match before.iter().find(|turn| now.contains(turn)) {
                Some((name, _)) => {
                    let seconds = interval.as_secs_f64() / 2.0;
                    shared.error_log.log(format_args!(
                        "{name} has been in one turn for {seconds:.1} s: the service manager is not told that it lives"
                    ));
                }
                None => manager.alive(format_args!("{}", shared.shown())),
            }
            before = now;
        }
    };
    thread::Builder::new().name("watchdog".into()).spawn(life).map(drop)
}

/// Moments for those that wait for events too.
pub(crate) struct Ticks {
    interval: Duration,
    due: Instant,
}

impl Ticks {
    pub(crate) fn every(interval: Duration) -> Self {
        Self { interval, due: Instant::now() + interval }
    }

    /// The next one.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Whether a moment has come since the last call.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let has_come = self.due <= now;
        if has_come {
            self.due = now + self.interval;
        }
        has_come
    }
}
