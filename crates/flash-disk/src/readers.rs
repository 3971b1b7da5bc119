//! How far large files are read ahead.
//!
//! A reader that is alone needs little: the disk goes on where it was. If several read at a time, each comes back after all others, and
//! an arm has to find its place again. The more it reads there, the less of its time goes into seeks. All readers together have a
//! part of the memory, so the more there are, the less each has.

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::read::AHEAD_BYTES;

/// With it, sixteen readers of a disk with an arm have 0.9 of what one has that reads in order.
const AHEAD_BYTES_MAX: u64 = 8 << 20;
/// A reader that has not come back for so long has ended, or its client is slow.
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
        if left <= AHEAD_BYTES {
            // It does not come back.
            return Some(left);
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|reader| {
            let is_same = reader.file == file && reader.ahead.contains(&rest.start);
            !is_same && now.saturating_duration_since(reader.at) < ACTIVE
        });
        let bytes = match recent.len() + 1 {
            1 | READERS_MAX.. => AHEAD_BYTES.get(),
            readers => (self.bytes_max / readers as u64).clamp(AHEAD_BYTES.get(), AHEAD_BYTES_MAX),
        };
        let bytes = left.min(NonZeroU64::new(bytes)?);
        if recent.len() < READERS_MAX {
            // What follows a read-ahead directly is the same reader, too.
            let ahead = rest.start..rest.start + bytes.get() + 1;
            recent.push(Reader { file, ahead, at: now });
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Mebibytes that each of so many readers has when it comes back.
    fn each(readers: &Readers, count: u64, now: Instant) -> Vec<u64> {
        let mut starts: Vec<u64> = (0..count).map(|number| number * 1024 * MIB).collect();
        let mut last = Vec::new();
        for round in 0..3 {
            last.clear();
            for (number, start) in starts.iter_mut().enumerate() {
                let rest = *start..(number as u64 + 1) * 1024 * MIB;
                let bytes = readers.ahead((0, 7), &rest, now + Duration::from_secs(round)).unwrap().get();
                // It comes back before all of it is sent.
                *start += bytes - MIB / 2;
                last.push(bytes / MIB);
            }
        }
        last
    }

    #[test]
    fn the_more_read_at_a_time_the_more_is_read_at_once_within_the_memory() {
        let now = Instant::now();
        assert_eq!(each(&Readers::new(128 * MIB), 1, now), [1]);
        assert_eq!(each(&Readers::new(128 * MIB), 2, now), [8, 8]);
        assert_eq!(each(&Readers::new(128 * MIB), 16, now), [8; 16]);
        assert_eq!(each(&Readers::new(128 * MIB), 64, now), [2; 64]);
        assert_eq!(each(&Readers::new(16 * MIB), 16, now), [1; 16]);
        // Beyond those that are remembered, none has more than the least.
        assert_eq!(each(&Readers::new(u64::MAX), 1_000, now), [1; 1_000]);
    }

    #[test]
    fn those_that_have_ended_count_no_more_and_short_reads_never() {
        let (readers, now) = (Readers::new(128 * MIB), Instant::now());
        let read = |start: u64, end: u64, seconds| {
            readers.ahead((0, 1), &(start..end), now + Duration::from_secs(seconds)).map(NonZeroU64::get)
        };
        for number in 0..100 {
            assert_eq!(read(number * MIB, number * MIB + 1_000, 0), Some(1_000), "no more than is asked for");
        }
        assert_eq!(read(0, 100 * MIB, 0), Some(MIB));
        assert_eq!(read(500 * MIB, 900 * MIB, 1), Some(8 * MIB));
        assert_eq!(read(501 * MIB, 900 * MIB, 20), Some(MIB), "the other one has ended");
        assert_eq!(read(5, 5, 20), None);
    }
}
