//! procctl(2) of FreeBSD, and names of threads. What macOS lacks has no effect there.

use std::ffi::CStr;
use std::io;

/// Whose use of the system a thread is told.
#[cfg(not(target_vendor = "apple"))]
pub(crate) const THREAD_USAGE: libc::c_int = libc::RUSAGE_THREAD;
/// No thread is told of itself alone.
#[cfg(target_vendor = "apple")]
pub(crate) const THREAD_USAGE: libc::c_int = libc::RUSAGE_SELF;

pub(crate) fn set_name(name: &CStr) {
    // SAFETY: the name ends with a zero, and outlives the call.
    unsafe {
        #[cfg(target_os = "freebsd")]
        libc::pthread_set_name_np(libc::pthread_self(), name.as_ptr());
        #[cfg(target_vendor = "apple")]
        libc::pthread_setname_np(name.as_ptr());
    }
}

pub(crate) fn this_thread() -> u32 {
    #[cfg(target_os = "freebsd")]
    {
        // SAFETY: it has no arguments.
        unsafe { libc::pthread_getthreadid_np() }.unsigned_abs()
    }
    #[cfg(target_vendor = "apple")]
    {
        let mut number = 0;
        // SAFETY: the calling thread exists, and its number is written.
        unsafe { libc::pthread_threadid_np(libc::pthread_self(), &raw mut number) };
        number as u32
    }
}

pub(crate) fn adopt_orphans() {
    #[cfg(target_os = "freebsd")]
    let _ = control(libc::PROC_REAP_ACQUIRE, std::ptr::null_mut());
}

pub(crate) fn end_with_parent() {
    #[cfg(target_os = "freebsd")]
    {
        let signal = libc::SIGKILL;
        let _ = control(libc::PROC_PDEATHSIG_CTL, (&raw const signal).cast_mut().cast());
    }
}

pub(crate) fn set_open_to_others(is_open: bool) -> io::Result<()> {
    #[cfg(target_os = "freebsd")]
    {
        let state = if is_open { libc::PROC_TRACE_CTL_ENABLE } else { libc::PROC_TRACE_CTL_DISABLE };
        control(libc::PROC_TRACE_CTL, (&raw const state).cast_mut().cast())
    }
    #[cfg(not(target_os = "freebsd"))]
    if is_open { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// They are not counted: a process forks before it starts any.
pub(crate) fn threads() -> io::Result<Option<usize>> {
    Ok(None)
}

#[cfg(target_os = "freebsd")]
fn control(command: libc::c_int, argument: *mut libc::c_void) -> io::Result<()> {
    // SAFETY: 0 is this process; the argument is nothing, or a number that the kernel reads.
    match unsafe { libc::procctl(libc::P_PID, 0, command, argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
