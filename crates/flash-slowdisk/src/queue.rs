//! The disk itself: operations wait here for one of a few threads. The rules decide how long each operation takes, and whether
//! it fails or hangs. The [passthrough](crate::passthrough) executes the operation.
//!
//! With an arm, one read is served at a time, in the order of the arm, and the other operations beside it.
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

use crate::arm::{Arm, ArmRule, Extent};
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
    /// What a read is about.
    pub(crate) extent: Option<Extent>,
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
    began: Instant,
    /// The length of the disk, if it is an image, in which each byte has its place.
    image_bytes: Option<u64>,
    is_folder: Box<dyn Fn(&Path) -> bool + Send + Sync>,
}

struct QueueState {
    phase: Phase,
    rules: Arc<Rules>,
    /// No more than the kernel has callers, and reads ahead for them.
    waiting: VecDeque<Operation>,
    hung: Vec<Operation>,
    workers: usize,
    arm: Option<Arm>,
    arm_reads: bool,
    answered: [u64; Kind::ALL.len()],
}

impl QueueState {
    /// The operation that is next, if it can be begun now.
    fn next(&mut self, now: Duration) -> Option<Operation> {
        let place = match &self.arm {
            None => 0,
            Some(_) if self.arm_reads => self.waiting.iter().position(|of| of.extent.is_none())?,
            Some(arm) => {
                let mut reads = self.waiting.iter().enumerate().filter_map(|(at, of)| Some((at, of.extent?)));
                let chosen = arm.choose(now, reads.clone().map(|(_, extent)| extent));
                chosen.and_then(|number| reads.nth(number)).map_or(0, |(at, _)| at)
            }
        };
        self.waiting.remove(place)
    }
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
        image_bytes: Option<u64>,
        is_folder: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> io::Result<Arc<Queue>> {
        let state = QueueState {
            phase: Phase::Open,
            rules: Arc::new(Rules::default()),
            waiting: VecDeque::new(),
            hung: Vec::new(),
            workers: 0,
            arm: None,
            arm_reads: false,
            answered: [0; Kind::ALL.len()],
        };
        let queue = Arc::new(Queue {
            state: Mutex::new(state),
            arrived: Condvar::new(),
            changed: Condvar::new(),
            draws: AtomicU64::new(0),
            began: Instant::now(),
            image_bytes,
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
        rules.check(self.image_bytes)?;
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
        if state.arm.as_ref().map(|arm| arm.rule) != rules.arm {
            state.arm = rules.arm.map(Arm::new);
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
            if let Some(operation) = state.next(self.began.elapsed()) {
                self.run(&mut state, operation);
            } else if state.phase == Phase::Closed {
                break;
            } else {
                self.arrived.wait(&mut state);
            }
        }
        state.workers -= 1;
    }

    /// Sits out the time of an operation, and does it, unless it hangs.
    fn run(&self, state: &mut MutexGuard<QueueState>, operation: Operation) {
        let begun = Instant::now();
        let read = state.arm.as_mut().zip(operation.extent);
        let read = read.map(|(arm, extent)| (arm.rule, arm.read(begun - self.began, extent)));
        state.arm_reads |= read.is_some();
        let (rules, fault) = self.sit_out(state, &operation, begun, read);
        if read.is_some() {
            state.arm_reads = false;
            self.arrived.notify_one();
        }
        let outcome = match fault {
            None => Outcome::Serve,
            Some(Fault::Hang) => {
                state.hung.push(operation);
                self.changed.notify_all();
                return;
            }
            Some(Fault::Fail { errno }) => Outcome::Fail { errno },
            Some(Fault::Short { bytes_max }) => Outcome::Short { bytes_max },
        };
        state.answered[operation.kind as usize] += 1;
        MutexGuard::unlocked(state, || (operation.work)(outcome, &rules));
    }

    /// Judges an operation, and waits for as long as the rules, and an arm that reads, say. What hangs does not wait.
    fn sit_out(
        &self,
        state: &mut MutexGuard<QueueState>,
        operation: &Operation,
        begun: Instant,
        read: Option<(ArmRule, Duration)>,
    ) -> (Arc<Rules>, Option<Fault>) {
        let draw = delay::draw(0, self.draws.fetch_add(1, Ordering::Relaxed));
        loop {
            let rules = Arc::clone(&state.rules);
            let verdict = MutexGuard::unlocked(state, || {
                rules.judge(operation.kind, &operation.path, draw, || (self.is_folder)(&operation.path))
            });
            let by_arm = read.filter(|(arm, _)| rules.arm == Some(*arm));
            let end = begun + verdict.delay + by_arm.map_or(Duration::ZERO, |(_, takes)| takes);
            while Arc::ptr_eq(&rules, &state.rules) {
                if verdict.fault == Some(Fault::Hang) || self.changed.wait_until(state, end).timed_out() {
                    return (rules, verdict.fault);
                }
            }
        }
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
        Queue::new(Rules::default().with(rules).expect(rules), Some(1 << 30), |_| false).expect("threads")
    }

    fn submit(queue: &Queue, path: &str, done: &Sender<(String, i32)>) {
        let (done, name) = (done.clone(), path.to_owned());
        let work: Work = Box::new(move |outcome, _| {
            let errno = if let Outcome::Fail { errno } = outcome { errno } else { 0 };
            let _ = done.send((name, errno));
        });
        let (path, extent) = (Path::new(path).into(), None);
        queue.submit(Operation { kind: Kind::Read, extent, path, caller: 0, work });
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
    fn an_arm_reads_one_after_the_other_in_its_order_and_the_rest_goes_on_beside_it() {
        let queue = queue("arm hp97560 c-look\nread delay fixed:100s");
        let (sender, done) = channel();
        let read = |place: u64| {
            let sender = sender.clone();
            let work: Work = Box::new(move |_, _| _ = sender.send(place));
            let extent = Some(Extent { byte: place << 20, bytes: 4096 });
            queue.submit(Operation {
                kind: Kind::Read,
                extent,
                path: Path::new("/a").into(),
                caller: 0,
                work,
            });
        };
        read(500);
        while queue.counters().waiting > 0 {
            thread::yield_now();
        }
        [900, 100, 700, 300].into_iter().for_each(read);
        let (names, looked_up) = channel();
        let work: Work = Box::new(move |_, _| _ = names.send(()));
        let path = Path::new("/b").into();
        queue.submit(Operation { kind: Kind::Lookup, extent: None, path, caller: 0, work });
        looked_up.recv_timeout(PATIENCE).expect("it needs no arm");
        assert_eq!(queue.counters().waiting, 4, "the arm is at the first read");
        queue.change(|rules| rules.with("read delay fixed:0s")).expect("a good line");
        let order: Vec<u64> = (0..5).map(|_| done.recv_timeout(PATIENCE).expect("a read")).collect();
        assert_eq!(order, [500, 700, 900, 100, 300]);
        queue.close();
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
