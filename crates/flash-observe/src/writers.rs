//! The threads that write logs. A few of them serve all logs: one that has nothing to write has no thread.
//!
//! One thread leads: it waits until a log is woken, or until the time of one that lets lines gather has come. Before it writes, it leaves
//! that to another thread. One thread at a time writes to a device, so a disk that hangs holds up one thread, however many logs it has. The
//! logs of a device take turns, a batch each. If all threads but the leader are held up, the leader writes only to disks that were quick.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_os::channel::Channel;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::log_sink::Device;

/// However many logs there are.
const THREADS_MAX: usize = 32;
/// A thread that could not be started is started again after that long.
const START_PAUSE: Duration = Duration::from_secs(1);
/// The next write to a disk where one took longer may hang.
const QUICK: Duration = Duration::from_secs(1);

/// What is written.
pub(crate) trait Log: Send + Sync {
    fn turn(&self) -> &Turn;

    /// Where it writes. Never waits for the device.
    fn device(&self) -> Device;

    /// Writes one batch, if there is something. Returns when to look again, if that has a time. One thread calls it at a time.
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
    /// As where the system has no room for another thread.
    #[cfg(test)]
    starts_none: AtomicBool,
}

#[derive(Default)]
struct PoolState {
    /// Logs on disks whose last write was quick.
    quick: VecDeque<Arc<dyn Log>>,
    /// Logs that may hold up their thread for ever.
    risky: VecDeque<Arc<dyn Log>>,
    /// The devices in the threads' hands, and the logs that wait for each.
    busy: HashMap<Device, VecDeque<Arc<dyn Log>>>,
    /// Those that let lines gather, by their time. Their addresses tell equal times apart.
    later: BTreeMap<(Instant, usize), Arc<dyn Log>>,
    threads: usize,
    has_leader: bool,
    ends: bool,
}

/// When a log is written again, unless it is woken before.
enum Again {
    /// Its turn has not ended, so nobody else gives it to a thread.
    Now,
    At(Instant),
}

/// Whether a log is in a thread's hands or waits for one.
#[derive(Default)]
pub(crate) struct Turn {
    state: AtomicU8,
    was_slow: AtomicBool,
}

const WOKEN: u8 = 1;
const RUNS: u8 = 2;

impl Turn {
    /// Returns whether the log has to be given to a thread.
    fn wake(&self) -> bool {
        self.state.fetch_or(WOKEN, Ordering::AcqRel) == 0
    }

    fn begin(&self) {
        self.state.swap(RUNS, Ordering::AcqRel);
    }

    /// Returns `false` if the log was woken meanwhile.
    fn end(&self) -> bool {
        self.state.compare_exchange(RUNS, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
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
            #[cfg(test)]
            starts_none: AtomicBool::new(false),
        };
        Ok(Self(Arc::new(Handle(Arc::new(pool)))))
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.0.0
    }

