//! The second level: perf events of context switches, one for each thread. It sees every sleep with its stack and length, without
//! eBPF.
//!
//! It does not see who ended a sleep, nor who waited meanwhile. The path is read from `/proc` while the thread sleeps, so a sleep
//! that is shorter than [`INTERVAL`] has none, mostly. New threads and processes are found in `/proc`, [`FIND_EVERY`]. Where
//! tracepoints are granted, it sees which threads ask for events without a sleep.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use flash_os::perf_event::{Begin, CallRecorder, Sleep, SleepRecorder, THIS_THREAD};
use flash_sleep::Cause;

use crate::block::{Block, ThreadTotals};
use crate::call::{CALLS, Call, Events};
use crate::doing::{Doing, SleepPoint, Subject, asks_for_events, poller};
use crate::error::Error;
use crate::proc;
use crate::symbols::Symbols;
use crate::tracepoint;

/// The time between two looks.
pub(crate) const INTERVAL: Duration = Duration::from_millis(1);
const FIND_EVERY: Duration = Duration::from_millis(10);
/// For a loop, which may sleep ten thousand times a second while this program does not get a processor.
const LOOP_RING_PAGES: usize = 1024;
/// For each thread. An ordinary user's memory for rings is limited, so smaller ones follow. The first is a loop's only.
const RING_PAGES: [usize; 3] = [LOOP_RING_PAGES, 64, 8];

pub(crate) struct Instrument {
    stacks: Stacks,
    pids: BTreeSet<u32>,
    threads: BTreeMap<u32, Recorded>,
    /// The tracepoint of calls, where this program may use it.
    of_calls: Option<u64>,
    begun_ns: u64,
    found_at: Instant,
    /// Threads that could not be recorded.
    unseen: BTreeSet<u32>,
}

/// A thread with its recorder; none if it has ended.
struct Recorded {
    recorder: Option<SleepRecorder>,
    /// Its calls for events, as long as it may be a loop that has no time to sleep.
    calls: Option<CallRecorder>,
    totals: ThreadTotals,
    /// It has the ring of a loop.
    is_large: bool,
    /// Records that its first ring lost.
    lost_before: u64,
    /// When the last sleep began that was counted.
    counted_ns: u64,
    /// What the sleep that began then is about.
    subject: Option<(u64, Option<Subject>)>,
}

/// Names of stacks that were seen.
struct Stacks {
    symbols: Symbols,
    known: HashMap<Vec<u64>, (Option<i64>, SleepPoint)>,
}

impl Instrument {
    /// Reads the kernel's names, and tries whether this program may record itself.
    pub(crate) fn new() -> Result<Instrument, Error> {
        let symbols = Symbols::read()?;
        SleepRecorder::open(THIS_THREAD, 1, Begin::Disabled)
            .map_err(|error| Error::run(format!("perf_event_open: {error}")))?;
        let of_calls = tracepoint::of_calls();
        let of_calls = of_calls.filter(|&number| calls_of(Some(number), THIS_THREAD).is_some());
        Ok(Instrument {
            stacks: Stacks { symbols, known: HashMap::new() },
            pids: BTreeSet::new(),
            threads: BTreeMap::new(),
            of_calls,
            begun_ns: now_ns(),
            found_at: Instant::now(),
            unseen: BTreeSet::new(),
        })
    }

    /// Watches a process, all its threads, and its children from now on.
    pub(crate) fn watch(&mut self, pid: u32) -> Result<(), Error> {
        self.pids.insert(pid);
        for thread in proc::threads(pid) {
            match self.record(pid, thread) {
                Err(error) if error.raw_os_error() != Some(NO_SUCH_THREAD) => {
                    return Err(proc::refusal(pid, &error, "CAP_PERFMON"));
                }
                _ => {}
            }
        }
        match proc::is_there(pid) {
            true => Ok(()),
            false => Err(Error::run(format!("process {pid} has ended"))),
        }
    }

    /// The watch begins: what was recorded before does not count.
    pub(crate) fn begin(&mut self) {
        self.begun_ns = now_ns();
    }

    pub(crate) fn watched(&self) -> Vec<u32> {
        self.pids.iter().copied().collect()
    }

    fn record(&mut self, pid: u32, thread: u32) -> io::Result<()> {
        let is_large = Doing::read(&proc::place(pid, thread)).is_wait();
        let recorder = open(thread, is_large)?;
        // Until it is known how it sleeps.
        let calls = calls_of(self.of_calls, thread);
        let name = proc::thread_name(pid, thread);
        let totals = ThreadTotals { pid, thread, name, ..ThreadTotals::default() };
        let recorded = Recorded {
            recorder: Some(recorder),
            calls,
            totals,
            is_large,
            lost_before: 0,
            counted_ns: 0,
            subject: None,
        };
        self.threads.insert(thread, recorded);
        Ok(())
    }

