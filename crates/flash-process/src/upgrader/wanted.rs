//! What a server wants its upgrader to execute, as it arrives. How that is done is not known here.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use flash_os::activation::SOCKETS_MAX;
use rustix::io::Errno;

use crate::codec::Reader;
use crate::ipc;

/// The upgrader's, in messages.
pub(super) const NAME: &str = "the upgrader";
/// However long the server would wait.
const READY_WITHIN_MAX: Duration = Duration::from_secs(3600);
/// The longest path of a program.
const PATH_BYTES_MAX: usize = 4096;
/// A new server has two more: the socket to its predecessor, and its standard error.
pub(super) const LISTENERS_MAX: usize = SOCKETS_MAX - 2;

/// What the server wants executed, with its sockets and their names.
pub(super) struct Wanted {
    pub(super) ready_within: Duration,
    pub(super) binary: Option<PathBuf>,
    pub(super) sockets: Vec<OwnedFd>,
    pub(super) names: Vec<String>,
}

impl Wanted {
    pub(super) fn receive(from: &OwnedFd) -> io::Result<Self> {
        let invalid = || io::Error::from(ErrorKind::InvalidData);
        let mut buffer = ipc::buffer();
        let first = ipc::receive(from, &mut buffer)?.ok_or_else(invalid)?;
        let mut reader = Reader(&first.bytes);
        let ms = reader.u64().ok_or_else(invalid)?;
        let binary = reader.bytes(PATH_BYTES_MAX).ok_or_else(invalid)?;
        let binary = (!binary.is_empty()).then(|| OsStr::from_bytes(binary).into());
        let (mut sockets, mut names) = (Vec::new(), Vec::new());
        loop {
            let message = ipc::receive(from, &mut buffer)?.ok_or_else(invalid)?;
            if message.bytes.is_empty() {
                break;
            }
            if message.is_incomplete {
                return Err(Errno::MFILE.into());
            }
            let text = String::from_utf8_lossy(&message.bytes);
            names.extend(text.split(':').map(str::to_owned));
            sockets.extend(message.descriptors);
            if names.len() > LISTENERS_MAX || sockets.len() > LISTENERS_MAX {
                return Err(invalid());
            }
        }
        if names.len() != sockets.len() {
            return Err(invalid());
        }
        let ready_within = Duration::from_millis(ms).min(READY_WITHIN_MAX);
        Ok(Self { ready_within, binary, sockets, names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Writer;

    fn request(ms: u64) -> Vec<u8> {
        let mut message = Writer::default();
        message.u64(ms);
        message.bytes(b"");
        message.bytes
    }

    #[test]
    fn a_server_that_never_ends_its_list_is_not_waited_for() {
        let (server, upgrader) = ipc::pair().unwrap();
        ipc::send(&server, &request(1), &[]).unwrap();
        ipc::send(&server, "a:".repeat(LISTENERS_MAX).as_bytes(), &[]).unwrap();
        let refused = Wanted::receive(&upgrader).err().map(|error| error.kind());
        assert_eq!(refused, Some(ErrorKind::InvalidData));
    }

    #[test]
    fn an_hour_is_the_longest_wait() {
        for (ms, expected) in [(70, Duration::from_millis(70)), (u64::MAX, READY_WITHIN_MAX)] {
            let (server, upgrader) = ipc::pair().unwrap();
            ipc::send(&server, &request(ms), &[]).unwrap();
            ipc::send(&server, b"", &[]).unwrap();
            assert_eq!(Wanted::receive(&upgrader).unwrap().ready_within, expected);
        }
    }
}
