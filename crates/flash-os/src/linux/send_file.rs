//! `sendfile`.

use std::os::fd::AsFd;

use rustix::io::Errno;

pub(crate) fn send(socket: impl AsFd, file: impl AsFd, offset: u64, bytes: usize) -> Result<usize, Errno> {
    rustix::fs::sendfile(socket, file, Some(&mut { offset }), bytes)
}
