//! Socket activation: listening sockets that the service manager has opened (sd_listen_fds(3)).

use std::env;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// A socket that was passed to this process.
#[derive(Debug)]
pub struct Passed {
    pub socket: OwnedFd,
    /// Its name in the service manager (FileDescriptorName=).
    pub name: String,
}

/// The first descriptor that the service manager passes on.
pub(crate) const FIRST: RawFd = 3;
/// More sockets than any service has.
pub const SOCKETS_MAX: usize = 512;
/// What sockets without a name are called (sd_listen_fds_with_names(3)).
const NO_NAME: &str = "unknown";

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The sockets that were passed to this process; none in a later call. Call it before the process opens anything.
///
/// # Errors
/// If the environment names descriptors that are not open.
pub fn take_sockets() -> io::Result<Vec<Passed>> {
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    numbers()
        .map(|(number, name)| {
            // SAFETY: the descriptor is open. The service manager has passed it to this process, each is taken once, and nothing
            // else in this process owns it.
            open(number).map(|_| Passed { socket: unsafe { OwnedFd::from_raw_fd(number) }, name })
        })
        .collect()
}

/// Other descriptors of the sockets that [`take_sockets`] will return; none after it was called.
///
/// # Errors
/// If the environment names descriptors that are not open.
pub fn peek() -> io::Result<Vec<Passed>> {
    if TAKEN.load(Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    numbers().map(|(number, name)| Ok(Passed { socket: open(number)?.try_clone_to_owned()?, name })).collect()
}

/// The descriptors that the environment names, with their names.
fn numbers() -> impl Iterator<Item = (RawFd, String)> {
    let number = |name: &str| env::var(name).ok()?.parse::<u32>().ok();
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    let count = number("LISTEN_FDS").filter(|_| is_ours).and_then(|count| RawFd::try_from(count).ok());
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<String> = names.split(':').map(str::to_owned).collect();
    let name = move |position: usize| names.get(position).filter(|name| !name.is_empty()).cloned();
    (FIRST..FIRST + count.unwrap_or(0).min(SOCKETS_MAX as RawFd))
        .enumerate()
        .map(move |(position, number)| (number, name(position).unwrap_or_else(|| NO_NAME.into())))
}

/// Marks the descriptor, so that programs do not get it.
fn open<'a>(number: RawFd) -> io::Result<BorrowedFd<'a>> {
    // SAFETY: the call changes a flag of a descriptor, and fails if it is not open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        let error = io::Error::last_os_error();
        return Err(io::Error::new(error.kind(), format!("LISTEN_FDS names descriptor {number}: {error}")));
    }
    // SAFETY: the descriptor is open, and stays so until its only owner is made.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    debug_assert_eq!(socket.as_raw_fd(), number);
    Ok(socket)
}
