//! Whether a connection stays open after a response, and what the head says about it (RFC 9112 §9.3).

use flash_http::head::{Head, Version};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    /// HTTP/1.1 stays open unless a message says otherwise.
    StaysOpen,
    /// An HTTP/1.0 client asked to keep the connection, and the response says yes.
    KeepAlive,
    Closes,
}

impl Persistence {
    /// Whether the connection stays open after this request.
    pub(super) fn after(head: &Head<'_>, closes: bool) -> Self {
        match (head.framing.keep_alive && !closes, head.framing.version) {
            (false, _) => Self::Closes,
            (true, Version::Http11 | Version::Http2) => Self::StaysOpen,
            (true, Version::Http10) => Self::KeepAlive,
        }
    }

    pub(super) fn end_of_head(self) -> &'static [u8] {
        match self {
            Self::StaysOpen => b"\r\n",
            Self::KeepAlive => b"Connection: keep-alive\r\n\r\n",
            Self::Closes => b"Connection: close\r\n\r\n",
        }
    }

    pub(super) fn stays_open(self) -> bool {
        self != Self::Closes
    }
}
