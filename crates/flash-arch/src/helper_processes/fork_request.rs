//! The server's requests to the supervisor process. Each comes with a socket for the process that fulfils it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use flash_process::codec::{Reader, Writer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ForkRequest {
    /// A helper process of this number, for the root of the site whose descriptor comes first. It takes a socket for each thread, and
    /// ends when its own is closed.
    Helper { number: usize, site: usize },
    /// Open the folder of the site. The reply is its descriptor and real path, or an error's number.
    Root { site: usize },
    /// Reopen a log. The reply is its descriptor, or an error text.
    Log { path: PathBuf },
    /// Read the configuration again, and check it. The reply is what it says, or all that is wrong. If nothing is wrong, the process
    /// stays as the supervisor process of that configuration.
    Configuration,
    /// Be the connector of this configuration, until the socket closes.
    Connector,
    /// Remove the sockets' names. The process closes the socket when that is done.
    TidyUp,
}

impl ForkRequest {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut message = Writer::default();
        match self {
            Self::Helper { number, site } => {
                message.u8(b'h');
                message.u64(*number as u64);
                message.u64(*site as u64);
            }
            Self::Root { site } => {
                message.u8(b'r');
                message.u64(*site as u64);
            }
            Self::Log { path } => {
                message.u8(b'l');
                message.bytes(path.as_os_str().as_bytes());
            }
            Self::Configuration => message.u8(b'c'),
            Self::Connector => message.u8(b'n'),
            Self::TidyUp => message.u8(b't'),
        }
        message.bytes
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut message = Reader(bytes);
        let number = |message: &mut Reader<'_>| usize::try_from(message.u64()?).ok();
        let request = match message.u8()? {
            b'h' => Self::Helper { number: number(&mut message)?, site: number(&mut message)? },
            b'r' => Self::Root { site: number(&mut message)? },
            b'l' => Self::Log { path: OsStr::from_bytes(message.bytes(bytes.len())?).into() },
            b'c' => Self::Configuration,
            b'n' => Self::Connector,
            b't' => Self::TidyUp,
            _ => return None,
        };
        message.end().map(|()| request)
    }
}
