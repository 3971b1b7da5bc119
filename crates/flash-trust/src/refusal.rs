//! Whether there are rights of root, and why something is not done with them, though the kernel would allow it.

use std::fmt;
use std::io;
use std::path::Path;

/// Whether this thread has rights that other users lack.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Whether this crate refused it, and not the kernel.
#[must_use]
pub fn is_refusal(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Refusal>())
}

pub(crate) fn refused(place: &Path, why: &str) -> io::Error {
    io::Error::other(Refusal(format!("root does not use it: {} {why}", place.display())))
}
