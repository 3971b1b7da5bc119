//! poll(2). What is watched is kept here, and told to the kernel anew for each wait.
//!
//! Edges are reported once, as [`crate::poller`] says. Of several threads that wait, one polls: the last that came, so that those
//! who are not needed stay idle. A change interrupts it.

use std::collections::BTreeMap;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, Result};

use crate::readiness::{Event, Interest, Mode, Ready};
use crate::waker::Waker;

#[derive(Debug)]
pub(crate) struct Poll {
    state: Mutex<State>,
    /// Interrupts the thread that polls.
    changed: Waker,
}

#[derive(Debug, Default)]
struct State {
    watched: BTreeMap<RawFd, Watched>,
    /// How many watches there have been.
    watches: u64,
    /// Where the next look begins, so that each descriptor has its turn.
    first: RawFd,
    is_polled: bool,
    is_interrupted: bool,
    /// Threads that wait until the one that polls has an event.
    waiting: Vec<Thread>,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    token: u64,
    interest: Interest,
    /// Tells it from another watch of the same number, after the kernel was asked.
    watch: u64,
    /// It was told, and nobody has asked for more.
    is_silent: bool,
}

impl Poll {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { state: Mutex::default(), changed: Waker::new()? })
    }

    pub(crate) fn set(&self, what: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        self.watch(self.lock(), what, token, interest);
        Ok(())
    }

    pub(crate) fn modify(&self, what: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        let state = self.lock();
        // Another thread may have ended the watch.
        if !state.watched.contains_key(&what.as_raw_fd()) {
            return Err(Errno::NOENT);
        }
        self.watch(state, what, token, interest);
        Ok(())
    }

    fn watch(&self, mut state: MutexGuard<'_, State>, what: BorrowedFd<'_>, token: u64, interest: Interest) {
        state.watches += 1;
        let watched = Watched { token, interest, watch: state.watches, is_silent: false };
        state.watched.insert(what.as_raw_fd(), watched);
        self.interrupt(&mut state);
    }

    /// Tells nothing until it is asked for again.
    pub(crate) fn silence(&self, what: BorrowedFd<'_>) {
        if let Some(watched) = self.lock().watched.get_mut(&what.as_raw_fd()) {
            watched.is_silent = true;
        }
    }

    pub(crate) fn delete(&self, what: BorrowedFd<'_>) -> Result<()> {
        let mut state = self.lock();
        state.watched.remove(&what.as_raw_fd()).ok_or(Errno::NOENT)?;
        // For as long as a thread polls it, a socket that is closed stays open.
        self.interrupt(&mut state);
        Ok(())
    }

    pub(crate) fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<()> {
        let most = events.capacity().max(1);
        self.take(events, most, timeout)
    }

    pub(crate) fn wait_for_one(&self, timeout: Option<Duration>) -> Result<Option<Event>> {
        let mut events = Vec::with_capacity(1);
        self.take(&mut events, 1, timeout)?;
        Ok(events.pop())
    }

    pub(crate) fn polled(&self) -> Vec<PollFd<'_>> {
        let state = self.lock();
        let told = state.watched.iter().filter(|(_, watched)| !watched.is_silent);
        told.map(|(number, watched)| watched.polled(*number)).collect()
    }

    fn take(&self, events: &mut Vec<Event>, most: usize, timeout: Option<Duration>) -> Result<()> {
        let give_up = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let Some(mut state) = self.turn(give_up) else { return Ok(()) };
        state.is_polled = true;
        let taken = loop {
            let (watches, mut polled) = state.all();
            polled.push(PollFd::new(&self.changed, PollFlags::IN));
            drop(state);
            let left = give_up.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let count = poll(&mut polled, left.as_ref());
            state = self.lock();
            if mem::take(&mut state.is_interrupted) {
                self.changed.drain();
            }
            match count {
                Ok(0) => break Ok(()),
                Ok(_) => state.report(&watches, &polled, most, events),
                Err(error) => break Err(error),
            }
            if !events.is_empty() || give_up.is_some_and(|at| at <= Instant::now()) {
                break Ok(());
            }
        };
        state.is_polled = false;
        if let Some(next) = state.waiting.pop() {
            next.unpark();
        }
        taken
    }

    /// Waits until no other thread polls.
    fn turn(&self, give_up: Option<Instant>) -> Option<MutexGuard<'_, State>> {
        let mut state = self.lock();
        while state.is_polled {
            let left = give_up.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            let own = thread::current();
            state.waiting.push(own.clone());
            drop(state);
            left.map_or_else(thread::park, thread::park_timeout);
            state = self.lock();
            state.waiting.retain(|thread| thread.id() != own.id());
        }
        Some(state)
    }

    fn interrupt(&self, state: &mut State) {
        if state.is_polled && !mem::replace(&mut state.is_interrupted, true) {
            self.changed.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// All that is watched, as the kernel is asked for it.
    fn all<'p>(&self) -> (Vec<(RawFd, u64)>, Vec<PollFd<'p>>) {
        let (later, first) = (self.watched.range(self.first..), self.watched.range(..self.first));
        later
            .chain(first)
            .filter(|(_, watched)| !watched.is_silent)
            .map(|(number, watched)| ((*number, watched.watch), watched.polled(*number)))
            .unzip()
    }

    /// Reports what the kernel has found, unless it was changed meanwhile.
    fn report(
        &mut self,
        watches: &[(RawFd, u64)],
        polled: &[PollFd<'_>],
        most: usize,
        events: &mut Vec<Event>,
    ) {
        let found = watches.iter().zip(polled).filter(|(_, polled)| !polled.revents().is_empty());
        for (&(number, watch), polled) in found {
            let Some(watched) = self.watched.get_mut(&number).filter(|of| of.watch == watch && !of.is_silent)
            else {
                continue;
            };
            watched.is_silent = matches!(watched.interest.mode, Mode::Edge | Mode::Once);
            if polled.revents().contains(PollFlags::NVAL) {
                self.watched.remove(&number);
            } else {
                events.push(Event { token: watched.token, ready: Ready(polled.revents().bits() as u32) });
            }
            if events.len() == most {
                self.first = number.saturating_add(1);
                return;
            }
        }
    }
}

impl Watched {
    fn polled<'p>(&self, number: RawFd) -> PollFd<'p> {
        // SAFETY: it was open when it was given, and those who close it have it forgotten before. Should one forget that, the kernel
        // says that it is closed, or tells an event of another file, which nobody takes for more than a hint.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.interest.input);
        flags.set(PollFlags::OUT, self.interest.room);
        PollFd::from_borrowed_fd(descriptor, flags)
    }
}
