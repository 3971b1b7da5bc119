//! The disk itself: operations wait here for one of a few threads. The rules decide how long each operation takes, and whether
//! it fails or hangs. The [passthrough](crate::passthrough) executes the operation.
//!
//! A hung operation holds no thread, so it stops no other operation. Each change of the rules applies to every operation that
//! waits, hangs, or is delayed.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::delay;
use crate::rules::{Fault, Kind, Rules};

/// What an operation is told when its time has come.
pub(crate) enum Outcome {
    Serve,
    Short { bytes_max: usize },
    Fail { errno: i32 },
}

/// Does the work and answers. It gets the rules under which it was judged.
pub(crate) type Work = Box<dyn FnOnce(Outcome, &Rules) + Send>;

pub(crate) struct Operation {
    pub(crate) kind: Kind,
    /// From the mount's root, `/` first.
    pub(crate) path: Arc<Path>,
    /// The thread that waits for the answer.
    pub(crate) caller: u32,
    pub(crate) work: Work,
}

/// How many operations there were and are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    answered: [u64; Kind::ALL.len()],
    /// For one of the threads.
    pub waiting: usize,
    /// Until the rules change.
    pub hung: usize,
}

impl Counters {
    /// Operations of this kind that were answered, with whatever outcome.
    pub fn answered(&self, kind: Kind) -> u64 {
        self.answered[kind as usize]
    }
}

pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// An operation for an idle worker, or a reason to look up.
    arrived: Condvar,
    /// Other rules are in force.
    changed: Condvar,
    draws: AtomicU64,
    is_folder: Box<dyn Fn(&Path) -> bool + Send + Sync>,
}

struct QueueState {
    phase: Phase,
    rules: Arc<Rules>,
    /// No more than the kernel has callers, and reads ahead for them.
    waiting: VecDeque<Operation>,
    hung: Vec<Operation>,
    workers: usize,
    answered: [u64; Kind::ALL.len()],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Closed,
}

/// How soon a hung operation learns that its caller was killed.
const KILLED_LOOK: Duration = Duration::from_millis(50);

impl Queue {
    pub(crate) fn new(
        rules: Rules,
        is_folder: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> io::Result<Arc<Queue>> {
        let state = QueueState {
            phase: Phase::Open,
            rules: Arc::new(Rules::default()),
            waiting: VecDeque::new(),
            hung: Vec::new(),
            workers: 0,
            answered: [0; Kind::ALL.len()],
        };
        let queue = Arc::new(Queue {
            state: Mutex::new(state),
            arrived: Condvar::new(),
            changed: Condvar::new(),
            draws: AtomicU64::new(0),
            is_folder: Box::new(is_folder),
        });
        queue.put_in_force(&mut queue.state.lock(), rules);
        let watched = Arc::clone(&queue);
        let watcher = thread::Builder::new().name("killed".into()).spawn(move || watched.let_killed_go());
        watcher.inspect_err(|_| queue.close())?;
        Ok(queue)
    }

    pub(crate) fn submit(&self, operation: Operation) {
        let mut state = self.state.lock();
        // After the end a dropped operation answers EIO by itself.
        if state.phase == Phase::Open {
            state.waiting.push_back(operation);
            self.arrived.notify_one();
        }
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.state.lock().rules)
    }

    /// Puts other rules in force, unless they cannot be made.
    pub(crate) fn change(
        self: &Arc<Self>,
        to: impl FnOnce(&Rules) -> Result<Rules, String>,
    ) -> Result<(), String> {
        let mut state = self.state.lock();
        let rules = to(&state.rules)?;
        self.put_in_force(&mut state, rules);
        Ok(())
    }

    /// A disk without faults; what hung goes on.
    pub(crate) fn clear(self: &Arc<Self>) {
        self.put_in_force(&mut self.state.lock(), Rules::default());
    }

    fn put_in_force(self: &Arc<Self>, state: &mut QueueState, rules: Rules) {
        while state.workers < rules.concurrent {
            let queue = Arc::clone(self);
            // A machine without another thread has a disk that does less at a time.
            let Ok(_) = thread::Builder::new().name("disk".into()).spawn(move || queue.work()) else { break };
            state.workers += 1;
        }
        state.rules = Arc::new(rules);
        let hung = std::mem::take(&mut state.hung);
        state.waiting.extend(hung);
        self.arrived.notify_all();
        self.changed.notify_all();
    }

    /// Answers all waiting operations without delay or fault, and ends the threads.
    pub(crate) fn close(self: &Arc<Self>) {
        self.clear();
        self.state.lock().phase = Phase::Closed;
        self.arrived.notify_all();
        self.changed.notify_all();
    }

    pub(crate) fn counters(&self) -> Counters {
        let state = self.state.lock();
        Counters { answered: state.answered, waiting: state.waiting.len(), hung: state.hung.len() }
    }

