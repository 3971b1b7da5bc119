//! A guess at what is in memory, for systems that do not tell (Flash §5.7): a clock over the blocks that were read.
//!
//! A block counts as in memory as long as few enough others came into memory since it was last used. How many these may be is learnt:
//! a guess that made the disk read was wrong, and the room for blocks shrinks; with right ones it grows again, slowly.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::file_stat::FileStat;
use crate::thread_usage;

const BLOCK_BYTES: u64 = 64 << 10;
/// A place for each block of 4 GiB. If two blocks share one, the older is forgotten.
const PLACES: usize = 1 << 16;
const ROOM_MIN: u64 = 16;
/// So many right guesses make room for a block more.
const RIGHT_FOR_ONE: u64 = 64;

/// A file, by its device and inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileKey(u64);

impl FileKey {
    pub(crate) fn of(stat: &FileStat) -> Self {
        Self(mixed(stat.device ^ mixed(stat.inode)))
    }
}

/// The bits of a number, spread over all of it.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number ^ (number >> 29)
}

pub(crate) struct Clock {
    /// A block's own 32 bits, and the time of its last use.
    places: Box<[AtomicU64]>,
    /// How many blocks have come into memory: the hand.
    now: AtomicU64,
    /// How many blocks memory holds, as far as is known.
    room: AtomicU64,
    room_max: u64,
    right: AtomicU64,
    wrong: AtomicU64,
}

/// The clock of this process.
pub(crate) fn get() -> &'static Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(|| Clock::new(u64::from(u32::MAX) / 2))
}

impl Clock {
    fn new(room_max: u64) -> Self {
        Self {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            now: AtomicU64::new(1),
            // The first wrong guesses tell how much it is.
            room: AtomicU64::new(room_max.min(PLACES as u64)),
            room_max,
            right: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    /// The range was read.
    pub(crate) fn note(&self, file: FileKey, range: &Range<u64>) {
        for block in blocks(range) {
            let (place, own) = self.place(file, block);
            if place.load(Ordering::Relaxed) >> 32 != own {
                self.now.fetch_add(1, Ordering::Relaxed);
            }
            self.use_now(place, own);
        }
    }

    /// How many bytes from the start of the range seem to be in memory. They count as used.
    pub(crate) fn leading_bytes(&self, file: FileKey, range: &Range<u64>) -> u64 {
        let held = blocks(range).take_while(|block| self.holds(file, *block)).count() as u64;
        let first = range.start / BLOCK_BYTES;
        ((first + held) * BLOCK_BYTES).clamp(range.start, range.end) - range.start
    }

    fn holds(&self, file: FileKey, block: u64) -> bool {
        let (place, own) = self.place(file, block);
        let at = place.load(Ordering::Relaxed);
        let age = (self.now.load(Ordering::Relaxed) as u32).wrapping_sub(at as u32);
        let is_held = at >> 32 == own && u64::from(age) < self.room.load(Ordering::Relaxed);
        if is_held {
            self.use_now(place, own);
        }
        is_held
    }

    /// Makes a call that relies on a guess, and learns from it.
    pub(crate) fn watch<T>(&self, call: impl FnOnce() -> T) -> T {
        let before = thread_usage::current().sectors_read;
        let result = call();
        self.learn(thread_usage::current().sectors_read == before);
        result
    }

    fn learn(&self, was_right: bool) {
        let room = self.room.load(Ordering::Relaxed);
        let is_due = || self.right.fetch_add(1, Ordering::Relaxed).is_multiple_of(RIGHT_FOR_ONE);
        // If two threads learn at once, one of them learns nothing.
        match was_right {
            false => {
                self.wrong.fetch_add(1, Ordering::Relaxed);
                self.room.store((room - room / 8).max(ROOM_MIN), Ordering::Relaxed);
            }
            true if is_due() => self.room.store((room + 1).min(self.room_max), Ordering::Relaxed),
            true => {}
        }
    }

    /// How many guesses there were, and how many of them were wrong.
    pub(crate) fn guesses(&self) -> (u64, u64) {
        let wrong = self.wrong.load(Ordering::Relaxed);
        (self.right.load(Ordering::Relaxed) + wrong, wrong)
    }

    fn place(&self, file: FileKey, block: u64) -> (&AtomicU64, u64) {
        let hash = mixed(file.0 ^ mixed(block));
        (&self.places[hash as usize % PLACES], (hash >> 32) | 1)
    }

    fn use_now(&self, place: &AtomicU64, own: u64) {
        let now = self.now.load(Ordering::Relaxed) & u64::from(u32::MAX);
        place.store(own << 32 | now, Ordering::Relaxed);
    }
}

fn blocks(range: &Range<u64>) -> Range<u64> {
    range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileKey = FileKey(7);

    #[test]
    fn what_was_read_is_held_until_as_much_else_as_memory_holds_was_read() {
        let clock = Clock::new(100);
        let range = 10_000..3 * BLOCK_BYTES;
        assert_eq!(clock.leading_bytes(FILE, &range), 0);
        clock.note(FILE, &range);
        assert_eq!(clock.leading_bytes(FILE, &range), range.end - range.start);
        assert_eq!(clock.leading_bytes(FILE, &(5..BLOCK_BYTES * 5)), BLOCK_BYTES * 3 - 5);
        assert_eq!(clock.leading_bytes(FileKey(8), &range), 0);
        (0..90).for_each(|other| clock.note(FileKey(100 + other), &(0..1)));
        assert!(clock.leading_bytes(FILE, &(0..1)) == 1, "it is used again");
        (0..90).for_each(|other| clock.note(FileKey(200 + other), &(0..1)));
        assert_eq!(clock.leading_bytes(FILE, &(0..BLOCK_BYTES * 3)), BLOCK_BYTES);
    }

    #[test]
    fn wrong_guesses_make_the_room_smaller_and_right_ones_larger() {
        let clock = Clock::new(1000);
        let room = || clock.room.load(Ordering::Relaxed);
        clock.learn(false);
        assert_eq!(room(), 875);
        (0..6400).for_each(|_| clock.learn(true));
        assert_eq!(room(), 975);
        (0..100).for_each(|_| clock.learn(false));
        assert_eq!(room(), ROOM_MIN);
        (0..640_000).for_each(|_| clock.learn(true));
        assert_eq!(room(), 1000);
        assert_eq!(clock.guesses(), (646_501, 101));
    }

    #[test]
    fn a_call_that_reads_no_disk_was_guessed_right() {
        let clock = Clock::new(1000);
        assert_eq!(clock.watch(|| 5), 5);
        assert_eq!(clock.right.load(Ordering::Relaxed), 1);
    }
}
