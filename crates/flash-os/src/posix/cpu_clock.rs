//! The clock of a thread, which others can read.

pub(crate) fn of_this_thread() -> libc::clockid_t {
    let mut clock = 0;
    // SAFETY: `clock` is a valid place to write to, and the calling thread exists.
    let error = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
    debug_assert_eq!(error, 0, "the calling thread has a clock");
    clock
}
