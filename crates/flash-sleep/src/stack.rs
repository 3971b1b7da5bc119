//! A kernel stack as names of functions, innermost first, and how its [`Cause`] is found.

use crate::cause::{Cause, is_remote};
use crate::entry::entered_call;
use crate::rules::{
    ANYWHERE, FALLBACK, INNERMOST, LOCKED, LOCKS, Rule, SCHEDULING, SYNC_CALLS, SYNCS, WAITS,
};

/// Where the kernel is entered by touching memory.
pub const FAULT_ENTRY: &str = "asm_exc_page_fault";
const FAULT: [&str; 4] = ["asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "do_page_fault"];

/// A lock is among the first functions of a stack, or there is none.
const LOCK_DEPTH: usize = 4;

/// So many functions of tracing may be inside the scheduler.
const TRACING_DEPTH: usize = 8;

/// Where a thread slept: functions, innermost first, without those of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stack<'a> {
    frames: Vec<&'a str>,
}

impl<'a> Stack<'a> {
    /// Takes the kernel's names, innermost first. What compilers and clocks add to names is cut off.
    pub fn new(frames: impl IntoIterator<Item = &'a str>) -> Stack<'a> {
        let mut frames: Vec<&str> = frames.into_iter().map(plain).collect();
        // What is inside the scheduler is who watches: programs and tracepoints.
        let scheduler =
            frames.iter().take(TRACING_DEPTH).position(|&frame| frame == "__schedule").unwrap_or(0);
        frames.drain(..scheduler);
        let scheduling = frames.iter().take_while(|frame| matches_any(&SCHEDULING, frame)).count();
        frames.drain(..scheduling);
        Stack { frames }
    }

    /// The functions, innermost first.
    pub fn frames(&self) -> &[&'a str] {
        &self.frames
    }

    /// The functions from the first that a cause is known by. What all sleeps share, such as `io_schedule`, is left out.
    pub fn place(&self) -> &[&'a str] {
        let rules = ANYWHERE.iter().chain(&INNERMOST).chain(&LOCKED);
        let is_known = |at: usize| rules.clone().any(|rule| rule.matches(&self.frames, at).is_some());
        let first = (0..self.frames.len()).find(|&at| is_known(at)).unwrap_or(0);
        &self.frames[first..]
    }

    /// Whether the thread had touched memory, within a system call or not.
    pub fn is_fault(&self) -> bool {
        self.frames.iter().any(|frame| FAULT.contains(frame))
    }

    /// Why the thread slept. The type of the file system that the call was about tells what stacks alone do not.
    pub fn cause(&self, filesystem: Option<&str>) -> Cause {
        let Some(&first) = self.frames.first() else { return Cause::Unknown };
        // Who called the scheduler counts. Any other sleep below `do_epoll_wait`, a fault while events are copied out or a
        // contended lock, has its own functions here.
        if matches_any(&WAITS, first) {
            return Cause::Events;
        }
        if let Some(cause) = ANYWHERE.iter().find_map(|rule| rule.finds(&self.frames)) {
            return cause;
        }
        let locked = self.frames.iter().take(LOCK_DEPTH).any(|frame| matches_any(&LOCKS, frame));
        let found = self.innermost(&INNERMOST);
        let cause = match found {
            Some(cause @ (Cause::Journal | Cause::PipeOrSocket | Cause::UserLock)) => cause,
            _ if locked => match self.innermost(&LOCKED) {
                Some(cause) => cause,
                // Another thread has the same written.
                None if found == Some(Cause::Writeback) => Cause::Writeback,
                None => Cause::KernelLock,
            },
            Some(cause) => cause,
            None if self.is_sync() => Cause::Writeback,
            None => self.innermost(&FALLBACK).unwrap_or(Cause::Unknown),
        };
        match cause {
            // The kernel reads pages of such files as it does those of a disk.
            Cause::PageCacheRead | Cause::MetadataRead | Cause::Unknown
                if filesystem.is_some_and(is_remote) =>
            {
                Cause::Remote
            }
            Cause::PageCacheRead | Cause::Unknown if self.is_fault() => Cause::PageFault,
            cause => cause,
        }
    }

    /// Whether the thread had what is dirty written.
    fn is_sync(&self) -> bool {
        let is_call = |frame| entered_call(frame).is_some_and(|name| SYNC_CALLS.contains(&name));
        self.frames.iter().any(|frame| matches_any(&SYNCS, frame) || is_call(frame))
    }

    /// What the innermost function says that a table knows.
    fn innermost(&self, rules: &[Rule]) -> Option<Cause> {
        (0..self.frames.len()).find_map(|at| rules.iter().find_map(|rule| rule.matches(&self.frames, at)))
    }
}

impl Rule {
    fn finds(&self, frames: &[&str]) -> Option<Cause> {
        (0..frames.len()).find_map(|at| self.matches(frames, at))
    }

    fn matches(&self, frames: &[&str], at: usize) -> Option<Cause> {
        let found = self.functions.iter().any(|function| match function.split_once(" < ") {
            Some((inner, outer)) => {
                matches(inner, frames[at]) && frames.get(at + 1).is_some_and(|frame| matches(outer, frame))
            }
            None => matches(function, frames[at]),
        });
        found.then_some(self.cause)
    }
}

fn matches_any(patterns: &[&str], frame: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, frame))
}

/// A star at a pattern's end stands for any rest.
fn matches(pattern: &str, frame: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => frame.starts_with(prefix),
        None => frame == pattern,
    }
}

/// Compilers make parts of functions (`.part.0`, `.isra.0`), and variants for other clocks.
fn plain(frame: &str) -> &str {
    let name = frame.trim().split(['.', '+']).next().unwrap_or_default();
    name.strip_suffix("_clock").unwrap_or(name)
}
