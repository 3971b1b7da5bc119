//! What a watch could not see, by kind.

use std::fmt;

use serde::Serialize;

use crate::block::ThreadTotals;

/// Counts of what is missing from tables and lines. What threads count themselves is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Records of loops that found their ring full.
    pub of_loops: u64,
    /// Those of other threads.
    pub of_others: u64,
    /// Blocks of which only one half arrived.
    pub halves: u64,
    /// Threads that were not counted.
    pub threads: u64,
}

impl Lost {
    pub(crate) fn new(totals: &[ThreadTotals], halves: u64, threads: u64) -> Lost {
        let sum = |is_loop| {
            totals.iter().filter(|thread| thread.is_loop == is_loop).map(|thread| thread.lost).sum()
        };
        Lost { of_loops: sum(true), of_others: sum(false), halves, threads }
    }

    /// Whether nothing is missing.
    pub fn is_none(&self) -> bool {
        *self == Lost::default()
    }
}

/// `12 records of loops, 3 blocks of which one half is missing`; nothing where nothing is missing.
impl fmt::Display for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let kinds = [
            (self.of_loops, "records of loops"),
            (self.of_others, "records of other threads"),
            (self.halves, "blocks of which one half is missing"),
            (self.threads, "threads that were not counted"),
        ];
        let some = kinds.iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = some.map(|(count, kind)| format!("{count} {kind}")).collect();
        formatter.write_str(&words.join(", "))
    }
}

#[test]
fn what_is_lost_is_told_by_kind() {
    let thread = |is_loop, lost| ThreadTotals { is_loop, lost, ..ThreadTotals::default() };
    let lost = Lost::new(&[thread(true, 2), thread(false, 30), thread(false, 4)], 1, 0);
    assert_eq!(
        lost.to_string(),
        "2 records of loops, 34 records of other threads, 1 blocks of which one half is missing"
    );
    assert!(!lost.is_none() && Lost::new(&[thread(true, 0)], 0, 0).is_none());
}
