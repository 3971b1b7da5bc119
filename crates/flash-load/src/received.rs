//! What a socket has brought, or why it has brought nothing.

use rustix::io::Errno;

/// What one call has received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// From the socket. 0 is its end.
    pub(crate) bytes: usize,
    /// For the client.
    pub(crate) plaintext: usize,
    /// The socket has no more for now.
    pub(crate) is_all: bool,
    /// The handshake is complete with this.
    pub(crate) secured: Option<Secured>,
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// Nothing has come.
    Again,
    Socket,
    /// The handshake has failed, or a record was wrong.
    Tls,
}

impl From<Errno> for Failed {
    fn from(error: Errno) -> Failed {
        match error {
            Errno::AGAIN => Failed::Again,
            _ => Failed::Socket,
        }
    }
}

/// What a handshake came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Secured {
    pub(crate) is_resumed: bool,
    pub(crate) is_http2: bool,
}
