//! Log-ins that were right within the last minute, in a table of fixed size that all threads and processes share.
//!
//! The table holds no name and no password: each log-in has a keyed hash, and the key lives in this server's memory alone. The stored
//! hash of the password is a part of what is hashed. So a log-in is forgotten as soon as its user's password changes.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use flash_core::clients::Words;
use flash_core::clients::login::CheckKey;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What is remembered.
#[derive(Clone)]
pub struct Successes {
    key: [u8; 32],
    words: Words,
}

/// How long a log-in is remembered, in milliseconds.
const REMEMBERED_MS: u64 = 60_000;
/// Until when, in the server's milliseconds, and a half of the log-in's key each.
const SLOT: usize = 3;
/// A log-in may be in any slot of its set.
const SET: usize = 4 * SLOT;

impl Successes {
    /// How many words the table has: room for 4,096 log-ins.
    pub const WORDS: usize = 1024 * SET;

    /// A table in memory that is zero at first. Nobody else knows the key.
    pub fn new(key: [u8; 32], words: Words) -> Self {
        Self { key, words }
    }

    /// The key of a log-in: a keyed hash of all parts, each with its length.
    pub(crate) fn key_of(&self, parts: [&[u8]; 3]) -> CheckKey {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key may have any length");
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// Whether the log-in was right within the last minute.
    pub(crate) fn remember(&self, key: &CheckKey, now_ms: u64) -> bool {
        let tags = tags(key);
        self.set(key).chunks_exact(SLOT).any(|slot| slot[0].load(Acquire) > now_ms && tags_of(slot) == tags)
    }

    /// The log-in is right.
    pub(crate) fn add(&self, key: &CheckKey, now_ms: u64) {
        let tags = tags(key);
        let slots = || self.set(key).chunks_exact(SLOT);
        let same = slots().find(|slot| tags_of(slot) == tags);
        let Some(slot) = same.or_else(|| slots().min_by_key(|slot| slot[0].load(Acquire))) else { return };
        // Without an end the slot is empty. Two halves of different log-ins match no third one.
        slot[0].store(0, Release);
        slot[1].store(tags[0], Release);
        slot[2].store(tags[1], Release);
        slot[0].store(now_ms + REMEMBERED_MS, Release);
    }

    fn set(&self, key: &CheckKey) -> &[AtomicU64] {
        let words = (*self.words).as_ref();
        let set = word(key, 2) as usize % (words.len() / SET);
        &words[set * SET..][..SET]
    }
}

fn word(key: &CheckKey, number: usize) -> u64 {
    let bytes = key[number * 8..].first_chunk().expect("a key has four words");
    u64::from_le_bytes(*bytes)
}

fn tags(key: &CheckKey) -> [u64; 2] {
    [word(key, 0), word(key, 1)]
}

fn tags_of(slot: &[AtomicU64]) -> [u64; 2] {
    [slot[1].load(Acquire), slot[2].load(Acquire)]
}

impl fmt::Debug for Successes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Successes").finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;

    struct Table(Vec<AtomicU64>);

    impl AsRef<[AtomicU64]> for Table {
        fn as_ref(&self) -> &[AtomicU64] {
            &self.0
        }
    }

    pub(crate) fn of_sets(sets: usize) -> Successes {
        Successes::new([7; 32], Arc::new(Table((0..sets * SET).map(|_| AtomicU64::new(0)).collect())))
    }

    #[test]
    fn a_log_in_is_remembered_for_a_minute() {
        let successes = of_sets(2);
        let key = successes.key_of([b"bob", b"$2y$", b"bee"]);
        assert!(!successes.remember(&key, 0));
        successes.add(&key, 1_000);
        assert!(successes.remember(&key, 60_999) && !successes.remember(&key, 61_000));
        for others in [[&b"bo"[..], b"b$2y$", b"bee"], [b"bob", b"$2y$", b"beE"], [b"bob", b"$2y", b"$bee"]] {
            assert!(!successes.remember(&successes.key_of(others), 1_000), "{others:?}");
        }
        let other = Successes { key: [8; 32], ..successes.clone() };
        assert_ne!(other.key_of([b"bob", b"$2y$", b"bee"]), key, "the key matters");
    }

    #[test]
    fn a_full_set_forgets_the_oldest() {
        let successes = of_sets(1);
        let key = |number: u64| successes.key_of([&number.to_le_bytes(), b"", b""]);
        (0..5).for_each(|number| successes.add(&key(number), 1_000 + number));
        let remembered = |number| successes.remember(&key(number), 2_000);
        assert_eq!([0, 1, 2, 3, 4].map(remembered), [false, true, true, true, true]);
        // The same one takes no second slot.
        (0..9).for_each(|_| successes.add(&key(4), 2_000));
        assert_eq!([1, 2, 3, 4].map(remembered), [true; 4]);
    }
}
