//! The kernel's form of clocks, and the states of threads in `/proc`.

use std::fs;
use std::path::Path;

use libc::clockid_t;

pub(crate) use crate::posix::cpu_clock::of_this_thread;

/// The bit of clocks of threads (linux/posix-timers.h).
const OF_THREAD: clockid_t = 4;

pub(crate) fn of_process(pid: u32) -> clockid_t {
    // The number's complement, and 2 for the scheduler's time.
    const SCHED: u32 = 2;
    (!pid << 3 | SCHED) as clockid_t
}

pub(crate) fn is_runnable(clock: clockid_t) -> bool {
    // The number's complement is above three bits.
    let number = !(clock >> 3);
    if clock & OF_THREAD != 0 {
        return runs(Path::new(&format!("/proc/{number}")));
    }
    let threads = fs::read_dir(format!("/proc/{number}/task"));
    threads.is_ok_and(|mut threads| threads.any(|thread| thread.is_ok_and(|it| runs(&it.path()))))
}

fn runs(folder: &Path) -> bool {
    let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
    // The name before it is in parentheses, and may contain anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}
