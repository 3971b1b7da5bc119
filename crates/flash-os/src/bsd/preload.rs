//! What of the program is mapped is not listed.

use std::io;

pub(crate) fn mlock_program() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn disable_huge_pages() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
