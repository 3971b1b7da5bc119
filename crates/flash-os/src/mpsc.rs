//! A lock-free queue with many producers and one consumer that drains it all at once: neither side ever blocks.
//!
//! A lock would not do between a loop and its helpers. If the kernel interrupted a helper that holds the lock, the loop would
//! sleep until the helper runs again. Here an interrupted producer blocks no other thread. The owner wakes the consumer: see
//! [`crate::channel`].

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

pub struct Queue<T> {
    newest: AtomicPtr<Node<T>>,
    /// It owns value it holds.
    _nodes: PhantomData<Box<Node<T>>>,
}

struct Node<T> {
    next: *mut Node<T>,
    value: T,
}

/// Drains value was in the queue, oldest first.
pub struct Drain<T> {
    oldest: *mut Node<T>,
    _nodes: PhantomData<Box<Node<T>>>,
}

// SAFETY: a value moves from the thread that pushed it to the one that drains it, and is never seen by two at once.
unsafe impl<T: Send> Send for Queue<T> {}
// SAFETY: as above: a shared queue only lets values of `T` move between threads.
unsafe impl<T: Send> Sync for Queue<T> {}
// SAFETY: it is the only owner of its nodes.
unsafe impl<T: Send> Send for Drain<T> {}

impl<T> Queue<T> {
    pub const fn new() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()), _nodes: PhantomData }
    }

    /// Adds a value. Returns whether the queue was empty, so that the consumer may have to be woken.
    pub fn push(&self, value: T) -> bool {
        let node = Box::into_raw(Box::new(Node { next: ptr::null_mut(), value }));
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: no other thread knows the node before the exchange succeeds.
            unsafe { (*node).next = newest };
            // That another list has the same address by now does no harm: all that is ever taken is a whole list, so the
            // newest node of the present one is always the right one to be followed by.
            match self.newest.compare_exchange_weak(newest, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return newest.is_null(),
                Err(now) => newest = now,
            }
        }
    }

    /// Takes every value that is in the queue now.
    pub fn drain(&self) -> Drain<T> {
        // Looking first keeps the cache line with those who write it.
        let mut node = match self.newest.load(Ordering::Relaxed).is_null() {
            true => ptr::null_mut(),
            false => self.newest.swap(ptr::null_mut(), Ordering::Acquire),
        };
        // The newest comes first: turn them round.
        let mut oldest = ptr::null_mut();
        while !node.is_null() {
            // SAFETY: the exchange took the list out of everybody else's reach, and its drain are those of `push`, each
            // with a `next` that was written before it was published.
            let next = unsafe { std::mem::replace(&mut (*node).next, oldest) };
            oldest = node;
            node = next;
        }
        Drain { oldest, _nodes: PhantomData }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        drop(self.drain());
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<T> Iterator for Drain<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.oldest.is_null() {
            return None;
        }
        // SAFETY: the drain are this iterator's own, made by `Box::into_raw` in `push`, and each is taken once.
        let node = unsafe { Box::from_raw(self.oldest) };
        self.oldest = node.next;
        Some(node.value)
    }
}

impl<T> Drop for Drain<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn what_is_pushed_first_is_drained_first() {
        let queue = Queue::new();
        assert!(queue.push(1), "it was empty");
        assert!(!queue.push(2));
        assert_eq!(queue.drain().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(queue.drain().next(), None);
        assert!(queue.push(3), "it is empty again");
    }

    #[test]
    fn nothing_is_lost_between_threads_and_each_keeps_its_order() {
        const EACH: u64 = 20_000;
        let queue = Arc::new(Queue::new());
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    for number in 0..EACH {
                        queue.push((writer, number));
                    }
                })
            })
            .collect();
        let mut expected = [0; 4];
        while expected != [EACH; 4] {
            for (writer, number) in queue.drain() {
                assert_eq!(number, expected[writer]);
                expected[writer] += 1;
            }
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(queue.drain().next(), None);
    }

    #[test]
    fn what_nobody_takes_is_dropped_once() {
        let value = Arc::new(());
        let queue = Queue::new();
        for _ in 0..5 {
            queue.push(Arc::clone(&value));
        }
        let mut drain = queue.drain();
        drop(drain.next());
        assert_eq!(Arc::strong_count(&value), 5);
        drop(drain);
        queue.push(Arc::clone(&value));
        drop(queue);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
