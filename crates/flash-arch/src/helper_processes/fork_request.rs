//! What the server asks the supervisor process for. Each request comes with a socket for the process that fulfils it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ForkRequest {
    /// A helper process, which answers at the socket until it is closed.
    Helper { number: usize },
    /// A log opened again: its descriptor, or words that say why not.
    Log { path: PathBuf },
    /// The sockets' names removed. The socket is closed when that is done.
    TidyUp,
}

impl ForkRequest {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let (kind, rest): (u8, &[u8]) = match self {
            Self::Helper { number } => (b'h', &number.to_ne_bytes()),
            Self::Log { path } => (b'l', path.as_os_str().as_bytes()),
            Self::TidyUp => (b't', &[]),
        };
        [&[kind], rest].concat()
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Some(match bytes {
            [b'h', number @ ..] => Self::Helper { number: usize::from_ne_bytes(number.try_into().ok()?) },
            [b'l', path @ ..] => Self::Log { path: OsStr::from_bytes(path).into() },
            [b't'] => Self::TidyUp,
            _ => return None,
        })
    }
}
