//! The validity of the certificates that each process of a server shows, in memory that all processes share.
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
    /// The same of the begin.
    begins: SharedWords,
    rows: Arc<Rows>,
}

impl CertificateEnds {
    pub(super) fn new(rows: &Arc<Rows>) -> io::Result<Self> {
        Ok(Self {
            names: Names::in_order(CERTIFICATES_MAX, NAME_WORDS)?,
            ends: SharedWords::zeroed(rows.count() * ROW_WORDS)?,
            begins: SharedWords::zeroed(rows.count() * ROW_WORDS)?,
            rows: Arc::clone(rows),
        })
    }

    /// Tells which certificates this process shows now, each by its names, its begin and its end.
    pub fn tell<'c>(&self, shown: impl Iterator<Item = (&'c str, [u64; 2])>) {
        let Some(row) = self.rows.own() else { return };
        let mut known: HashMap<u32, [u64; 2]> = HashMap::new();
        for (names, validity) in shown {
            let first = known.entry(self.names.number(names)).or_insert(validity);
            if validity[1] < first[1] {
                *first = validity;
            }
        }
        self.set(row, |number| known.get(&number).copied().unwrap_or_default());
    }

    pub(super) fn clear(&self, row: usize) {
        self.set(row, |_| [0, 0]);
    }

    fn set(&self, row: usize, validity: impl Fn(u32) -> [u64; 2]) {
        for (number, _) in self.names.all() {
            let ([begin, end], at) = (validity(number), row * ROW_WORDS + number as usize);
            self.begins[at].store(begin, Ordering::Relaxed);
            self.ends[at].store(end, Ordering::Relaxed);
        }
    }

    /// The certificates that some process shows, and of equal names the begin and the end of the one that expires first.
    pub fn all(&self) -> Vec<(String, [u64; 2])> {
        let first = |number: u32| {
            let at = |row: usize| row * ROW_WORDS + number as usize;
            let of = |words: &SharedWords, row: usize| words[at(row)].load(Ordering::Relaxed);
            let rows = self.rows.taken().map(|row| [of(&self.begins, row), of(&self.ends, row)]);
            rows.filter(|[_, end]| *end > 0).min_by_key(|[_, end]| *end)
        };
        let all = self.names.all().into_iter();
        all.filter_map(|(number, names)| Some((names, first(number)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_of_all_processes_counts() {
        let rows = Arc::new(Rows::new(2).unwrap());
        let ends = CertificateEnds::new(&rows).unwrap();
        ends.tell([("a.example", [0, 5])].into_iter());
        assert_eq!(ends.all(), [], "this process has no row");
        rows.enter(0);
        ends.tell([("a.example", [1, 50]), ("a.example", [2, 60]), ("b.example", [3, 7])].into_iter());
        rows.enter(1);
        ends.tell([("a.example", [4, 90])].into_iter());
        assert_eq!(ends.all(), [("a.example".to_owned(), [1, 50]), ("b.example".to_owned(), [3, 7])]);
        rows.enter(0);
        ends.tell([("a.example", [5, 95])].into_iter());
        assert_eq!(
            ends.all(),
            [("a.example".to_owned(), [4, 90])],
            "one was renewed, the other is not shown"
        );
        rows.leave();
        assert_eq!(ends.all(), [("a.example".to_owned(), [4, 90])]);
    }
}
