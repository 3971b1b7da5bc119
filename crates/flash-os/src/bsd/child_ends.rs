//! SIGCHLD comes by its handler alone.

pub(crate) use crate::posix::child_ends::new;

/// Where this thread's errno is.
pub(crate) fn errno() -> *mut libc::c_int {
    // SAFETY: it only tells a place.
    unsafe { libc::__error() }
}
