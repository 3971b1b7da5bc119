//! The server's requests to the supervisor process. Each comes with a socket for the process that fulfils it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ForkRequest {
    /// A helper process for the root whose descriptor comes first. It answers on the socket until that is closed.
    Helper { number: usize },
    /// Open the folder that DIR leads to now. The reply is its descriptor and real path, or an error's number.
    Root,
    /// Reopen a log. The reply is its descriptor, or an error text.
    Log { path: PathBuf },
    /// Read the configuration again, and check it. The reply is what it says, or all that is wrong.
    Configuration,
    /// Remove the sockets' names. The process closes the socket when that is done.
    TidyUp,
}

impl ForkRequest {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let (kind, rest): (u8, &[u8]) = match self {
            Self::Helper { number } => (b'h', &number.to_ne_bytes()),
            Self::Log { path } => (b'l', path.as_os_str().as_bytes()),
            Self::Root => (b'r', &[]),
            Self::Configuration => (b'c', &[]),
            Self::TidyUp => (b't', &[]),
        };
        [&[kind], rest].concat()
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Some(match bytes {
            [b'h', number @ ..] => Self::Helper { number: usize::from_ne_bytes(number.try_into().ok()?) },
            [b'l', path @ ..] => Self::Log { path: OsStr::from_bytes(path).into() },
            [b'r'] => Self::Root,
            [b'c'] => Self::Configuration,
            [b't'] => Self::TidyUp,
            _ => return None,
        })
    }
}
