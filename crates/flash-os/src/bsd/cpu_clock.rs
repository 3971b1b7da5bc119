//! Clocks of processor time, as far as others can read them. States of threads cannot be read.

use libc::clockid_t;

/// On macOS all threads of the process together: it has no clock of a thread that others can read.
pub(crate) fn of_this_thread() -> clockid_t {
    #[cfg(target_vendor = "apple")]
    {
        libc::CLOCK_PROCESS_CPUTIME_ID
    }
    #[cfg(not(target_vendor = "apple"))]
    {
        crate::posix::cpu_clock::of_this_thread()
    }
}

pub(crate) fn of_process(pid: u32) -> clockid_t {
    #[cfg(target_vendor = "apple")]
    {
        let _ = pid;
        libc::CLOCK_MONOTONIC
    }
    #[cfg(not(target_vendor = "apple"))]
    {
        let mut clock = libc::CLOCK_MONOTONIC;
        // SAFETY: `clock` is a place to write to. Without such a process it stays as it is.
        unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut clock) };
        clock
    }
}

pub(crate) fn is_runnable(_clock: clockid_t) -> bool {
    false
}
