//! The counts of programs, in memory that the processes of a server share.
//!
//! Gauges stand in rows, one for each process, and only that process writes its row. A process that is killed leaves its row, and
//! the next one begins it anew. So programs that ended with their process are not counted for ever. Counters outlive processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::{io, process};

use flash_os::shared_array::SharedWords;

use super::names::Names;

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
    /// The number of each row's process; 0 where there is none.
    taken: SharedWords,
    /// Of each program, over all processes.
    totals: SharedWords,
    /// The row of this process. A fork copies it.
    own: AtomicUsize,
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
    /// For so many processes at once.
    pub(super) fn new(processes: usize) -> io::Result<Self> {
        let rows = processes.max(1);
        Ok(Self {
            names: Names::in_order(PROGRAMS_MAX, NAME_WORDS)?,
            rows: SharedWords::zeroed(rows * ROW_WORDS)?,
            taken: SharedWords::zeroed(rows)?,
            totals: SharedWords::zeroed(COUNTERS * (PROGRAMS_MAX + 1))?,
            own: AtomicUsize::new(usize::MAX),
        })
    }

    /// This process counts in this row from now on, which nobody else does. Without such a row it counts no gauges.
    pub fn enter(&self, row: usize) {
        self.own.store(row, Ordering::Relaxed);
        let Some(words) = self.row(row) else { return };
        for (number, _) in self.names.all() {
            let gauges = &words[number as usize * GAUGES..][..GAUGES];
            gauges.iter().for_each(|gauge| gauge.store(0, Ordering::Relaxed));
        }
        self.taken[row].store(process::id().into(), Ordering::Release);
    }

    /// This process counts no gauges any more. If another one has entered its row already, the row stays taken.
    pub fn leave(&self) {
        let row = self.own.swap(usize::MAX, Ordering::Relaxed);
        if let Some(taken) = self.taken.get(row) {
            let own = process::id().into();
            let _ = taken.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
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
        let rows = || self.rows.chunks(ROW_WORDS).zip(self.taken.iter());
        let taken = || rows().filter(|(_, taken)| taken.load(Ordering::Acquire) != 0).map(|(row, _)| row);
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
        if let Some(row) = self.programs.row(self.programs.own.load(Ordering::Relaxed)) {
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
        let programs = Arc::new(Programs::new(2).unwrap());
        programs.enter(1);
        let app = programs.named("app");
        assert_eq!(busy(&programs), [], "only what is configured is told");
        app.add(ProgramGauge::Configured, 1);
        app.add(ProgramGauge::Busy, 3);
        app.add(ProgramGauge::Busy, -1);
        app.count(ProgramTotal::Started, 5);
        assert_eq!(busy(&programs), [("app".to_owned(), 2)]);
        // Another process in the place of the first.
        programs.enter(1);
        app.add(ProgramGauge::Configured, 1);
        assert_eq!(busy(&programs), [("app".to_owned(), 0)]);
        assert_eq!(programs.all()[0].total(ProgramTotal::Started), 5);
        programs.leave();
        app.add(ProgramGauge::Busy, 1);
        assert_eq!(busy(&programs), [], "the process has left");
        // More processes than rows.
        programs.enter(7);
        app.add(ProgramGauge::Configured, 1);
        assert_eq!(busy(&programs), []);
    }

    #[test]
    fn there_is_an_end_to_programs() {
        let programs = Arc::new(Programs::new(1).unwrap());
        programs.enter(0);
        for number in 0..2 * PROGRAMS_MAX {
            programs.named(&format!("app {number}")).add(ProgramGauge::Configured, 1);
        }
        let all = programs.all();
        assert_eq!(all.len(), PROGRAMS_MAX + 1);
        assert_eq!((&*all[0].name, all[0].get(ProgramGauge::Configured)), ("_other", PROGRAMS_MAX as u64));
    }
}