    /// One more log. A thread is started for it if none is there to lead.
    pub(crate) fn begin_log(&self) -> io::Result<()> {
        let pool = self.pool();
        let mut state = pool.state.lock();
        if state.threads == state.busy.len() && state.threads < THREADS_MAX {
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
        #[cfg(test)]
        if self.starts_none.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let pool = Arc::clone(self);
        // Never joined: a thread that is stuck in a destination must not hold up the end of the process.
        thread::Builder::new().name(self.thread_name.into()).spawn(move || pool.work())?;
        state.threads += 1;
        Ok(())
    }

    /// The life of a thread.
    fn work(self: Arc<Self>) {
        let mut state = self.state.lock();
        while let Some((device, log)) = self.next(&mut state) {
            self.write(&mut state, &device, log);
        }
        state.threads -= 1;
    }

    /// Writes a log, and then those that wait for the same device, as long as another thread leads.
    fn write(&self, state: &mut MutexGuard<'_, PoolState>, device: &Device, log: Arc<dyn Log>) {
        let mut next = Some(log);
        while let Some(log) = next {
            // To drop the last reference closes the file, and may end the pool.
            let again = MutexGuard::unlocked(state, || run(&*log).map(|again| (again, log)));
            match again {
                Some((Again::Now, log)) if log.device() == *device => {
                    state.busy.entry(device.clone()).or_default().push_back(log);
                }
                Some((Again::Now, log)) => {
                    state.add(log);
                    self.tell_leader(state);
                }
                Some((Again::At(due), log)) => {
                    state.later.insert((due, Arc::as_ptr(&log).cast::<()>().addr()), log);
                    self.tell_leader(state);
                }
                None => {}
            }
            if !state.has_leader {
                break;
            }
            next = state.busy.get_mut(device).and_then(VecDeque::pop_front);
        }
        let waiting = state.busy.remove(device);
        waiting.into_iter().flatten().for_each(|log| state.add(log));
        if state.has_ready() {
            self.tell_leader(state);
        }
    }

    /// The thread that leads may wait for longer. If none does, the next one looks first.
    fn tell_leader(&self, state: &PoolState) {
        if state.has_leader {
            self.woken.wake();
        }
    }

    /// Waits for a log that has something to do, and has another thread lead. `None` at the end.
    fn next(self: &Arc<Self>, state: &mut MutexGuard<'_, PoolState>) -> Option<(Device, Arc<dyn Log>)> {
        while state.has_leader && !state.ends {
            self.lead.wait(state);
        }
        state.has_leader = true;
        let next = loop {
            self.woken.waker().drain();
            self.woken.drain().for_each(|log| state.add(log));
            state.add_due(Instant::now());
            let next = self.choose(state);
            if next.is_some() || state.ends {
                break next;
            }
            let mut until = state.later.first_key_value().map(|((due, _), _)| *due);
            if state.has_ready() && state.threads < THREADS_MAX {
                let again = Instant::now() + START_PAUSE;
                until = Some(until.map_or(again, |until| until.min(again)));
            }
            MutexGuard::unlocked(state, || self.wait(until));
        };
        state.has_leader = false;
        next
    }

    /// A log that this thread may write, which leads. It is in this thread's hands from then on.
    fn choose(self: &Arc<Self>, state: &mut PoolState) -> Option<(Device, Arc<dyn Log>)> {
        while let Some((log, is_quick)) = state.pop_ready() {
            let device = log.device();
            if let Some(waiting) = state.busy.get_mut(&device) {
                waiting.push_back(log);
            } else if self.may_leave(state, is_quick) {
                state.busy.insert(device.clone(), VecDeque::new());
                return Some((device, log));
            } else {
                let queue = if is_quick { &mut state.quick } else { &mut state.risky };
                queue.push_front(log);
                return None;
            }
        }
        None
    }

    /// Whether the thread that leads may write: another one leads then, if a log is left that needs it.
    fn may_leave(self: &Arc<Self>, state: &mut PoolState, is_quick: bool) -> bool {
        let writing = state.busy.len() + 1;
        if writing >= self.logs.load(Ordering::Relaxed) {
            return true;
        }
        if writing < state.threads {
            self.lead.notify_one();
            return true;
        }
        match state.threads < THREADS_MAX {
            true => self.start_thread(state).is_ok(),
            false => is_quick,
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

impl PoolState {
    fn add(&mut self, log: Arc<dyn Log>) {
        let is_quick =
            matches!(log.device(), Device::Disk(_)) && !log.turn().was_slow.load(Ordering::Relaxed);
        let queue = if is_quick { &mut self.quick } else { &mut self.risky };
        queue.push_back(log);
    }

    /// Adds those whose time has come. One that was woken meanwhile comes twice, lest its last reference be dropped here.
    fn add_due(&mut self, now: Instant) {
        while let Some(due) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let log = due.remove();
            log.turn().wake();
            self.add(log);
        }
    }

    fn has_ready(&self) -> bool {
        !self.quick.is_empty() || !self.risky.is_empty()
    }

    /// Returns whether the log is a quick one, too.
    fn pop_ready(&mut self) -> Option<(Arc<dyn Log>, bool)> {
        let quick = self.quick.pop_front().map(|log| (log, true));
        quick.or_else(|| self.risky.pop_front().map(|log| (log, false)))
    }
}

/// Writes a batch of a log. `None` if the log waits to be woken.
fn run(log: &dyn Log) -> Option<Again> {
    let turn = log.turn();
    turn.begin();
    let began = Instant::now();
    let due = log.work();
    let now = Instant::now();
    turn.was_slow.store(now - began > QUICK, Ordering::Relaxed);
    if due.is_some_and(|due| due <= now) || !turn.end() {
        return Some(Again::Now);
    }
    due.map(Again::At)
}

#[cfg(test)]
mod tests;
