//! The names of what has counters of its own, in memory that the processes of a server share.
//!
//! A site gets its number with its first request, by its first name in the configuration, and keeps it over reloads. Programs get
//! theirs when they are configured. No request can add a name. If all numbers are taken, further names count as [`OTHER`].

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use flash_os::shared_array::SharedWords;

/// The number of all without counters of their own.
pub(super) const OTHER: u32 = 0;
/// Its name.
pub(super) const OTHER_NAME: &str = "_other";
/// More sites than these, over all reloads, have no counters of their own.
pub(super) const NAMES_MAX: u64 = 10_000;
/// The numbers that there are. Some stay free, so that a name is found after few steps.
pub(super) const SITES_MAX: usize = 1 << 14;
/// The longest name of a host has 254 bytes.
const SITE_NAME_WORDS: usize = 32;

/// A table of names. No thread waits at it, and one that is killed leaves it usable.
#[derive(Debug)]
pub struct Names {
    /// More than these are not taken in.
    names_max: u64,
    /// The words of the longest name. Longer names are cut.
    name_words: usize,
    /// Whether numbers are given by the names' hashes. If not, they are given in order.
    is_hashed: bool,
    /// The hash of each name; 0 where there is none.
    hashes: SharedWords,
    /// The lengths and bytes of the names.
    names: SharedWords,
    /// The first word counts the names.
    used: SharedWords,
}

impl Names {
    /// For the names of sites.
    pub(super) fn of_sites() -> io::Result<Self> {
        Self::new(SITES_MAX, NAMES_MAX, SITE_NAME_WORDS, true)
    }

    /// For a few names, whose numbers are 1 and so on.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn in_order(names_max: usize, name_words: usize) -> io::Result<Self> {
        Self::new(names_max + 1, names_max as u64, name_words, false)
    }

    fn new(places: usize, names_max: u64, name_words: usize, is_hashed: bool) -> io::Result<Self> {
        Ok(Self {
            names_max,
            name_words,
            is_hashed,
            hashes: SharedWords::zeroed(places)?,
            // Of each name its length and its bytes.
            names: SharedWords::zeroed(places * (1 + name_words))?,
            used: SharedWords::zeroed(1)?,
        })
    }

    /// The number of this name. Equal names have the same number in all processes.
    pub fn number(&self, name: &str) -> u32 {
        let name = &name.as_bytes()[..name.len().min(self.name_words * 8)];
        if name.is_empty() {
            return OTHER;
        }
        let hash = hash(name);
        // The first place belongs to `OTHER`.
        let (first, count) = (if self.is_hashed { hash as usize } else { 0 }, self.hashes.len());
        let places = (0..count).map(|step| first.wrapping_add(step) % count);
        for place in places.filter(|place| *place != 0) {
            let (entry, known) = (self.entry(place), self.hashes[place].load(Ordering::Acquire));
            if known == hash {
                write(entry, name);
                return place as u32;
            }
            if known != 0 {
                continue;
            }
            if self.used[0].load(Ordering::Relaxed) >= self.names_max {
                return OTHER;
            }
            match self.hashes[place].compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.used[0].fetch_add(1, Ordering::Relaxed);
                    write(entry, name);
                    return place as u32;
                }
                // Another thread has just written the same name.
                Err(other) if other == hash => {
                    write(entry, name);
                    return place as u32;
                }
                Err(_) => {}
            }
        }
        OTHER
    }

    /// The name of this number, if it has one.
    pub fn name(&self, number: u32) -> Option<String> {
        if number == OTHER {
            return Some(OTHER_NAME.to_owned());
        }
        let entry = self.entry(number as usize);
        let length = entry[0].load(Ordering::Acquire) as usize;
        (length > 0).then(|| read(entry, length))
    }

    /// All that have numbers, with their names. The first one stands for all others.
    pub fn all(&self) -> Vec<(u32, String)> {
        let named = (1..self.hashes.len()).filter(|place| self.hashes[*place].load(Ordering::Acquire) != 0);
        let named = named.filter_map(|place| Some((place as u32, self.name(place as u32)?)));
        let mut all: Vec<_> = [(OTHER, OTHER_NAME.to_owned())].into_iter().chain(named).collect();
        all[1..].sort_by(|one, other| one.1.cmp(&other.1));
        all
    }

    fn entry(&self, place: usize) -> &[AtomicU64] {
        &self.names[place * (1 + self.name_words)..][..1 + self.name_words]
    }
}

/// Writes a name, unless it is there. Several threads may write the same bytes at once.
fn write(entry: &[AtomicU64], name: &[u8]) {
    if entry[0].load(Ordering::Acquire) != 0 {
        return;
    }
    for (word, bytes) in entry[1..].iter().zip(name.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
    }
    // Last, so that a reader sees the whole name.
    entry[0].store(name.len() as u64, Ordering::Release);
}

fn read(entry: &[AtomicU64], length: usize) -> String {
    let words = entry[1..].iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
    let bytes: Vec<u8> = words.take(length).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// FNV-1a. The names are the administrator's own, so none is chosen to collide. 0 stands for a free entry.
fn hash(name: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    name.iter().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_numbers_have_an_end() {
        let names = Names::of_sites().unwrap();
        assert_eq!(names.all(), [(OTHER, OTHER_NAME.to_owned())]);
        let (one, other) = (names.number("a.example"), names.number("b.example"));
        assert!(one != other && one != OTHER && other != OTHER);
        assert_eq!(names.number("a.example"), one);
        assert_eq!(names.all()[1..], [(one, "a.example".to_owned()), (other, "b.example".to_owned())]);
        let rest: Vec<u32> =
            (2..NAMES_MAX).map(|number| names.number(&format!("{number}.example"))).collect();
        assert!(!rest.contains(&OTHER));
        assert_eq!(names.number("one.more"), OTHER);
        assert_eq!((names.number("b.example"), names.number("2.example")), (other, rest[0]));
        let mut numbers: Vec<u32> = names.all().iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len() as u64, NAMES_MAX + 1, "no two names share a number");
    }

    #[test]
    fn threads_that_name_a_site_at_once_get_one_number() {
        let names = Names::of_sites().unwrap();
        let numbers: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let ask = || (0..500).map(|site| names.number(&format!("site-{site}"))).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(numbers.iter().all(|of| *of == numbers[0]));
        assert_eq!(names.all().len(), 501);
    }
}
