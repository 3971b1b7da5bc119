//! The protocol between a server in its sandbox and its connector. Each request comes with a socket for its reply.

use std::os::fd::OwnedFd;

use flash_process::codec::{Reader, Writer};
use flash_process::ipc::Message;
use rustix::io::Errno;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// Connect to a server of the configuration.
    Connect { target: &'a str, patience_ms: u32 },
    /// Make a listening socket without a name. The reply has that and its place.
    Listen,
    /// Connect to the socket without a name whose place comes along.
    ConnectToPlace,
}

/// The descriptors of a reply. One without any has an error's number.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) first: Option<OwnedFd>,
    pub(crate) second: Option<OwnedFd>,
}

/// Of a packet, with the byte that says what kind it is.
pub(crate) const REPLY_BYTES_MAX: usize = 8;

impl<'a> Request<'a> {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut message = Writer::default();
        match self {
            Self::Connect { target, patience_ms } => {
                message.u8(b'c');
                message.u32(patience_ms);
                message.bytes(target.as_bytes());
            }
            Self::Listen => message.u8(b'l'),
            Self::ConnectToPlace => message.u8(b'p'),
        }
        message.bytes
    }

    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Option<Self> {
        let mut message = Reader(bytes);
        let request = match message.u8()? {
            b'c' => {
                let patience_ms = message.u32()?;
                let target = str::from_utf8(message.bytes(bytes.len())?).ok()?;
                Self::Connect { target, patience_ms }
            }
            b'l' => Self::Listen,
            b'p' => Self::ConnectToPlace,
            _ => return None,
        };
        message.end().map(|()| request)
    }
}

impl Reply {
    pub(crate) fn of_message(message: Message<'_>) -> Result<Self, Errno> {
        let mut descriptors = message.descriptors.into_iter();
        match (descriptors.next(), message.bytes.as_ref().try_into()) {
            (None, Ok(number)) => Err(Errno::from_raw_os_error(i32::from_ne_bytes(number))),
            // This process had no room for the descriptor.
            (None, Err(_)) => Err(if message.is_incomplete { Errno::MFILE } else { Errno::IO }),
            (first, _) => Ok(Self { first, second: descriptors.next() }),
        }
    }
}

pub(crate) fn error_bytes(error: Errno) -> [u8; 4] {
    error.raw_os_error().to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_arrive_as_they_were_sent() {
        for request in [
            Request::Connect { target: "app.internal:80", patience_ms: 5000 },
            Request::Listen,
            Request::ConnectToPlace,
        ] {
            let bytes = request.to_bytes();
            assert_eq!(Request::of_bytes(&bytes), Some(request));
            assert_eq!(Request::of_bytes(&[&bytes[..], b"x"].concat()), None);
            (0..bytes.len()).for_each(|length| assert_eq!(Request::of_bytes(&bytes[..length]), None));
        }
    }
}
