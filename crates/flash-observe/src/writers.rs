//! The threads that write logs. A few of them serve all logs: one that has nothing to write has no thread.
//!
//! One thread leads: it waits until a log is woken, or until the time of one that lets lines gather has come. Before it writes, it leaves
//! that to another thread. So a destination that hangs holds up one thread and no other log, unless as many hang as there may be
//! threads.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use flash_os::channel::Channel;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// However many logs there are.
const THREADS_MAX: usize = 32;

/// What is written.
pub(crate) trait Log: Send + Sync {
    fn turn(&self) -> &Turn;

    /// Writes as long as there is something. Returns when to look again, if that has a time. One thread calls it at a time.
    fn work(&self) -> Option<Instant>;
}

/// A handle. The threads end with the last one, once all logs have ended.
#[derive(Clone)]
pub struct Writers(Arc<Handle>);

struct Handle(Arc<Pool>);

struct Pool {
    thread_name: &'static str,
    woken: Channel<Arc<dyn Log>>,
    /// More threads than logs would have nothing to do.
    logs: AtomicUsize,
    state: Mutex<PoolState>,
    /// Wakes a thread that is to lead.
    lead: Condvar,
}

#[derive(Default)]
struct PoolState {
    ready: VecDeque<Arc<dyn Log>>,
    /// Those that let lines gather, by their time. Their addresses tell equal times apart.
    later: BTreeMap<(Instant, usize), Arc<dyn Log>>,
    threads: usize,
    followers: usize,
    has_leader: bool,
    ends: bool,
}

/// Whether a log is in a thread's hands or waits for one.
#[derive(Default)]
pub(crate) struct Turn(AtomicU8);

const WOKEN: u8 = 1;
const RUNS: u8 = 2;

impl Turn {
    /// Returns whether the log has to be given to a thread.
    fn wake(&self) -> bool {
        self.0.fetch_or(WOKEN, Ordering::AcqRel) == 0
    }

    fn begin(&self) {
        self.0.swap(RUNS, Ordering::AcqRel);
    }

    /// Returns `false` if the log was woken meanwhile.
    fn end(&self) -> bool {
        self.0.compare_exchange(RUNS, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl Writers {
    /// The threads start with the logs.
    ///
    /// # Errors
    /// When the process cannot have a descriptor more.
    pub fn new(thread_name: &'static str) -> io::Result<Self> {
        let pool = Pool {
            thread_name,
            woken: Channel::new()?,
            logs: AtomicUsize::new(0),
            state: Mutex::default(),
            lead: Condvar::new(),
        };
        Ok(Self(Arc::new(Handle(Arc::new(pool)))))
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.0.0
    }

    /// One more log. The first has a thread started.
    pub(crate) fn begin_log(&self) -> io::Result<()> {
        let pool = self.pool();
        let mut state = pool.state.lock();
        if state.threads == 0 {
            pool.start_thread(&mut state)?;
        }
        pool.logs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn end_log(&self) {
        self.pool().logs.fetch_sub(1, Ordering::Relaxed);
    }

    /// The log has something to do. Waits for no other thread.
    pub(crate) fn wake<L: Log + 'static>(&self, log: &Arc<L>) {
        if log.turn().wake() {
            self.pool().woken.send(Arc::<L>::clone(log));
        }
    }

    #[cfg(test)]
    pub(crate) fn threads(&self) -> usize {
        self.pool().state.lock().threads
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.state.lock().ends = true;
        self.0.woken.wake();
        self.0.lead.notify_all();
    }
}

impl Pool {
    fn start_thread(self: &Arc<Self>, state: &mut PoolState) -> io::Result<()> {
        let pool = Arc::clone(self);
        // Never joined: a thread that is stuck in a destination must not hold up the end of the process.
        thread::Builder::new().name(self.thread_name.into()).spawn(move || pool.work())?;
        state.threads += 1;
        Ok(())
    }

    /// The life of a thread.
    fn work(self: Arc<Self>) {
        let mut state = self.state.lock();
        while let Some(log) = self.next(&mut state) {
            self.have_another_lead(&mut state);
            // To drop the last reference closes the file.
            let due = MutexGuard::unlocked(&mut state, || run(&*log).map(|due| (due, log)));
            if let Some((due, log)) = due {
                state.later.insert((due, Arc::as_ptr(&log).cast::<()>().addr()), log);
                // The thread that leads may wait for longer.
                self.woken.wake();
            }
        }
        state.threads -= 1;
    }

    /// Waits for a log that has something to do. `None` at the end.
    fn next(&self, state: &mut MutexGuard<'_, PoolState>) -> Option<Arc<dyn Log>> {
        state.followers += 1;
        while state.has_leader && !state.ends {
            self.lead.wait(state);
        }
        state.followers -= 1;
        state.has_leader = true;
        let log = loop {
            self.woken.waker().drain();
            state.ready.extend(self.woken.drain());
            let now = Instant::now();
            while let Some(due) = state.later.first_entry().filter(|first| first.key().0 <= now) {
                let log = due.remove();
                if log.turn().wake() {
                    state.ready.push_back(log);
                }
            }
            if !state.ready.is_empty() || state.ends {
                break state.ready.pop_front();
            }
            let until = state.later.first_key_value().map(|((due, _), _)| *due);
            MutexGuard::unlocked(state, || self.wait(until));
        };
        state.has_leader = false;
        log
    }

    /// Has another thread wait in the place of this one, which is about to write.
    fn have_another_lead(self: &Arc<Self>, state: &mut PoolState) {
        let threads_max = self.logs.load(Ordering::Relaxed).min(THREADS_MAX);
        if state.followers > 0 {
            self.lead.notify_one();
        } else if state.threads < threads_max {
            // Without it the others wait until this one is back.
            let _ = self.start_thread(state);
        }
    }

    fn wait(&self, until: Option<Instant>) {
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut polled = [PollFd::new(self.woken.waker(), PollFlags::IN)];
        // An error is a signal's: it is looked again.
        let _ = poll(&mut polled, timeout.as_ref());
    }
}

/// Writes what there is. Returns when to look again, unless the log is woken before.
fn run(log: &dyn Log) -> Option<Instant> {
    loop {
        log.turn().begin();
        let due = log.work();
        if log.turn().end() {
            return due;
        }
    }
}
