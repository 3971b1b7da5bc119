//! The counts of programs, in memory that the processes of a server share.
//!
//! Gauges stand in rows, one for each process. So programs that ended with a process that was killed are not counted for ever.
//! Counters outlive processes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flash_core::record::counters::{CounterSet, Counts, Kind, ProgramCount};
use flash_core::record::program_times::ProgramTimes;
use flash_os::shared_array::SharedWords;

use super::durations::{DURATIONS, class_of};
use super::names::Names;
use super::rows::Rows;

/// More programs than these, over all reloads, count as [`OTHER_NAME`](super::names::OTHER_NAME).
const PROGRAMS_MAX: usize = 255;
/// The longest name of a program, in words of eight bytes.
const NAME_WORDS: usize = 64;
/// Of a program, in a row or among the totals.
const COUNTS: usize = ProgramCount::ROWS.len();
const ROW_WORDS: usize = COUNTS * (PROGRAMS_MAX + 1);
/// Of a histogram: its classes, and the sum.
const HISTOGRAM_WORDS: usize = DURATIONS + 1;
/// Of a program, as [`ProgramCounts`] has them.
const TIMES_WORDS: usize = 4 * HISTOGRAM_WORDS;

/// Durations by [`DURATION_BOUNDS_US`](super::DURATION_BOUNDS_US), and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    pub classes: Vec<u64>,
    pub sum_us: u64,
}

/// What is counted of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramCounts {
    pub counts: Counts<ProgramCount>,
    pub queue: Durations,
    pub connect: Durations,
    /// Until its first byte: both are among it.
    pub first_byte: Durations,
    pub whole: Durations,
}

#[derive(Debug)]
pub struct Programs {
    names: Names,
    /// The gauges.
    rows: SharedWords,
    /// The counters of each program, over all processes.
    totals: SharedWords,
    /// The histograms of each.
    times: SharedWords,
    processes: Arc<Rows>,
}

/// Where a program is counted.
#[derive(Clone, Debug)]
pub struct ProgramHandle {
    programs: Arc<Programs>,
    number: usize,
}

impl Programs {
    pub(super) fn new(processes: &Arc<Rows>) -> io::Result<Self> {
        Ok(Self {
            names: Names::in_order(PROGRAMS_MAX, NAME_WORDS)?,
            rows: SharedWords::zeroed(processes.count() * ROW_WORDS)?,
            totals: SharedWords::zeroed(ROW_WORDS)?,
            times: SharedWords::zeroed(TIMES_WORDS * (PROGRAMS_MAX + 1))?,
            processes: Arc::clone(processes),
        })
    }

    /// Forgets what a process has counted in this row.
    pub(super) fn clear(&self, row: usize) {
        let Some(words) = self.row(row) else { return };
        for (number, _) in self.names.all() {
            let gauges = &words[number as usize * COUNTS..][..COUNTS];
            gauges.iter().for_each(|gauge| gauge.store(0, Ordering::Relaxed));
        }
    }

    fn row(&self, row: usize) -> Option<&[AtomicU64]> {
        self.rows.chunks(ROW_WORDS).nth(row)
    }

    /// Where the program of this name is counted. Equal names are counted together.
    pub fn named(self: &Arc<Self>, name: &str) -> ProgramHandle {
        ProgramHandle { programs: Arc::clone(self), number: self.names.number(name) as usize }
    }

    /// The programs that are configured, and what all processes have counted of each.
    pub fn all(&self) -> Vec<(String, ProgramCounts)> {
        let taken = || self.processes.taken().filter_map(|row| self.row(row));
        let counts = |(number, name): (u32, String)| {
            let count = |what: ProgramCount| {
                let at = number as usize * COUNTS + what as usize;
                let load = |words: &[AtomicU64]| words[at].load(Ordering::Relaxed);
                let sum = match what.row().kind {
                    Kind::Gauge => taken().map(load).fold(0, u64::wrapping_add),
                    _ => load(&self.totals),
                };
                // One thread may have subtracted before another's addition is seen.
                if sum > i64::MAX as u64 { 0 } else { sum }
            };
            let histogram = |which: usize| {
                let words = &self.times[number as usize * TIMES_WORDS + which * HISTOGRAM_WORDS..];
                let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
                Durations {
                    classes: words[..DURATIONS].iter().map(load).collect(),
                    sum_us: load(&words[DURATIONS]),
                }
            };
            let counts = Counts::new(count);
            let [queue, connect, first_byte, whole] = [0, 1, 2, 3].map(histogram);
            (name, ProgramCounts { counts, queue, connect, first_byte, whole })
        };
        let all = self.names.all().into_iter().map(counts);
        all.filter(|(_, of)| of.counts.get(ProgramCount::Configured) > 0).collect()
    }
}