    /// Gives every sleep that has ended since the last time.
    pub(crate) fn poll(&mut self, found: &mut dyn FnMut(Block)) {
        if self.found_at.elapsed() >= FIND_EVERY {
            self.find_new();
            self.found_at = Instant::now();
        }
        for recorded in self.threads.values_mut() {
            recorded.read(&mut self.stacks, self.begun_ns, found);
            recorded.look(&mut self.stacks, self.begun_ns, found);
            recorded.read_calls();
        }
    }

    /// Whether calls are seen, and not only sleeps in them.
    pub(crate) fn sees_calls(&self) -> bool {
        self.of_calls.is_some()
    }

    /// Looks at the calls of these threads: a loop that has no time to sleep is found by them.
    pub(crate) fn follow_calls(&mut self, of: &BTreeSet<u32>) {
        for (thread, recorded) in &mut self.threads {
            match (of.contains(thread), &recorded.calls) {
                (true, None) => recorded.calls = calls_of(self.of_calls, *thread),
                (false, Some(_)) => recorded.calls = None,
                _ => {}
            }
        }
    }

    /// Threads and children that have come, and those that have gone.
    fn find_new(&mut self) {
        let children: Vec<u32> = self.pids.iter().flat_map(|&pid| proc::children(pid)).collect();
        self.pids.extend(children);
        self.pids.retain(|&pid| proc::is_there(pid));
        let mut there = BTreeSet::new();
        for pid in self.watched() {
            for thread in proc::threads(pid) {
                there.insert(thread);
                let is_known = self.threads.get(&thread).is_some_and(|known| known.recorder.is_some());
                if is_known {
                    continue;
                }
                match self.record(pid, thread) {
                    Err(error) if error.raw_os_error() != Some(NO_SUCH_THREAD) => {
                        self.unseen.insert(thread);
                    }
                    _ => {}
                }
            }
        }
        for (thread, recorded) in &mut self.threads {
            if !there.contains(thread) {
                (recorded.recorder, recorded.calls) = (None, None);
            }
        }
    }

    /// Gives the sleeps that still last.
    pub(crate) fn unfinished(&mut self, found: &mut dyn FnMut(Block)) {
        // A thread that has ended sleeps no more.
        self.find_new();
        for recorded in self.threads.values_mut() {
            recorded.read(&mut self.stacks, self.begun_ns, found);
            recorded.look(&mut self.stacks, self.begun_ns, found);
            recorded.read_calls();
            let asleep = recorded.recorder.as_ref().and_then(|recorder| recorder.asleep().cloned());
            // The record of its end may have found the ring full.
            let place = proc::place(recorded.totals.pid, recorded.totals.thread);
            let sleeps = || proc::moment(&place).is_some_and(|moment| moment.sleeps);
            if let Some(sleep) = asleep.filter(|sleep| sleep.preempted || sleeps()) {
                let unfinished = &mut |block| found(Block { unfinished: true, ..block });
                let sleep = Sleep { until_ns: now_ns(), ..sleep };
                recorded.note(&sleep, &mut self.stacks, self.begun_ns, unfinished);
            }
        }
    }

    pub(crate) fn threads(&self) -> Vec<ThreadTotals> {
        self.threads.values().map(|recorded| recorded.totals.clone()).collect()
    }

    /// Threads that were not counted.
    pub(crate) fn unseen(&self) -> u64 {
        self.unseen.len() as u64
    }
}

const NO_SUCH_THREAD: i32 = 3;

/// By the clock of the recorders.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn calls_of(tracepoint: Option<u64>, thread: u32) -> Option<CallRecorder> {
    CallRecorder::open(tracepoint?, thread, &waits()).ok()
}

/// The numbers of the calls that wait for events.
fn waits() -> Vec<i64> {
    CALLS.iter().filter(|call| call.events != Events::No).map(|call| call.number).collect()
}

/// Opens the largest ring that is granted.
fn open(thread: u32, is_large: bool) -> io::Result<SleepRecorder> {
    let sizes = if is_large { &RING_PAGES[..] } else { &RING_PAGES[1..] };
    let (least, larger) = sizes.split_last().expect("there are sizes");
    for &pages in larger {
        match SleepRecorder::open(thread, pages, Begin::Enabled) {
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::OutOfMemory) => {}
            opened => return opened,
        }
    }
    SleepRecorder::open(thread, *least, Begin::Enabled)
}

