//! What the BSDs have in common, macOS among them.

pub(crate) mod poller;
#[cfg(not(target_os = "linux"))]
pub(crate) mod probe;
#[cfg(not(target_os = "linux"))]
pub(crate) mod ring;
#[cfg(not(target_os = "linux"))]
pub(crate) mod semaphore;
#[cfg(not(target_os = "linux"))]
pub(crate) mod socket;
#[cfg(not(target_os = "linux"))]
pub(crate) mod tcp;
#[cfg(not(target_os = "linux"))]
pub(crate) mod waker;

#[cfg(not(target_os = "linux"))]
pub(crate) use crate::posix::child_ends;