impl ProgramHandle {
    /// A request has taken this time. Any thread of the process adds.
    pub fn took(&self, times: &ProgramTimes) {
        let words = &self.programs.times[self.number * TIMES_WORDS..][..TIMES_WORDS];
        let ProgramTimes { queue_us, connect_us, first_byte_us, whole_us } = *times;
        let all = [queue_us, connect_us, queue_us + connect_us + first_byte_us, whole_us];
        for (histogram, us) in words.chunks(HISTOGRAM_WORDS).zip(all) {
            histogram[class_of(us)].fetch_add(1, Ordering::Relaxed);
            histogram[DURATIONS].fetch_add(us, Ordering::Relaxed);
        }
    }

    /// Any thread of the process adds.
    pub fn add(&self, what: ProgramCount, by: i64) {
        let Programs { processes, totals, .. } = &*self.programs;
        let words = match what.row().kind {
            Kind::Gauge => processes.own().and_then(|row| self.programs.row(row)),
            _ => Some(&**totals),
        };
        if let Some(words) = words {
            words[self.number * COUNTS + what as usize].fetch_add(by as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(programs: &Programs) -> Vec<(String, u64)> {
        programs.all().into_iter().map(|(name, of)| (name, of.counts.get(ProgramCount::Busy))).collect()
    }

    #[test]
    fn gauges_of_a_process_that_was_killed_are_forgotten_and_counters_are_not() {
        let rows = Arc::new(Rows::new(2).unwrap());
        let programs = Arc::new(Programs::new(&rows).unwrap());
        rows.enter(1);
        let app = programs.named("app");
        assert_eq!(busy(&programs), [], "only what is configured is told");
        app.add(ProgramCount::Configured, 1);
        app.add(ProgramCount::Busy, 3);
        app.add(ProgramCount::Busy, -1);
        app.add(ProgramCount::Started, 5);
        assert_eq!(busy(&programs), [("app".to_owned(), 2)]);
        // Another process in the place of the first.
        programs.clear(1);
        rows.enter(1);
        app.add(ProgramCount::Configured, 1);
        assert_eq!(busy(&programs), [("app".to_owned(), 0)]);
        assert_eq!(programs.all()[0].1.counts.get(ProgramCount::Started), 5);
        rows.leave();
        app.add(ProgramCount::Busy, 1);
        assert_eq!(busy(&programs), [], "the process has left");
        // More processes than rows.
        rows.enter(7);
        app.add(ProgramCount::Configured, 1);
        assert_eq!(busy(&programs), []);
    }

    #[test]
    fn the_time_of_programs_is_in_histograms() {
        let rows = Arc::new(Rows::new(1).unwrap());
        let programs = Arc::new(Programs::new(&rows).unwrap());
        rows.enter(0);
        let [first, other] = ["first", "other"].map(|name| programs.named(name));
        [&first, &other].iter().for_each(|program| program.add(ProgramCount::Configured, 1));
        let times = |queue_us, connect_us, first_byte_us, whole_us| ProgramTimes {
            queue_us,
            connect_us,
            first_byte_us,
            whole_us,
        };
        first.took(&times(4, 6, 30, 4_000_000));
        first.took(&times(2, 0, 0, 700_000_000));
        let all = programs.all();
        let of = |name: &str| all.iter().find(|(known, _)| known == name).unwrap().1.clone();
        let ProgramCounts { queue, connect, first_byte, whole, .. } = of("first");
        for (durations, sum_us) in [(queue, 6), (connect, 6), (first_byte, 42)] {
            assert_eq!((durations.classes[0], durations.sum_us), (2, sum_us));
        }
        assert_eq!((whole.classes[class_of(4_000_000)], *whole.classes.last().unwrap()), (1, 1));
        assert_eq!(whole.sum_us, 704_000_000);
        assert!(of("other").whole.classes.iter().all(|count| *count == 0));
    }

    #[test]
    fn there_is_an_end_to_programs() {
        let rows = Arc::new(Rows::new(1).unwrap());
        let programs = Arc::new(Programs::new(&rows).unwrap());
        rows.enter(0);
        for number in 0..2 * PROGRAMS_MAX {
            programs.named(&format!("app {number}")).add(ProgramCount::Configured, 1);
        }
        let all = programs.all();
        assert_eq!(all.len(), PROGRAMS_MAX + 1);
        assert_eq!(
            (&*all[0].0, all[0].1.counts.get(ProgramCount::Configured)),
            ("_other", PROGRAMS_MAX as u64)
        );
    }
}
