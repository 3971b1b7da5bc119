//! One call for each descriptor.

use libc::c_int;

/// The first number that is not looked at. The kernel gives the lowest free number, and whatever Flash opens closes by itself when
/// another program is run: this is for what nobody thought of.
const END: u32 = 65_536;

/// Calls this for each number that may be a descriptor's.
pub(crate) fn for_each_possible(first: u32, last: u32, each: &mut dyn FnMut(c_int)) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a place to write to.
    let end = match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => u32::try_from(limit.rlim_cur).unwrap_or(END).min(END),
        _ => END,
    };
    (first..end.min(last.saturating_add(1))).for_each(|number| each(number as c_int));
}

pub(crate) fn close(number: c_int) {
    // SAFETY: a number, as callers of `descriptor_range::close` promise.
    unsafe { libc::close(number) };
}

pub(crate) fn close_on_exec(number: c_int) {
    // SAFETY: sets a flag of a descriptor, if there is one of that number.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
}
