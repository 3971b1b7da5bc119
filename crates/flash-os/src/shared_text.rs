//! A text that one process writes, and that it shares with the processes that were forked since. No reader takes a lock.

use std::io;
use std::sync::atomic::{Ordering, fence};

use crate::shared_array::SharedWords;

/// Empty at first.
#[derive(Debug)]
pub struct SharedText {
    /// The version, which is odd while the text is written; the length; and the bytes.
    words: SharedWords,
}

const HEAD_WORDS: usize = 2;
const WORD_BYTES: usize = size_of::<u64>();
/// A writer that was killed leaves a version that stays odd.
const TRIES: usize = 1_000;

impl SharedText {
    /// A text of so many bytes at most.
    ///
    /// # Errors
    /// When the kernel has no memory.
    pub fn new(bytes_max: usize) -> io::Result<Self> {
        Ok(Self { words: SharedWords::zeroed(HEAD_WORDS + bytes_max.div_ceil(WORD_BYTES))? })
    }

    /// A number that each change of the text raises.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.words[0].load(Ordering::Acquire)
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words[1].load(Ordering::Relaxed) == 0
    }

    /// How many bytes it may have.
    #[must_use]
    pub fn room(&self) -> usize {
        (self.words.len() - HEAD_WORDS) * WORD_BYTES
    }

    /// The text. Empty while its writer stands still in the middle of it.
    #[must_use]
    pub fn read(&self) -> Vec<u8> {
        (0..TRIES).find_map(|_| self.try_read()).unwrap_or_default()
    }

    fn try_read(&self) -> Option<Vec<u8>> {
        let version = self.version();
        if !version.is_multiple_of(2) {
            return None;
        }
        let length = usize::try_from(self.words[1].load(Ordering::Relaxed)).ok()?.min(self.room());
        let words = self.words[HEAD_WORDS..].iter().take(length.div_ceil(WORD_BYTES));
        let mut bytes: Vec<u8> = words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        bytes.truncate(length);
        fence(Ordering::Acquire);
        (self.words[0].load(Ordering::Relaxed) == version).then_some(bytes)
    }

    /// Replaces the text. Only one process does at a time.
    ///
    /// # Errors
    /// If there is no room for it. It stays as it was then.
    pub fn write(&self, text: &[u8]) -> io::Result<()> {
        if text.len() > self.room() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let writing = self.version() | 1;
        self.words[0].store(writing, Ordering::Relaxed);
        fence(Ordering::Release);
        self.words[1].store(text.len() as u64, Ordering::Relaxed);
        for (word, piece) in self.words[HEAD_WORDS..].iter().zip(text.chunks(WORD_BYTES)) {
            let mut bytes = [0; WORD_BYTES];
            bytes[..piece.len()].copy_from_slice(piece);
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        self.words[0].store(writing + 1, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn it_is_replaced_as_a_whole_or_not_at_all() {
        let text = SharedText::new(20).unwrap();
        assert!(text.is_empty() && text.read().is_empty() && text.version() == 0);
        text.write(b"twelve bytes").unwrap();
        assert_eq!(text.read(), b"twelve bytes");
        assert!(text.write(&[7; 25]).is_err());
        assert_eq!((text.read(), text.version()), (b"twelve bytes".to_vec(), 2));
        text.write(b"").unwrap();
        assert!(text.is_empty() && text.version() == 4);
        // Its writer was killed, and another one writes.
        text.words[0].store(5, Ordering::Relaxed);
        assert!(text.read().is_empty());
        text.write(b"again").unwrap();
        assert_eq!(text.read(), b"again");
    }

    #[test]
    fn no_reader_sees_a_part_of_two_texts() {
        let text = SharedText::new(4096).unwrap();
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while text.version() < 20_000 {
                    let read = text.read();
                    assert!(read.iter().all(|byte| *byte == read[0]), "{read:?}");
                }
            });
            (1..=10_000_u64)
                .for_each(|number| text.write(&vec![number as u8; number as usize % 4096]).unwrap());
            reader.join().unwrap();
        });
    }
}