    /// A worker's life.
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if state.workers > state.rules.concurrent {
                break;
            }
            if let Some(operation) = state.waiting.pop_front() {
                self.run(&mut state, operation);
            } else if state.phase == Phase::Closed {
                break;
            } else {
                self.arrived.wait(&mut state);
            }
        }
        state.workers -= 1;
    }

    /// Judges an operation, sits out its delay, and does it, unless it hangs.
    fn run(&self, state: &mut MutexGuard<QueueState>, operation: Operation) {
        let begun = Instant::now();
        let draw = delay::draw(0, self.draws.fetch_add(1, Ordering::Relaxed));
        let (rules, fault) = 'judge: loop {
            let rules = Arc::clone(&state.rules);
            let verdict = MutexGuard::unlocked(state, || {
                rules.judge(operation.kind, &operation.path, draw, || (self.is_folder)(&operation.path))
            });
            while Arc::ptr_eq(&rules, &state.rules) {
                if verdict.fault == Some(Fault::Hang) {
                    state.hung.push(operation);
                    self.changed.notify_all();
                    return;
                }
                if self.changed.wait_until(state, begun + verdict.delay).timed_out() {
                    break 'judge (rules, verdict.fault);
                }
            }
        };
        let outcome = match fault {
            None | Some(Fault::Hang) => Outcome::Serve,
            Some(Fault::Fail { errno }) => Outcome::Fail { errno },
            Some(Fault::Short { bytes_max }) => Outcome::Short { bytes_max },
        };
        state.answered[operation.kind as usize] += 1;
        MutexGuard::unlocked(state, || (operation.work)(outcome, &rules));
    }

    /// Answers EINTR to hung operations whose callers were killed. Otherwise the kernel would wait for an answer, and a killed
    /// process that uses a hung mount could never end. NFS releases such processes too.
    fn let_killed_go(&self) {
        let mut state = self.state.lock();
        while state.phase == Phase::Open {
            if state.hung.is_empty() {
                self.changed.wait(&mut state);
                continue;
            }
            self.changed.wait_for(&mut state, KILLED_LOOK);
            let callers: Vec<u32> = state.hung.iter().map(|operation| operation.caller).collect();
            let killed: Vec<u32> = MutexGuard::unlocked(&mut state, || {
                callers.into_iter().filter(|&caller| is_killed(caller)).collect()
            });
            let gone: Vec<Operation> =
                state.hung.extract_if(.., |operation| killed.contains(&operation.caller)).collect();
            let rules = Arc::clone(&state.rules);
            let errno = rustix::io::Errno::INTR.raw_os_error();
            for operation in gone {
                state.answered[operation.kind as usize] += 1;
                MutexGuard::unlocked(&mut state, || (operation.work)(Outcome::Fail { errno }, &rules));
            }
        }
    }
}

/// Whether this thread has been sent SIGKILL: the ninth bit of its pending signals.
fn is_killed(thread: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let pending = status.lines().filter_map(|line| {
        line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")).map(str::trim)
    });
    pending.filter_map(|signals| u64::from_str_radix(signals, 16).ok()).any(|signals| signals & 1 << 8 != 0)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Longer than anything takes that goes well.
    const PATIENCE: Duration = Duration::from_secs(120);

    fn queue(rules: &str) -> Arc<Queue> {
        Queue::new(Rules::default().with(rules).expect(rules), |_| false).expect("threads")
    }

    fn submit(queue: &Queue, path: &str, done: &Sender<(String, i32)>) {
        let (done, name) = (done.clone(), path.to_owned());
        let work: Work = Box::new(move |outcome, _| {
            let errno = if let Outcome::Fail { errno } = outcome { errno } else { 0 };
            let _ = done.send((name, errno));
        });
        queue.submit(Operation { kind: Kind::Read, path: Path::new(path).into(), caller: 0, work });
    }

    fn next(done: &Receiver<(String, i32)>) -> (String, i32) {
        done.recv_timeout(PATIENCE).expect("an answer")
    }

    #[test]
    fn the_disk_does_so_many_at_a_time() {
        let queue = queue("concurrent 4\ndelay fixed:100s");
        let (sender, done) = channel();
        for number in 0..12 {
            submit(&queue, &format!("/{number}"), &sender);
        }
        let begun = Instant::now();
        while queue.counters().waiting > 8 && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(25));
        assert_eq!(queue.counters().waiting, 8);
        queue.change(|rules| rules.with("delay fixed:0s")).expect("a good line");
        for _ in 0..12 {
            next(&done);
        }
        assert_eq!(queue.counters().answered(Kind::Read), 12);
        queue.close();
    }

    #[test]
    fn hung_operations_hold_no_thread_and_go_on_when_the_rules_change() {
        let queue = queue("concurrent 1\nhang prefix /h\nfail EIO prefix /f");
        let (sender, done) = channel();
        for path in ["/h1", "/h2", "/a", "/f"] {
            submit(&queue, path, &sender);
        }
        assert_eq!((next(&done), next(&done)), (("/a".into(), 0), ("/f".into(), 5)));
        assert_eq!(queue.counters().hung, 2);
        queue.change(|rules| rules.with("hang prefix /h1\nremove hang prefix /h")).expect("a good line");
        assert_eq!(next(&done), ("/h2".into(), 0));
        queue.close();
        assert_eq!(next(&done), ("/h1".into(), 0));
    }

    #[test]
    fn a_change_of_the_rules_ends_delays() {
        let queue = queue("concurrent 2\ndelay fixed:100s");
        let (sender, done) = channel();
        for path in ["/a", "/b", "/c"] {
            submit(&queue, path, &sender);
        }
        thread::sleep(Duration::from_millis(20));
        assert!(done.try_recv().is_err());
        queue.change(|rules| rules.with("delay fixed:0s\nconcurrent 1")).expect("good lines");
        for _ in 0..3 {
            next(&done);
        }
        queue.close();
        let given_up = Instant::now() + PATIENCE;
        while queue.state.lock().workers > 0 && Instant::now() < given_up {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(queue.state.lock().workers, 0, "threads end with the disk");
    }
}
