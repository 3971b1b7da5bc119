//! `getentropy`.

use std::io;

pub(crate) fn fill(bytes: &mut [u8]) -> io::Result<()> {
    // SAFETY: the bytes are valid to write to, as many as there are.
    match unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), bytes.len()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
