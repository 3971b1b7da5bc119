//! The queue in front of a step: connections come in batches, and a batch wakes the step at most once.
//!
//! Only accepting ever waits for room in a queue. The steps need not, because a connection is in one place at a time:
//! no queue can hold more of them than there are seats. So nobody who could make room ever waits for it.

use std::io;
use std::sync::Arc;

use flash_core::job::{Job, Outcome};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::inbox::Inbox;
use crate::pipelined::ward::Slot;

/// A connection on its way to a step, and what the step before it has for this one.
pub(super) struct Item {
    pub(super) slot: Box<Slot>,
    pub(super) with: With,
}

pub(super) enum With {
    Nothing,
    /// For those who find and read.
    Job(Job),
    /// What came of the job.
    Done(Outcome),
    /// It must not be touched any more: there was a bug.
    Wreck,
}

pub(super) struct Queue {
    state: Mutex<State>,
    room: Condvar,
    /// Its bell is the step's; and here come the results of the step's helper.
    inbox: Arc<Inbox>,
}

#[derive(Default)]
struct State {
    items: Vec<Item>,
    /// The step sleeps, or is about to, and wants the bell for whatever comes next.
    asleep: bool,
    /// Nothing more will come.
    closed: bool,
}

/// Whether a step that finds its queue empty goes to sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ThenSleep {
    Yes,
    No,
}

/// New connections wait outside while so many items are in front of them.
pub(super) const ITEMS_BEFORE_NEW_MAX: usize = 256;

impl Queue {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { state: Mutex::default(), room: Condvar::new(), inbox: Arc::new(Inbox::new()?) })
    }

    pub(super) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Hands over the whole batch, and leaves it empty.
    pub(super) fn push(&self, batch: &mut Vec<Item>) {
        self.push_to(self.state.lock(), batch);
    }

    /// The same for new connections, which wait while the step is behind. Those that come too late are let go.
    pub(super) fn push_new(&self, batch: &mut Vec<Item>) {
        let mut state = self.state.lock();
        self.room.wait_while(&mut state, |state| !state.closed && state.items.len() >= ITEMS_BEFORE_NEW_MAX);
        if state.closed {
            drop(state);
            return batch.clear();
        }
        self.push_to(state, batch);
    }

    fn push_to(&self, mut state: MutexGuard<'_, State>, batch: &mut Vec<Item>) {
        if state.items.is_empty() {
            // The step's emptied vector comes back to be filled again.
            std::mem::swap(&mut state.items, batch);
        } else {
            state.items.append(batch);
        }
        let asleep = std::mem::take(&mut state.asleep);
        drop(state);
        if asleep {
            self.inbox.ring();
        }
    }

    /// Takes everything, into an empty batch. `false` once nothing more will come.
    pub(super) fn take(&self, batch: &mut Vec<Item>, then_sleep: ThenSleep) -> bool {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.items, batch);
        state.asleep = batch.is_empty() && then_sleep == ThenSleep::Yes;
        let open = !state.closed;
        drop(state);
        self.room.notify_one();
        open
    }

    /// Nothing more will come, or nobody is left to take it.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.room.notify_one();
        self.inbox.ring();
    }
}
