//! The queue in front of a stage. Connections come in batches, and a batch wakes the stage at most once.
//!
//! Only the acceptor waits for queue space. A connection is in one place at a time. So no queue exceeds the number of
//! permits by more than the few that have just given theirs up. The stages need not wait, and so cannot deadlock.

use std::io;
use std::sync::Arc;

use flash_core::ExchangeId;
use flash_core::job::{Job, Outcome};
use flash_core::upstream::Arriving;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::completion_queue::CompletionQueue;
use crate::pipelined::parked::Slot;

/// A connection on its way to a stage, and what the stage before it passes along.
pub(super) struct Item {
    pub(super) slot: Box<Slot>,
    pub(super) with: With,
}

pub(super) enum With {
    Nothing,
    /// A job for the step that finds files, or the one that reads them.
    Job(ExchangeId, Job),
    /// The result of a job.
    Done(ExchangeId, Outcome),
    /// The upstream has opened, or failed.
    Opened(ExchangeId, Arriving),
    /// A panic has left the connection in an unknown state. It is closed.
    Poisoned,
}

/// The queues in front of a pool's stages, in the order of the steps.
pub(super) type Queues = [Arc<Queue<Item>>; 4];

pub(super) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    room: Condvar,
    /// Its waker wakes the stage. The results of the stage's helper come here.
    completions: Arc<CompletionQueue>,
}

struct QueueState<T> {
    items: Vec<T>,
    /// The stage sleeps, or is about to, so the next batch has to wake it.
    asleep: bool,
    /// The stages before it have ended.
    closed: bool,
}

/// Whether a stage that finds its queue empty goes to sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ThenSleep {
    Yes,
    No,
}

/// New connections wait while so many items are in the queue.
pub(super) const ITEMS_BEFORE_NEW_MAX: usize = 256;

impl<T> Queue<T> {
    pub(super) fn new() -> io::Result<Self> {
        let state = Mutex::new(QueueState { items: Vec::new(), asleep: false, closed: false });
        Ok(Self { state, room: Condvar::new(), completions: Arc::new(CompletionQueue::new()?) })
    }

    pub(super) fn completions(&self) -> &Arc<CompletionQueue> {
        &self.completions
    }

    /// Hands over the whole batch, and leaves it empty.
    pub(super) fn push(&self, batch: &mut Vec<T>) {
        self.push_to(self.state.lock(), batch);
    }

    /// Hands over new connections. Waits while the queue is full. Drops them if the queue is closed.
    pub(super) fn push_new(&self, batch: &mut Vec<T>) {
        let mut state = self.state.lock();
        self.room.wait_while(&mut state, |state| !state.closed && state.items.len() >= ITEMS_BEFORE_NEW_MAX);
        if state.closed {
            drop(state);
            return batch.clear();
        }
        self.push_to(state, batch);
    }

    fn push_to(&self, mut state: MutexGuard<'_, QueueState<T>>, batch: &mut Vec<T>) {
        if state.items.is_empty() {
            // The stage's emptied vector comes back to be filled again.
            std::mem::swap(&mut state.items, batch);
        } else {
            state.items.append(batch);
        }
        let asleep = std::mem::take(&mut state.asleep);
        drop(state);
        if asleep {
            self.completions.wake();
        }
    }

    /// Takes all items into an empty batch. Returns whether the queue is open.
    pub(super) fn take(&self, batch: &mut Vec<T>, then_sleep: ThenSleep) -> bool {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.items, batch);
        state.asleep = batch.is_empty() && then_sleep == ThenSleep::Yes;
        let open = !state.closed;
        drop(state);
        self.room.notify_one();
        open
    }

    /// Closes the queue: no stage is left to fill it, or to take from it.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.room.notify_one();
        self.completions.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::io::{Errno, read};

    use super::*;

    /// How often the stage was woken since the last time.
    fn wakes(queue: &Queue<usize>) -> u64 {
        let mut count = [0; 8];
        match read(queue.completions().waker(), &mut count) {
            Ok(_) => u64::from_ne_bytes(count),
            Err(Errno::AGAIN) => 0,
            Err(error) => panic!("{error}"),
        }
    }

    fn take(queue: &Queue<usize>, then_sleep: ThenSleep) -> Vec<usize> {
        let mut batch = Vec::new();
        queue.take(&mut batch, then_sleep);
        batch
    }

    #[test]
    fn many_batches_wake_a_sleeping_step_once_and_a_waking_one_never() {
        let queue = Queue::new().unwrap();
        queue.push(&mut vec![1, 2]);
        assert_eq!((take(&queue, ThenSleep::Yes), wakes(&queue)), (vec![1, 2], 0));
        queue.push(&mut vec![3]);
        assert_eq!(wakes(&queue), 0, "it had something to do, and looks again");
        assert_eq!(take(&queue, ThenSleep::Yes), [3]);
        assert!(take(&queue, ThenSleep::No).is_empty());
        queue.push(&mut vec![4]);
        assert_eq!(wakes(&queue), 0, "it did not go to sleep");
        assert_eq!(take(&queue, ThenSleep::Yes), [4]);
        assert!(take(&queue, ThenSleep::Yes).is_empty());
        let mut batch = vec![5, 6];
        queue.push(&mut batch);
        queue.push(&mut vec![7]);
        assert_eq!((batch.len(), wakes(&queue)), (0, 1));
        assert_eq!(take(&queue, ThenSleep::Yes), [5, 6, 7]);
    }

    #[test]
    fn new_connections_wait_for_room_and_the_others_do_not() {
        let queue = Arc::new(Queue::new().unwrap());
        queue.push(&mut (0..ITEMS_BEFORE_NEW_MAX).collect());
        let acceptor = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push_new(&mut vec![1_000])
        });
        std::thread::sleep(Duration::from_millis(50));
        queue.push(&mut vec![999]);
        assert_eq!(take(&queue, ThenSleep::Yes).last(), Some(&999), "the new one is still outside");
        acceptor.join().unwrap();
        assert_eq!(take(&queue, ThenSleep::Yes), [1_000]);
    }

    #[test]
    fn a_closed_queue_keeps_nobody_waiting() {
        let queue = Arc::new(Queue::new().unwrap());
        queue.push(&mut (0..ITEMS_BEFORE_NEW_MAX).collect());
        let acceptor = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push_new(&mut vec![1_000])
        });
        std::thread::sleep(Duration::from_millis(50));
        queue.close();
        acceptor.join().unwrap();
        let mut batch = Vec::new();
        assert!(!queue.take(&mut batch, ThenSleep::Yes));
        assert_eq!(batch.len(), ITEMS_BEFORE_NEW_MAX, "what was there is still served");
    }
}
