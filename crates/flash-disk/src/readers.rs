//! How far large files are read ahead.
//!
//! A reader that is alone needs little: the disk goes on where it was. If several read at a time, each comes back after all others, and
//! an arm has to find its place again. The more it reads there, the less of its time goes into seeks. So a reader that comes back soon
//! gets twice what it had, up to its part of the memory that all have together. What a slow client has not taken stays small.

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::read::AHEAD_BYTES;

/// With it, sixteen readers of a disk with an arm have 0.9 of what one has that reads in order.
const AHEAD_BYTES_MAX: u64 = 8 << 20;
/// A reader that has not come back for so long has ended, or its client is slow: it gets the least again.
const ACTIVE: Duration = Duration::from_secs(10);
/// If as many read, each has the least.
const READERS_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Readers {
    bytes_max: u64,
    recent: Mutex<Vec<Reader>>,
}

/// The file's device, and its inode there.
type FileNumber = (u64, u64);

#[derive(Debug)]
struct Reader {
    file: FileNumber,
    /// What was read ahead of it last.
    ahead: Range<u64>,
    at: Instant,
}

impl Readers {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, recent: Mutex::default() }
    }

    /// How many bytes are read ahead for the reader of the rest of a file.
    pub(crate) fn ahead(&self, file: FileNumber, rest: &Range<u64>, now: Instant) -> Option<NonZeroU64> {
        let left = NonZeroU64::new(rest.end.saturating_sub(rest.start))?;
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|reader| now.saturating_duration_since(reader.at) < ACTIVE);
        let is_same = |Reader { file: other, ahead, .. }: &Reader| {
            *other == file && (ahead.start..=ahead.end).contains(&rest.start)
        };
        let own = recent.iter().position(is_same).map(|place| recent.swap_remove(place));
        let had = own.map_or(0, |own| own.ahead.end - own.ahead.start);
        let bytes = match recent.len() + 1 {
            1 | READERS_MAX.. => AHEAD_BYTES,
            readers => {
                let part = (self.bytes_max / readers as u64).min(AHEAD_BYTES_MAX);
                NonZeroU64::new((2 * had).min(part)).map_or(AHEAD_BYTES, |more| more.max(AHEAD_BYTES))
            }
        };
        if left <= bytes {
            // It does not come back.
            return Some(left);
        }
        if recent.len() < READERS_MAX {
            let ahead = rest.start..rest.start + bytes.get();
            recent.push(Reader { file, ahead, at: now });
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Mebibytes that each of so many readers has when it has come back several times.
    fn each(readers: &Readers, count: u64, seconds_between: u64) -> Vec<u64> {
        let began = Instant::now();
        let mut starts: Vec<u64> = (0..count).map(|number| number * 1024 * MIB).collect();
        let mut last = Vec::new();
        for round in 0..6 {
            last.clear();
            let now = began + Duration::from_secs(round * seconds_between);
            for (number, start) in starts.iter_mut().enumerate() {
                let rest = *start..(number as u64 + 1) * 1024 * MIB;
                let bytes = readers.ahead((0, 7), &rest, now).unwrap().get();
                // It comes back before all of it is sent.
                *start += bytes - MIB / 2;
                last.push(bytes / MIB);
            }
        }
        last
    }

    #[test]
    fn readers_beside_each_other_read_more_at_once_within_the_memory() {
        assert_eq!(each(&Readers::new(128 * MIB), 1, 1), [1]);
        assert_eq!(each(&Readers::new(128 * MIB), 2, 1), [8, 8]);
        assert_eq!(each(&Readers::new(128 * MIB), 16, 1), [8; 16]);
        assert_eq!(each(&Readers::new(128 * MIB), 64, 1), [2; 64]);
        assert_eq!(each(&Readers::new(16 * MIB), 16, 1), [1; 16]);
        assert_eq!(each(&Readers::new(0), 16, 1), [1; 16]);
        // Beyond those that are remembered, none has more than the least.
        assert_eq!(each(&Readers::new(u64::MAX), 1_000, 1), [1; 1_000]);
    }

    #[test]
    fn what_slow_clients_have_not_taken_stays_small() {
        assert_eq!(each(&Readers::new(u64::MAX), 200, 11), [1; 200]);
    }

    #[test]
    fn those_that_have_ended_count_no_more() {
        let (readers, now) = (Readers::new(128 * MIB), Instant::now());
        let read = |inode: u64, start: u64, end: u64, seconds| {
            let now = now + Duration::from_secs(seconds);
            readers.ahead((0, inode), &(start..end), now).map(NonZeroU64::get)
        };
        for number in 0..300 {
            assert_eq!(read(number, 0, 1_000, 0), Some(1_000), "no more than is asked for");
            assert_eq!(read(number, 0, 3 * MIB / 2, 0), Some(MIB));
            assert_eq!(read(number, MIB / 2, 3 * MIB / 2, 0), Some(MIB), "the rest of it");
        }
        assert_eq!(read(1, 0, 100 * MIB, 0), Some(MIB));
        assert_eq!(read(1, MIB, 100 * MIB, 1), Some(MIB), "it is alone");
        assert_eq!(read(2, 0, 100 * MIB, 1), Some(MIB), "nobody knows it yet");
        assert_eq!(read(2, MIB, 100 * MIB, 2), Some(2 * MIB));
        assert_eq!(read(2, 3 * MIB, 100 * MIB, 20), Some(MIB), "it was slow, and the other one has ended");
        assert_eq!(read(2, 5, 5, 20), None);
    }
}
