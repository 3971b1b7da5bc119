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
        }
        if names.len() != sockets.len() || names.len() > LISTENERS_MAX {
            return Err(invalid());
        }
        Ok(Self { ready_within: Duration::from_millis(ms), binary, sockets, names })
    }
}
