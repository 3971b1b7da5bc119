//! `getrandom`.

use std::io;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

pub(crate) fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let count = retry_on_intr(|| getrandom(&mut *bytes, GetRandomFlags::empty()))?;
    if count < bytes.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}
