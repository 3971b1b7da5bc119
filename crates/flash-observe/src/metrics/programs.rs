//! The counts of programs, in memory that the processes of a server share.
//!
//! Gauges stand in rows, one for each process. So programs that ended with a process that was killed are not counted for ever.
//! Counters outlive processes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flash_os::shared_array::SharedWords;

use super::names::Names;
use super::rows::Rows;

/// More programs than these, over all reloads, count as [`OTHER_NAME`](super::names::OTHER_NAME).
const PROGRAMS_MAX: usize = 255;
/// The longest name of a program, in words of eight bytes.
const NAME_WORDS: usize = 64;
const GAUGES: usize = 8;
const COUNTERS: usize = 4;
const ROW_WORDS: usize = GAUGES * (PROGRAMS_MAX + 1);

/// What there is of a program now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum ProgramGauge {
    Configured,
    Processes,
    ProcessesMax,
    Busy,
    Waiting,
    Kept,
}

/// What has happened to a program since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum ProgramTotal {
    Started,
    Failed,
    Refused,
}

#[derive(Debug)]
pub struct Programs {
    names: Names,
    rows: SharedWords,
    /// Of each program, over all processes.
    totals: SharedWords,
    processes: Arc<Rows>,
}

/// The counts of a program, of all processes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramCounts {
    pub name: String,
    gauges: [u64; GAUGES],
    totals: [u64; COUNTERS],
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
            totals: SharedWords::zeroed(COUNTERS * (PROGRAMS_MAX + 1))?,
            processes: Arc::clone(processes),
        })
    }

    /// Forgets what a process has counted in this row.
    pub(super) fn clear(&self, row: usize) {
        let Some(words) = self.row(row) else { return };
        for (number, _) in self.names.all() {
            let gauges = &words[number as usize * GAUGES..][..GAUGES];
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

    /// The programs that are configured.
    pub fn all(&self) -> Vec<ProgramCounts> {
        let taken = || self.processes.taken().filter_map(|row| self.row(row));
        let counts = |(number, name): (u32, String)| {
            let number = number as usize;
            let sum = |words: &mut dyn Iterator<Item = &AtomicU64>| -> u64 {
                let sum = words.fold(0_u64, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
                // One thread may have subtracted before another's addition is seen.
                if sum > i64::MAX as u64 { 0 } else { sum }
            };
            ProgramCounts {
                name,
                gauges: std::array::from_fn(|gauge| {
                    sum(&mut taken().map(|row| &row[number * GAUGES + gauge]))
                }),
                totals: std::array::from_fn(|total| {
                    self.totals[number * COUNTERS + total].load(Ordering::Relaxed)
                }),
            }
        };
        let all = self.names.all().into_iter().map(counts);
        all.filter(|program| program.get(ProgramGauge::Configured) > 0).collect()
    }
}

impl ProgramCounts {
    pub fn get(&self, what: ProgramGauge) -> u64 {
        self.gauges[what as usize]
    }

    pub fn total(&self, what: ProgramTotal) -> u64 {
        self.totals[what as usize]
    }
}

impl ProgramHandle {
    /// Any thread of the process adds.
    pub fn add(&self, what: ProgramGauge, by: i64) {
        if let Some(row) = self.programs.processes.own().and_then(|row| self.programs.row(row)) {
            row[self.number * GAUGES + what as usize].fetch_add(by as u64, Ordering::Relaxed);
        }
    }

    pub fn count(&self, what: ProgramTotal, count: u64) {
        self.programs.totals[self.number * COUNTERS + what as usize].fetch_add(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(programs: &Programs) -> Vec<(String, u64)> {
        programs.all().into_iter().map(|of| (of.name.clone(), of.get(ProgramGauge::Busy))).collect()
    }

    #[test]
    fn gauges_of_a_process_that_was_killed_are_forgotten_and_counters_are_not() {
        let rows = Arc::new(Rows::new(2).unwrap());
        let programs = Arc::new(Programs::new(&rows).unwrap());
        rows.enter(1);
        let app = programs.named("app");
        assert_eq!(busy(&programs), [], "only what is configured is told");
        app.add(ProgramGauge::Configured, 1);
        app.add(ProgramGauge::Busy, 3);
        app.add(ProgramGauge::Busy, -1);
        app.count(ProgramTotal::Started, 5);
        assert_eq!(busy(&programs), [("app".to_owned(), 2)]);
        // Another process in the place of the first.
        programs.clear(1);
        rows.enter(1);
        app.add(ProgramGauge::Configured, 1);
        assert_eq!(busy(&programs), [("app".to_owned(), 0)]);
        assert_eq!(programs.all()[0].total(ProgramTotal::Started), 5);
        rows.leave();
        app.add(ProgramGauge::Busy, 1);
        assert_eq!(busy(&programs), [], "the process has left");
        // More processes than rows.
        rows.enter(7);
        app.add(ProgramGauge::Configured, 1);
        assert_eq!(busy(&programs), []);
    }

    #[test]
    fn there_is_an_end_to_programs() {
        let rows = Arc::new(Rows::new(1).unwrap());
        let programs = Arc::new(Programs::new(&rows).unwrap());
        rows.enter(0);
        for number in 0..2 * PROGRAMS_MAX {
            programs.named(&format!("app {number}")).add(ProgramGauge::Configured, 1);
        }
        let all = programs.all();
        assert_eq!(all.len(), PROGRAMS_MAX + 1);
        assert_eq!((&*all[0].name, all[0].get(ProgramGauge::Configured)), ("_other", PROGRAMS_MAX as u64));
    }
}
