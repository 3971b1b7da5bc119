//! Those who watch the status page, and the thread that looks at the server for them once a second.
//!
//! If nobody watches, it reads a few counters only. It makes each event once, and only if somebody watches. Each watcher has a thread of its own, so none waits for another one.
//! A watcher that does not take an event in time is dropped. So is one that would be one too many.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::administered::Administered;
use super::history::History;
use super::page::Page;
use super::response::Response;

/// More watchers at once are refused.
const WATCHERS_MAX: usize = 8;
const EVERY: Duration = Duration::from_secs(1);
const STACK_BYTES: usize = 256 << 10;
/// How soon a browser asks again after the connection was lost.
const RETRY: &[u8] = b"retry: 1000\n\n";

pub(super) struct Watchers {
    server: Arc<dyn Administered>,
    state: Mutex<State>,
    /// There is another event, or the end has come.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    history: History,
    /// The latest event, if anybody watches.
    event: Option<Arc<str>>,
    /// The number of looks so far.
    looks: u64,
    watchers: usize,
    is_over: bool,
}

impl Watchers {
    /// Starts the thread that looks at the server.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(super) fn start(server: Arc<dyn Administered>) -> io::Result<Arc<Self>> {
        let watchers = Arc::new(Self { server, state: Mutex::default(), changed: Condvar::new() });
        let looking = Arc::clone(&watchers);
        let builder = thread::Builder::new().name("admin-history".into()).stack_size(STACK_BYTES);
        builder.spawn(move || looking.look_each_second())?;
        Ok(watchers)
    }

    /// Ends the thread, and all watchers.
    pub(super) fn stop(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }

    /// What there is to see at this moment.
    pub(super) fn page(&self) -> Page {
        let snapshot = self.server.snapshot();
        Page::new(&snapshot, &self.state.lock().history)
    }

    fn look_each_second(&self) {
        let mut next = Instant::now();
        loop {
            let (sample, now) = (self.server.sample(), Instant::now());
            let (is_watched, needs_sites) = {
                let state = self.state.lock();
                (state.watchers > 0, state.history.needs_sites(now))
            };
            // Not under the lock, which those who ask for the page wait for.
            let snapshot = is_watched.then(|| self.server.snapshot());
            let sites = needs_sites.then(|| self.server.changed_sites());
            let mut state = self.state.lock();
            state.history.add(sample, now);
            if let Some(sites) = sites {
                state.history.add_sites(&sites, now);
            }
            let event = snapshot.map(|snapshot| Page::new(&snapshot, &state.history).event());
            state.event = event.map(|data| format!("data: {data}\n\n").into());
            state.looks += 1;
            self.changed.notify_all();
            next = (next + EVERY).max(Instant::now());
            while !state.is_over && !self.changed.wait_until(&mut state, next).timed_out() {}
            if state.is_over {
                return;
            }
        }
    }

    /// Gives a client each event, until it leaves or is too slow. `head` is the beginning of the response.
    pub(super) fn watch(&self, client: &mut impl Write, head: &[u8]) {
        let is_one_too_many = {
            let mut state = self.state.lock();
            let is_full = state.watchers >= WATCHERS_MAX;
            state.watchers += usize::from(!is_full);
            is_full
        };
        if is_one_too_many {
            let response = Response::text(503, "too many watch already\n");
            let _ = client.write_all(&response.bytes());
            return;
        }
        // A client that has left is of no concern.
        let _ = self.send_events(client, head);
        self.state.lock().watchers -= 1;
    }

    fn send_events(&self, client: &mut impl Write, head: &[u8]) -> io::Result<()> {
        client.write_all(&[head, RETRY].concat())?;
        // The first event does not wait for the next second.
        client.write_all(format!("data: {}\n\n", self.page().event()).as_bytes())?;
        let mut seen = self.state.lock().looks;
        while let Some(event) = self.next(&mut seen) {
            client.write_all(event.as_bytes())?;
        }
        Ok(())
    }

    /// Waits for the next event. `None` at the end.
    fn next(&self, seen: &mut u64) -> Option<Arc<str>> {
        let mut state = self.state.lock();
        loop {
            if state.is_over {
                return None;
            }
            if state.looks > *seen
                && let Some(event) = &state.event
            {
                *seen = state.looks;
                return Some(Arc::clone(event));
            }
            self.changed.wait(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use flash_process::UpgradeRequest;

    use super::*;
    use crate::admin::history::Sample;
    use crate::admin::snapshot::{SiteSnapshot, Snapshot};

    /// A server that counts what it is asked for.
    #[derive(Default)]
    struct Counting {
        snapshots: AtomicUsize,
        samples: AtomicUsize,
        sites: AtomicUsize,
    }

    impl Administered for Counting {
        fn snapshot(&self) -> Snapshot {
            self.snapshots.fetch_add(1, Ordering::Relaxed);
            Snapshot::default()
        }

        fn sample(&self) -> Sample {
            self.samples.fetch_add(1, Ordering::Relaxed);
            Sample::default()
        }

        fn changed_sites(&self) -> Vec<SiteSnapshot> {
            self.sites.fetch_add(1, Ordering::Relaxed);
            Vec::new()
        }

        fn is_draining(&self) -> bool {
            false
        }

        fn reload(&self) -> Result<u64, String> {
            Err("it does not".into())
        }

        fn reopen_logs(&self) {}

        fn log_counters(&self) {}

        fn upgrade(&self, _: UpgradeRequest) -> Result<u32, String> {
            Err("it does not".into())
        }
    }

    #[test]
    fn a_server_that_nobody_watches_is_asked_for_a_few_counters_only() {
        let server = Arc::new(Counting::default());
        let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        let watchers = Watchers::start(Arc::clone(&server) as Arc<dyn Administered>).unwrap();
        let wait_for_samples = |samples| {
            let give_up = Instant::now() + Duration::from_secs(30);
            while count(&server.samples) < samples {
                assert!(Instant::now() < give_up, "it looks each second");
                thread::sleep(Duration::from_millis(10));
            }
        };
        wait_for_samples(2);
        assert_eq!((count(&server.snapshots), count(&server.sites)), (0, 1));
        let mut watching = Vec::new();
        watchers.state.lock().watchers += 1;
        wait_for_samples(4);
        assert!(count(&server.snapshots) >= 1, "now somebody watches");
        watchers.stop();
        watchers.watch(&mut watching, b"");
        assert!(String::from_utf8(watching).unwrap().contains("\"sections\""));
    }
}