impl Recorded {
    fn read(&mut self, stacks: &mut Stacks, begun_ns: u64, found: &mut dyn FnMut(Block)) {
        let Some(recorder) = &mut self.recorder else { return };
        let mut ended = Vec::new();
        recorder.read(&mut |sleep| ended.push(sleep));
        self.totals.lost = self.lost_before + recorder.lost();
        for sleep in ended {
            self.note(&sleep, stacks, begun_ns, found);
        }
        if self.totals.is_loop && !self.is_large {
            self.is_large = true;
            // If it is refused, the smaller one stays.
            if let Ok(larger) = SleepRecorder::open(self.totals.thread, LOOP_RING_PAGES, Begin::Enabled) {
                self.read(stacks, begun_ns, found);
                self.lost_before = self.totals.lost;
                self.recorder = Some(larger);
            }
        }
    }

    fn read_calls(&mut self) {
        let Some(calls) = &mut self.calls else { return };
        let totals = &mut self.totals;
        calls.read(&mut |number, arguments| {
            totals.is_loop |= asks_for_events(number, &arguments);
            totals.poller = poller(number, &arguments).or(totals.poller);
        });
    }

    /// Finds out what a sleep that lasts is about.
    fn look(&mut self, stacks: &mut Stacks, begun_ns: u64, found: &mut dyn FnMut(Block)) {
        let Some(sleep) = self.recorder.as_ref().and_then(SleepRecorder::asleep) else { return };
        let since_ns = sleep.since_ns;
        if sleep.preempted || self.subject.as_ref().is_some_and(|(of, _)| *of == since_ns) {
            return;
        }
        let doing = stacks.doing(sleep);
        if doing.is_wait() {
            return;
        }
        let place = proc::place(self.totals.pid, self.totals.thread);
        let subject = doing.subject(&place);
        self.subject = Some((since_ns, subject));
        // If it woke meanwhile, what was read may be of its next call.
        let Some(recorder) = &mut self.recorder else { return };
        let mut ended = Vec::new();
        recorder.read(&mut |sleep| ended.push(sleep));
        if !ended.is_empty() {
            self.subject = None;
        }
        for sleep in ended {
            self.note(&sleep, stacks, begun_ns, found);
        }
    }

    /// Counts a sleep, and gives it if it is no wait for events.
    fn note(&mut self, sleep: &Sleep, stacks: &mut Stacks, begun_ns: u64, found: &mut dyn FnMut(Block)) {
        // Two rings may have it, while one replaces the other.
        if sleep.since_ns <= self.counted_ns {
            return;
        }
        self.counted_ns = sleep.since_ns;
        if sleep.until_ns <= begun_ns {
            return;
        }
        let doing = stacks.doing(sleep);
        // Of the threads that the scheduler stops, only those of a cgroup without time left sleep.
        if doing.is_end() || sleep.preempted && doing.cause() != Cause::CgroupThrottle {
            return;
        }
        let since_ns = sleep.since_ns.max(begun_ns);
        let us = sleep.until_ns.saturating_sub(since_ns) / 1000;
        self.totals.count(us, doing.is_wait());
        if doing.is_wait() {
            self.totals.is_loop |= doing.is_loop();
            self.totals.poller = doing.poller().or(self.totals.poller);
            return;
        }
        let subject =
            self.subject.take().filter(|(of, _)| *of == sleep.since_ns).and_then(|(_, subject)| subject);
        found(Block {
            time_us: (since_ns - begun_ns) / 1000,
            us,
            cpu: sleep.processor,
            ..doing.block(&self.totals, subject.as_ref())
        });
    }
}

impl Stacks {
    fn doing(&mut self, sleep: &Sleep) -> Doing {
        let (call, place) = match self.known.get(&sleep.stack) {
            Some(known) => known.clone(),
            None => {
                let known = self.name(&sleep.stack);
                self.known.insert(sleep.stack.clone(), known.clone());
                known
            }
        };
        Doing { call: call.map(|number| (number, sleep.arguments)), place }
    }

    fn name(&self, stack: &[u64]) -> (Option<i64>, SleepPoint) {
        let frames = self.symbols.names(stack);
        // The outermost entry: a call may perform another one.
        let call = frames.iter().rev().find_map(|name| Call::of_function(name));
        (call.map(|call| call.number), SleepPoint::of(&frames))
    }
}
