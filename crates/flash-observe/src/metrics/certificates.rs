//! When the certificates expire that each process of a server shows, in memory that all processes share.
//!
//! Processes read renewed files at different moments. So each has a row, and of equal names the first end counts.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use flash_os::shared_array::SharedWords;

use super::names::Names;
use super::rows::Rows;

/// More certificates than these, over all reloads, are told as one.
const CERTIFICATES_MAX: usize = 1000;
/// The longest names of a certificate, in words of eight bytes. Longer ones are cut.
const NAME_WORDS: usize = 32;
const ROW_WORDS: usize = CERTIFICATES_MAX + 1;

#[derive(Debug)]
pub struct CertificateEnds {
    names: Names,
    /// Of each process and certificate the end in seconds since 1970; 0 where there is none.
    ends: SharedWords,
    rows: Arc<Rows>,
}

impl CertificateEnds {
    pub(super) fn new(rows: &Arc<Rows>) -> io::Result<Self> {
        Ok(Self {
            names: Names::in_order(CERTIFICATES_MAX, NAME_WORDS)?,
            ends: SharedWords::zeroed(rows.count() * ROW_WORDS)?,
            rows: Arc::clone(rows),
        })
    }

    /// Tells which certificates this process shows now, each by its names and its end.
    pub fn tell<'c>(&self, shown: impl Iterator<Item = (&'c str, u64)>) {
        let Some(row) = self.rows.own() else { return };
        let mut ends: HashMap<u32, u64> = HashMap::new();
        for (names, end_unix_s) in shown {
            let end = ends.entry(self.names.number(names)).or_insert(end_unix_s);
            *end = end_unix_s.min(*end);
        }
        self.set(row, |number| ends.get(&number).copied().unwrap_or_default());
    }

    pub(super) fn clear(&self, row: usize) {
        self.set(row, |_| 0);
    }

    fn set(&self, row: usize, end: impl Fn(u32) -> u64) {
        let Some(words) = self.ends.chunks(ROW_WORDS).nth(row) else { return };
        for (number, _) in self.names.all() {
            words[number as usize].store(end(number), Ordering::Relaxed);
        }
    }

    /// The certificates that some process shows, and when the first of equal names expires.
    pub fn all(&self) -> Vec<(String, u64)> {
        let end = |number: u32| {
            let of = |row: usize| self.ends[row * ROW_WORDS + number as usize].load(Ordering::Relaxed);
            self.rows.taken().map(of).filter(|end| *end > 0).min()
        };
        let all = self.names.all().into_iter();
        all.filter_map(|(number, names)| Some((names, end(number)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_of_all_processes_counts() {
        let rows = Arc::new(Rows::new(2).unwrap());
        let ends = CertificateEnds::new(&rows).unwrap();
        ends.tell([("a.example", 5)].into_iter());
        assert_eq!(ends.all(), [], "this process has no row");
        rows.enter(0);
        ends.tell([("a.example", 50), ("a.example", 60), ("b.example", 7)].into_iter());
        rows.enter(1);
        ends.tell([("a.example", 90)].into_iter());
        assert_eq!(ends.all(), [("a.example".to_owned(), 50), ("b.example".to_owned(), 7)]);
        rows.enter(0);
        ends.tell([("a.example", 95)].into_iter());
        assert_eq!(ends.all(), [("a.example".to_owned(), 90)], "one was renewed, the other is not shown");
        rows.leave();
        assert_eq!(ends.all(), [("a.example".to_owned(), 90)]);
    }
}
