//! Socket activation: listening sockets that the service manager has opened (sd_listen_fds(3)).

use std::env;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first descriptor that the service manager passes on.
const FIRST: RawFd = 3;
/// More sockets than any service has.
const SOCKETS_MAX: RawFd = 64;

/// The sockets that were passed to this process; none in a later call. Call it before the process opens anything.
///
/// # Errors
/// If the environment names descriptors that are not open.
pub fn take_sockets() -> io::Result<Vec<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name: &str| env::var(name).ok()?.parse::<u32>().ok();
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    if !is_ours || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").and_then(|count| RawFd::try_from(count).ok()).unwrap_or(0);
    (FIRST..FIRST + count.min(SOCKETS_MAX)).map(take).collect()
}

fn take(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call changes a flag of a descriptor, and fails if it is not open.
    if unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        let error = io::Error::last_os_error();
        return Err(io::Error::new(
            error.kind(),
            format!("LISTEN_FDS names descriptor {descriptor}: {error}"),
        ));
    }
    // SAFETY: the descriptor is open. The service manager has passed it to this process, each is taken once, and nothing else
    // in this process owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    debug_assert_eq!(socket.as_raw_fd(), descriptor);
    Ok(socket)
}
