//! A list that many threads add to and one empties, where neither ever waits for the other.
//!
//! A lock would not do between a loop and its helpers: a helper that the kernel interrupts while it holds one makes the
//! loop sleep until the helper runs again. Here whoever is interrupted holds up nobody. Waking the other side is left to
//! the owner.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

pub struct Mailbox<T> {
    newest: AtomicPtr<Letter<T>>,
    /// It owns what it holds.
    _letters: PhantomData<Box<Letter<T>>>,
}

struct Letter<T> {
    next: *mut Letter<T>,
    what: T,
}

/// What was in a mailbox, in the order in which it came.
pub struct Letters<T> {
    oldest: *mut Letter<T>,
    _letters: PhantomData<Box<Letter<T>>>,
}

// SAFETY: what it holds moves from the thread that put it there to the one that takes it, and is never looked at by two.
unsafe impl<T: Send> Send for Mailbox<T> {}
// SAFETY: as above: a shared mailbox only lets values of `T` move between threads.
unsafe impl<T: Send> Sync for Mailbox<T> {}
// SAFETY: it is the only owner of its letters.
unsafe impl<T: Send> Send for Letters<T> {}

impl<T> Mailbox<T> {
    pub const fn new() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()), _letters: PhantomData }
    }

    /// Adds something. Returns whether there was nothing before, so that somebody may have to be woken.
    pub fn put(&self, what: T) -> bool {
        let letter = Box::into_raw(Box::new(Letter { next: ptr::null_mut(), what }));
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: nobody else knows of the letter before the exchange succeeds.
            unsafe { (*letter).next = newest };
            // That another list has the same address by now does no harm: all that is ever taken is a whole list, so the
            // newest letter of the present one is always the right one to be followed by.
            match self.newest.compare_exchange_weak(newest, letter, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return newest.is_null(),
                Err(now) => newest = now,
            }
        }
    }

    /// Takes all that is there.
    pub fn take_all(&self) -> Letters<T> {
        // Looking first keeps the cache line with those who write it.
        let mut letter = match self.newest.load(Ordering::Relaxed).is_null() {
            true => ptr::null_mut(),
            false => self.newest.swap(ptr::null_mut(), Ordering::Acquire),
        };
        // The newest comes first: turn them round.
        let mut oldest = ptr::null_mut();
        while !letter.is_null() {
            // SAFETY: the exchange took the list out of everybody else's reach, and its letters are those of `put`, each
            // with a `next` that was written before it was published.
            let next = unsafe { std::mem::replace(&mut (*letter).next, oldest) };
            oldest = letter;
            letter = next;
        }
        Letters { oldest, _letters: PhantomData }
    }
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

impl<T> Iterator for Letters<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.oldest.is_null() {
            return None;
        }
        // SAFETY: the letters are this iterator's own, made by `Box::into_raw` in `put`, and each is taken once.
        let letter = unsafe { Box::from_raw(self.oldest) };
        self.oldest = letter.next;
        Some(letter.what)
    }
}

impl<T> Drop for Letters<T> {
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
    fn what_comes_first_is_taken_first() {
        let mailbox = Mailbox::new();
        assert!(mailbox.put(1), "it was empty");
        assert!(!mailbox.put(2));
        assert_eq!(mailbox.take_all().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(mailbox.take_all().next(), None);
        assert!(mailbox.put(3), "it is empty again");
    }

    #[test]
    fn nothing_is_lost_between_threads_and_each_keeps_its_order() {
        const EACH: u64 = 20_000;
        let mailbox = Arc::new(Mailbox::new());
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let mailbox = Arc::clone(&mailbox);
                thread::spawn(move || {
                    for number in 0..EACH {
                        mailbox.put((writer, number));
                    }
                })
            })
            .collect();
        let mut expected = [0; 4];
        while expected != [EACH; 4] {
            for (writer, number) in mailbox.take_all() {
                assert_eq!(number, expected[writer]);
                expected[writer] += 1;
            }
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(mailbox.take_all().next(), None);
    }

    #[test]
    fn what_nobody_takes_is_dropped_once() {
        let value = Arc::new(());
        let mailbox = Mailbox::new();
        for _ in 0..5 {
            mailbox.put(Arc::clone(&value));
        }
        let mut letters = mailbox.take_all();
        drop(letters.next());
        assert_eq!(Arc::strong_count(&value), 5);
        drop(letters);
        mailbox.put(Arc::clone(&value));
        drop(mailbox);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
