//! Records in memory that processes share: one thread writes a record as a whole, and readers get a whole one or none.
//!
//! The first word counts the writes (a seqlock). It is odd while the record is being written. So a process that is killed
//! meanwhile leaves a record that nobody reads, until the next one writes it.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// How often a reader tries before it takes the record for broken.
const TRIES_MAX: usize = 100;

/// The words of a text: its length, and its first bytes.
pub(super) const fn text_words(bytes_max: usize) -> usize {
    1 + bytes_max.div_ceil(8)
}

/// Writes a record. Only one thread may.
pub(super) fn write(at: &[AtomicU64], record: &[u64]) {
    let begun = (at[0].load(Ordering::Relaxed) + 1) | 1;
    at[0].store(begun, Ordering::Relaxed);
    // No word is seen before the odd number.
    fence(Ordering::Release);
    for (word, value) in at[1..].iter().zip(record) {
        word.store(*value, Ordering::Relaxed);
    }
    at[0].store(begun + 1, Ordering::Release);
}

/// The record, if there is a whole one.
pub(super) fn read(at: &[AtomicU64]) -> Option<Vec<u64>> {
    (0..TRIES_MAX).find_map(|_| {
        let before = at[0].load(Ordering::Acquire);
        if before == 0 || !before.is_multiple_of(2) {
            return None;
        }
        let record = at[1..].iter().map(|word| word.load(Ordering::Relaxed)).collect();
        fence(Ordering::Acquire);
        (at[0].load(Ordering::Relaxed) == before).then_some(record)
    })
}

/// Builds a record.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u64>);

impl Writer {
    pub(super) fn number(&mut self, number: u64) {
        self.0.push(number);
    }

    /// As many of the bytes as there is room for.
    pub(super) fn text(&mut self, text: &[u8], bytes_max: usize) {
        let text = &text[..text.len().min(bytes_max)];
        let end = self.0.len() + text_words(bytes_max);
        self.0.push(text.len() as u64);
        for bytes in text.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.0.push(u64::from_ne_bytes(word));
        }
        self.0.resize(end, 0);
    }
}

/// Takes a record apart.
pub(super) struct Reader<'r>(pub(super) &'r [u64]);

impl Reader<'_> {
    pub(super) fn number(&mut self) -> u64 {
        let (first, rest) = self.0.split_first().expect("the record is as long as it was written");
        self.0 = rest;
        *first
    }

    pub(super) fn text(&mut self, bytes_max: usize) -> String {
        let (words, rest) = self.0.split_at(text_words(bytes_max));
        self.0 = rest;
        let bytes = words[1..].iter().flat_map(|word| word.to_ne_bytes());
        let bytes: Vec<u8> = bytes.take((words[0] as usize).min(bytes_max)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use flash_os::shared_array::SharedWords;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let at = SharedWords::zeroed(1 + 2 + text_words(9)).unwrap();
        assert_eq!(read(&at), None, "there is none yet");
        for text in ["", "short", "nine byte", "more than nine"] {
            let mut writer = Writer::default();
            writer.number(7);
            writer.text(text.as_bytes(), 9);
            writer.number(8);
            write(&at, &writer.0);
            let record = read(&at).unwrap();
            let mut reader = Reader(&record);
            assert_eq!(
                (reader.number(), &*reader.text(9), reader.number()),
                (7, &text[..text.len().min(9)], 8)
            );
        }
        at[0].fetch_add(1, Ordering::Relaxed);
        assert_eq!(read(&at), None, "its writer was killed");
        write(&at, &[1]);
        assert_eq!(read(&at).unwrap()[0], 1);
    }

    #[test]
    fn no_reader_gets_a_part() {
        let at = SharedWords::zeroed(9).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| (0..20_000).for_each(|number| write(&at, &[number; 8])));
            let mut last = 0;
            while !writer.is_finished() {
                if let Some(record) = read(&at) {
                    assert!(record.iter().all(|word| *word == record[0]) && record[0] >= last, "{record:?}");
                    last = record[0];
                }
            }
        });
    }
}
