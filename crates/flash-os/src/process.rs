//! What a process is to others: its name, the orphans that it takes, and who looks into its memory.
//!
//! Where a system knows no such thing, it has no effect: no process of Flash relies on it to do its work.

use std::ffi::CStr;
use std::io;

use crate::system;

/// Names this thread, and the process if it is its first, in `ps` and `top`. The kernel keeps 15 bytes.
pub fn set_name(name: &CStr) {
    system::process::set_name(name);
}

/// The number of this thread, as the system shows it.
pub fn this_thread() -> u32 {
    system::process::this_thread()
}

/// Leaves the session, and with it the terminal.
///
/// # Errors
/// If this process leads a group.
pub fn leave_session() -> io::Result<()> {
    // SAFETY: it has no arguments, and changes what the kernel knows of this process alone. Some systems return no session's number.
    match unsafe { libc::setsid() } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Has processes that lose their parent become children of this process, if they descend from it. Elsewhere the system's first
/// process waits for them.
pub fn adopt_orphans() {
    system::process::adopt_orphans();
}

/// Says whether processes of the same user may read the memory of this process and get its descriptors.
///
/// # Errors
/// Where the system cannot forbid it, or refuses to be asked.
pub fn set_open_to_others(is_open: bool) -> io::Result<()> {
    system::process::set_open_to_others(is_open)
}

/// How many threads this process has, where the system tells.
///
/// # Errors
/// If they cannot be counted.
pub(crate) fn threads() -> io::Result<Option<usize>> {
    system::process::threads()
}
