//! prctl(2), and the list of threads in `/proc`.

use std::ffi::CStr;
use std::fs;
use std::io;

use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior};

/// Whose use of the system a thread is told.
pub(crate) const THREAD_USAGE: libc::c_int = libc::RUSAGE_THREAD;

pub(crate) fn set_name(name: &CStr) {
    // A kernel or container that refuses it shows another name.
    let _ = rustix::thread::set_name(name);
}

pub(crate) fn this_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

pub(crate) fn adopt_orphans() {
    let _ = set_child_subreaper(Some(getpid()));
}

/// Has the kernel end this process with the thread that started it. For a child that has just been forked: nothing here allocates.
pub(crate) fn end_with_parent() {
    // SAFETY: numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

pub(crate) fn set_open_to_others(is_open: bool) -> io::Result<()> {
    let behavior = if is_open { DumpableBehavior::Dumpable } else { DumpableBehavior::NotDumpable };
    Ok(set_dumpable_behavior(behavior)?)
}

pub(crate) fn threads() -> io::Result<Option<usize>> {
    Ok(Some(fs::read_dir("/proc/self/task")?.count()))
}
