//! The time that the system calls of a job take, and the error by which one has failed. Each thread measures its own job.
//!
//! A thread does one job at a time, so a thread-local meter is enough.

use std::cell::Cell;
use std::time::Instant;

use flash_core::job::Spent;
use rustix::io::Errno;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Walk,
    Open,
    Read,
    /// Counted as reading, because both move a file's bytes.
    Write,
}

/// The longest call of a thread's last job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestCall {
    pub name: &'static str,
    pub ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Meter {
    spent: Spent,
    longest: LongestCall,
    error: Option<i32>,
}

thread_local! {
    static METER: Cell<Meter> =
        const { Cell::new(Meter { spent: NOTHING, longest: LongestCall { name: "", ns: 0 }, error: None }) };
}

const NOTHING: Spent = Spent { walk_ns: 0, open_ns: 0, read_ns: 0, queue_ns: 0, help_ns: 0 };

/// Does a job. Returns how long its calls took, and why the disk has failed.
pub(crate) fn measured<T>(job: impl FnOnce() -> T) -> (T, Spent, Option<i32>) {
    METER.set(Meter::default());
    let result = job();
    let Meter { spent, error, .. } = METER.get();
    (result, spent, error)
}

/// Notes that the disk has failed in this thread's job.
pub(crate) fn failed(error: Errno) {
    METER.set(Meter { error: Some(error.raw_os_error()), ..METER.get() });
}

/// Makes one system call of a job.
pub(crate) fn timed<T>(stage: Stage, name: &'static str, call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = call();
    let ns = start.elapsed().as_nanos() as u64;
    let mut meter = METER.get();
    match stage {
        Stage::Walk => meter.spent.walk_ns += ns,
        Stage::Open => meter.spent.open_ns += ns,
        Stage::Read | Stage::Write => meter.spent.read_ns += ns,
    }
    if ns > meter.longest.ns {
        meter.longest = LongestCall { name, ns };
    }
    METER.set(meter);
    result
}

/// The longest call of this thread's last job. The error log names it if the thread was caught sleeping.
pub fn longest_call() -> LongestCall {
    METER.get().longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn stages_add_up_and_the_longest_call_is_named() {
        let pause = |ms| move || sleep(Duration::from_millis(ms));
        let ((), spent, _) = measured(|| {
            timed(Stage::Walk, "openat2", pause(1));
            timed(Stage::Walk, "statx", pause(60));
            timed(Stage::Read, "preadv2", pause(1));
        });
        assert!(spent.walk_ns >= 61_000_000 && spent.read_ns >= 1_000_000 && spent.open_ns == 0, "{spent:?}");
        assert!(longest_call().name == "statx" && longest_call().ns >= 60_000_000);
        failed(Errno::IO);
        let measured = measured(|| ());
        assert_eq!(
            (measured, longest_call()),
            (((), NOTHING, None), LongestCall::default()),
            "each job begins anew"
        );
    }
}
