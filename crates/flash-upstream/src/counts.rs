//! What is counted of a route's upstream: its processes and connections, and the requests that wait for them.
//!
//! Most counts go up and down. A [`Counted`] adds one for as long as it lives, and belongs to what it counts. So no way out of a
//! function forgets to subtract. Where the counts are kept is not known here.

use std::fmt::Debug;
use std::sync::Arc;

use flash_core::record::counters::ProgramCount;
use flash_core::record::program_times::ProgramTimes;
use flash_core::upstream::OpenError;
use flash_process::ExitStatus;
use rustix::process::Signal;

/// Where the counts of an upstream go. Any thread may add.
pub trait ProgramCounter: Send + Sync + Debug {
    fn add(&self, what: ProgramCount, by: i64);

    /// A request has taken this time.
    fn took(&self, times: &ProgramTimes);
}

/// For upstreams that nobody asks about.
impl ProgramCounter for () {
    fn add(&self, _: ProgramCount, _: i64) {}

    fn took(&self, _: &ProgramTimes) {}
}

/// One more of something, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Counted {
    counter: Arc<dyn ProgramCounter>,
    what: ProgramCount,
    count: i64,
}

impl Counted {
    pub(crate) fn one(counter: &Arc<dyn ProgramCounter>, what: ProgramCount) -> Self {
        Self::many(counter, what, 1)
    }

    pub(crate) fn many(counter: &Arc<dyn ProgramCounter>, what: ProgramCount, count: usize) -> Self {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        counter.add(what, count);
        Self { counter: Arc::clone(counter), what, count }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counter.add(self.what, -self.count);
    }
}

/// Counts a program that was not started. What the client has asked for in vain is no failure of the program.
pub(crate) fn count_refusal(counter: &Arc<dyn ProgramCounter>, why: OpenError) {
    match why {
        OpenError::Busy => counter.add(ProgramCount::Refused, 1),
        OpenError::Broken | OpenError::Late => counter.add(ProgramCount::Failed, 1),
        OpenError::NotFound | OpenError::Forbidden => {}
    }
}

/// Whether a process has ended by itself, and with an error. Flash ends processes by these two signals.
pub(crate) fn is_failure(how: ExitStatus) -> bool {
    const OWN: [i32; 2] = [Signal::TERM.as_raw(), Signal::KILL.as_raw()];
    match how {
        ExitStatus::Code(code) => code != 0,
        ExitStatus::Signal(signal) => !OWN.contains(&signal),
        ExitStatus::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct Sums(Mutex<Vec<(ProgramCount, i64)>>);

    impl ProgramCounter for Sums {
        fn add(&self, what: ProgramCount, by: i64) {
            self.0.lock().unwrap().push((what, by));
        }

        fn took(&self, _: &ProgramTimes) {}
    }

    #[test]
    fn what_is_counted_is_subtracted_at_its_end() {
        let sums = Arc::new(Sums::default());
        let counter: Arc<dyn ProgramCounter> = Arc::<Sums>::clone(&sums);
        drop((Counted::one(&counter, ProgramCount::Busy), Counted::many(&counter, ProgramCount::Kept, 3)));
        for why in [OpenError::Busy, OpenError::Late, OpenError::NotFound] {
            count_refusal(&counter, why);
        }
        let expected = [
            (ProgramCount::Busy, 1),
            (ProgramCount::Kept, 3),
            (ProgramCount::Busy, -1),
            (ProgramCount::Kept, -3),
            (ProgramCount::Refused, 1),
            (ProgramCount::Failed, 1),
        ];
        assert_eq!(*sums.0.lock().unwrap(), expected, "a name without a program is its client's fault");
    }

    #[test]
    fn a_program_that_flash_ends_has_not_failed() {
        let failed = [ExitStatus::Code(3), ExitStatus::Signal(11)];
        let others =
            [ExitStatus::Code(0), ExitStatus::Signal(15), ExitStatus::Signal(9), ExitStatus::Unknown];
        assert!(failed.into_iter().all(is_failure) && !others.into_iter().any(is_failure));
    }
}
