//! The content of synthetic files. Each byte follows from a seed, the file's name and the position. So any range of a response
//! can be checked without the file. The bytes look random, and no coding makes them smaller.

use std::os::unix::ffi::OsStrExt;

use crate::name;
use crate::sample::mix;

const WORD_BYTES: u64 = 8;

/// The odd number nearest to 2^64 divided by the golden ratio: its multiples lie far apart (Knuth, TAOCP 6.4).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The content of one file.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    key: u64,
}

impl Content {
    /// That of the file which this target leads to, whichever of its names the target is.
    pub fn new(seed: u64, target: &str) -> Self {
        let path = name::path_of(target);
        let name = path.as_ref().map_or(target.as_bytes(), |path| path.as_os_str().as_bytes());
        Self { key: name.iter().fold(mix(seed), |key, &byte| mix(key ^ u64::from(byte))) }
    }

    /// Fills `bytes` with those from `offset` on.
    pub fn fill(&self, offset: u64, bytes: &mut [u8]) {
        let within = (offset % WORD_BYTES) as usize;
        let mut word = offset / WORD_BYTES;
        let mut rest = bytes;
        if within > 0 {
            let length = rest.len().min(WORD_BYTES as usize - within);
            let (first, after) = rest.split_at_mut(length);
            first.copy_from_slice(&self.word(word)[within..within + length]);
            word += 1;
            rest = after;
        }
        let mut words = rest.chunks_exact_mut(WORD_BYTES as usize);
        for eight in &mut words {
            eight.copy_from_slice(&self.word(word));
            word += 1;
        }
        let last = words.into_remainder();
        last.copy_from_slice(&self.word(word)[..last.len()]);
    }

    /// Where `bytes`, which should be those from `offset` on, first differ from them.
    pub fn first_difference(&self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut expected = [0; 4_096];
        for (start, found) in (0..).step_by(expected.len()).zip(bytes.chunks(expected.len())) {
            let expected = &mut expected[..found.len()];
            self.fill(offset + start, expected);
            if expected != found {
                let place = expected.iter().zip(found).take_while(|(one, other)| one == other).count();
                return Some(offset + start + place as u64);
            }
        }
        None
    }

    fn word(&self, word: u64) -> [u8; WORD_BYTES as usize] {
        mix(self.key.wrapping_add(word.wrapping_mul(STEP))).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(seed: u64, target: &str, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Content::new(seed, target).fill(offset, &mut bytes);
        bytes
    }

    #[test]
    fn each_seed_and_file_has_its_own() {
        let first = bytes(1, "/a/", 0, 64);
        assert_ne!(first, bytes(2, "/a/", 0, 64));
        assert_ne!(first, bytes(1, "/b/", 0, 64));
        assert_eq!(first, bytes(1, "/a/index.html", 0, 64));
        // Trees that were made stay valid: these bytes may never change.
        assert_eq!(first[..8], [104, 191, 217, 37, 69, 161, 95, 140]);
    }

    #[test]
    fn bytes_are_even() {
        let mut seen = [0_u64; 256];
        for byte in bytes(3, "/x", 5, 1 << 18) {
            seen[byte as usize] += 1;
        }
        let expected = (1 << 10) as f64;
        let sum: f64 = seen.iter().map(|&seen| (seen as f64 - expected).powi(2) / expected).sum();
        assert!(sum < 255.0 + 4.0 * (2.0 * 255.0_f64).sqrt(), "{sum}");
    }

    proptest! {
        #[test]
        fn any_range_is_a_piece_of_the_whole(start in 0_usize..9_000, length in 0_usize..9_000, far in 0_u64..1 << 60) {
            let whole = bytes(9, "/x", far, 18_000);
            let range = bytes(9, "/x", far + start as u64, length);
            prop_assert_eq!(&range, &whole[start..start + length]);
            let content = Content::new(9, "/x");
            prop_assert_eq!(content.first_difference(far + start as u64, &range), None);
            if let Some(place) = (length / 2).checked_sub(1) {
                let mut changed = range;
                changed[place] ^= 1;
                let differs = content.first_difference(far + start as u64, &changed);
                prop_assert_eq!(differs, Some(far + (start + place) as u64));
            }
        }
    }
}
