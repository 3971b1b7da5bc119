//! There is nothing to ask for.

use std::io;

pub(crate) fn set_slice(_slice_ns: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn read_last() -> bool {
    false
}
