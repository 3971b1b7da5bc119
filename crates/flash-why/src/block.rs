//! A block: one sleep of a thread that was not its wait for events; and what a thread did in all.

use std::sync::Arc;

use flash_sleep::Cause;
use serde::{Serialize, Serializer};

/// The kernel's functions, innermost first.
pub type Frames = Arc<[Arc<str>]>;

/// One sleep.
#[derive(Clone, Debug, Serialize)]
pub struct Block {
    /// When it began, in microseconds since the watch did.
    pub time_us: u64,
    pub pid: u32,
    /// The thread's number.
    pub thread: u32,
    /// The thread's name.
    pub name: Arc<str>,
    /// The system call; "page fault" outside of calls.
    pub call: Arc<str>,
    /// Its arguments in words.
    pub args: String,
    /// The file that the call, or the memory that was touched, is about.
    pub path: Option<Arc<str>>,
    #[serde(serialize_with = "by_name")]
    pub cause: Cause,
    /// How long it took.
    pub us: u64,
    /// The kernel's functions, innermost first.
    pub stack: Frames,
    /// Who ended it: a thread, or an interrupt.
    pub waker: Option<String>,
    /// Connections of the loop that had something to do when it ended.
    pub ready: Option<u32>,
    /// The processor that it left.
    pub cpu: u32,
    /// Whether it is known from samples alone: shorter ones were missed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sampled: bool,
    /// Whether it went on when the watch ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
}

/// What a thread did while it was watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadTotals {
    pub pid: u32,
    pub thread: u32,
    pub name: String,
    /// Whether it waits for the events of several clients.
    #[serde(rename = "loop")]
    pub is_loop: bool,
    /// What it waited in last.
    #[serde(skip)]
    pub poller: Option<Poller>,
    /// Sleeps in its wait for events.
    pub waits: u64,
    pub wait_us: u64,
    pub blocks: u64,
    pub block_us: u64,
    /// Records about it that were lost.
    pub lost: u64,
}

#[cfg(test)]
impl Block {
    /// A block of which nothing else is said.
    pub(crate) fn of_thread(thread: u32) -> Block {
        Block {
            time_us: 0,
            pid: 1,
            thread,
            name: "loop".into(),
            call: "read".into(),
            args: String::new(),
            path: None,
            cause: Cause::Unknown,
            us: 0,
            stack: Arc::from([]),
            waker: None,
            ready: None,
            cpu: 0,
            sampled: false,
            unfinished: false,
        }
    }
}

impl ThreadTotals {
    /// Counts a sleep.
    pub(crate) fn count(&mut self, us: u64, is_wait: bool) {
        let (count, sum) = match is_wait {
            true => (&mut self.waits, &mut self.wait_us),
            false => (&mut self.blocks, &mut self.block_us),
        };
        *count += 1;
        *sum += us;
    }
}

/// What a thread waits for events in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Poller {
    /// An epoll instance, by its descriptor.
    Epoll(u32),
    /// A ring. A call may name it by another number than its descriptor's.
    Ring,
}

fn by_name<S: Serializer>(cause: &Cause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cause.name())
}
