//! One thread that is recorded: how often it slept with which stack, and its last sleeps.
//!
//! Waits for events are left out, because a loop may sleep there.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use flash_os::perf_event::{Begin, Sleep, SleepRecorder};
use flash_sleep::Cause;
use rustix::io::Errno;

use super::explanation::KernelNames;

pub(super) struct Recorded {
    /// None after it was stopped: its counts are kept.
    recorder: Option<SleepRecorder>,
    thread: u32,
    /// When the server last asked for it.
    pub(super) asked_at: Instant,
    counts: HashMap<Box<[u64]>, Count>,
    last: VecDeque<Sleep>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) sleeps: u64,
    pub(super) ns: u64,
}

/// A thread that the server has not asked for again is not recorded any more.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(600);
/// Different stacks that are counted. Sleeps with others are not.
const STACKS_MAX: usize = 512;
/// Room for a thousand sleeps. An ordinary user's memory for rings is limited, so a smaller one follows.
const RING_PAGES: [usize; 2] = [128, 8];
/// The server asks about a sleep soon after it.
const LAST_MAX: usize = 1024;

impl Recorded {
    pub(super) fn new(thread: u32, now: Instant) -> io::Result<Recorded> {
        let recorder = Some(open(thread)?);
        Ok(Recorded { recorder, thread, asked_at: now, counts: HashMap::new(), last: VecDeque::new() })
    }

    /// Counts the sleeps since the last time.
    pub(super) fn read(&mut self, names: &mut KernelNames) {
        let Some(recorder) = &mut self.recorder else { return };
        let mut sleeps = Vec::new();
        recorder.read(&mut |sleep| sleeps.push(sleep));
        sleeps.retain(|sleep| !sleep.preempted);
        names.learn(sleeps.iter().flat_map(|sleep| sleep.stack.iter().copied()));
        sleeps.retain(|sleep| names.cause(&sleep.stack) != Cause::Events && !names.is_end(&sleep.stack));
        for sleep in sleeps {
            let has_room = self.counts.len() < STACKS_MAX;
            let count = match self.counts.get_mut(&*sleep.stack) {
                Some(count) => Some(count),
                None if has_room => Some(self.counts.entry(sleep.stack.as_slice().into()).or_default()),
                None => None,
            };
            if let Some(count) = count {
                count.sleeps += 1;
                count.ns += sleep.until_ns.saturating_sub(sleep.since_ns);
            }
            if self.last.len() == LAST_MAX {
                self.last.pop_front();
            }
            self.last.push_back(sleep);
        }
    }

    /// The stack of the longest sleep between two times.
    pub(super) fn longest(&self, since_ns: u64, until_ns: u64) -> Option<&[u64]> {
        let within =
            self.last.iter().filter(|sleep| sleep.since_ns >= since_ns && sleep.until_ns <= until_ns);
        let longest = within.max_by_key(|sleep| sleep.until_ns.saturating_sub(sleep.since_ns));
        longest.map(|sleep| &*sleep.stack)
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&[u64], Count)> {
        self.counts.iter().map(|(stack, count)| (&**stack, *count))
    }

    /// Records from now on, whether it was stopped or not. Says whether it was.
    pub(super) fn go_on(&mut self, now: Instant) -> io::Result<bool> {
        self.asked_at = now;
        if self.recorder.is_some() {
            return Ok(false);
        }
        self.recorder = Some(open(self.thread)?);
        Ok(true)
    }

    pub(super) fn stop(&mut self) {
        self.recorder = None;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.recorder.is_none()
    }
}

fn open(thread: u32) -> io::Result<SleepRecorder> {
    let [large, small] = RING_PAGES;
    let open = |pages| SleepRecorder::open(thread, pages, Begin::Enabled);
    open(large).or_else(|error| if is_of_memory(&error) { open(small) } else { Err(error) })
}

fn is_of_memory(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::PERM.raw_os_error())
}
