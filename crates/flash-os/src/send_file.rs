//! Sends a range of a file.

use std::cell::RefCell;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::socket::NO_SIGNAL;
use crate::system_calls::{Call, has};
use crate::{read_at, residency, system};

/// How much is copied at a time.
const COPIED_BYTES: usize = 64 << 10;

thread_local! {
    static COPIED: RefCell<Box<[u8]>> = RefCell::new(vec![0; COPIED_BYTES].into());
}

/// Sends the file's bytes from `offset` on. Returns how many the socket has taken: 0 at the file's end.
///
/// # Errors
/// Those of sendfile(2).
pub fn send(socket: impl AsFd, file: impl AsFd, offset: u64, bytes: usize) -> Result<usize, Errno> {
    match has(Call::Sendfile) {
        true => residency::relying(|| system::send_file::send(socket, file, offset, bytes)),
        false => residency::relying(|| copy(socket, file, offset, bytes)),
    }
}

fn copy(socket: impl AsFd, file: impl AsFd, offset: u64, bytes: usize) -> Result<usize, Errno> {
    COPIED.with_borrow_mut(|buffer| {
        let part = &mut buffer[..bytes.min(COPIED_BYTES)];
        match read_at::read_set(file, part, offset)? {
            0 => Ok(0),
            read => rustix::net::send(socket, &part[..read], NO_SIGNAL),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn check(send: impl Fn(&UnixStream, &File, u64, usize) -> Result<usize, Errno>) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b"123".as_slice(), &[7; COPIED_BYTES]].concat()).unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        assert_eq!(send(&far, &file, 1, 3), Ok(3));
        assert_eq!(send(&far, &file, 3 + COPIED_BYTES as u64, 3), Ok(0));
        far.set_nonblocking(true).unwrap();
        let taken: usize = std::iter::from_fn(|| send(&far, &file, 0, usize::MAX >> 1).ok()).sum();
        drop(far);
        let mut got = Vec::new();
        near.read_to_end(&mut got).unwrap();
        assert!(got.starts_with(b"23\x07123\x07") && got.len() == taken + 3, "{} {taken}", got.len());
    }

    #[test]
    fn a_copy_is_what_the_kernel_sends() {
        check(|socket, file, offset, bytes| copy(socket, file, offset, bytes));
        check(|socket, file, offset, bytes| system::send_file::send(socket, file, offset, bytes));
    }
}
