//! A record in memory that processes share: a value as JSON. One thread writes it as a whole, and readers get a whole one or none.
//!
//! The first word counts the writes (a seqlock). It is odd while the record is being written. So a process that is killed
//! meanwhile leaves a record that nobody reads, until the next one writes it. The second word is the length.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// How often a reader tries before it takes the record for broken.
const TRIES_MAX: usize = 100;

/// Writes a value in the place of the one before. One that is too long is left out. Only one thread may.
pub(super) fn write(at: &[AtomicU64], value: &impl Serialize) {
    let [writes, length, words @ ..] = at else { return };
    let json = serde_json::to_vec(value).ok().filter(|json| json.len() <= 8 * words.len());
    let json = json.unwrap_or_default();
    let begun = (writes.load(Ordering::Relaxed) + 1) | 1;
    writes.store(begun, Ordering::Relaxed);
    // No word is seen before the odd number.
    fence(Ordering::Release);
    length.store(json.len() as u64, Ordering::Relaxed);
    for (word, bytes) in words.iter().zip(json.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
    }
    writes.store(begun + 1, Ordering::Release);
}

/// The value, if there is a whole one.
pub(super) fn read<T: DeserializeOwned>(at: &[AtomicU64]) -> Option<T> {
    let [writes, length, words @ ..] = at else { return None };
    let json: Vec<u8> = (0..TRIES_MAX).find_map(|_| {
        let before = writes.load(Ordering::Acquire);
        if before == 0 || !before.is_multiple_of(2) {
            return None;
        }
        let bytes = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let json = bytes.take(length.load(Ordering::Relaxed) as usize).collect();
        fence(Ordering::Acquire);
        (writes.load(Ordering::Relaxed) == before).then_some(json)
    })?;
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use flash_os::shared_array::SharedWords;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let at = SharedWords::zeroed(2 + 4).unwrap();
        let read = || read::<(u8, String)>(&at);
        assert_eq!(read(), None, "there is none yet");
        for text in ["", "short", "\"\n", "more bytes than there is room for"] {
            write(&at, &(7, text));
            assert_eq!(read(), (text.len() < 9).then(|| (7, text.to_owned())), "{text}");
        }
        write(&at, &(8, "again"));
        at[0].fetch_add(1, Ordering::Relaxed);
        assert_eq!(read(), None, "its writer was killed");
        write(&at, &(1, "next"));
        assert_eq!(read().unwrap().1, "next");
    }

    #[test]
    fn no_reader_gets_a_part() {
        let at = SharedWords::zeroed(30).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| (10_000..30_000_u64).for_each(|number| write(&at, &[number; 8])));
            let mut last = 0;
            while !writer.is_finished() {
                if let Some(record) = read::<[u64; 8]>(&at) {
                    assert!(record.iter().all(|word| *word == record[0]) && record[0] >= last, "{record:?}");
                    last = record[0];
                }
            }
        });
    }
}
