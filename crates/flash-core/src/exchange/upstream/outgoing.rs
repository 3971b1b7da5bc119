//! Bytes for the upstream that it has not read yet, in its framing.

use flash_cgi::fastcgi::Encoder;

use crate::upstream::{UpstreamProtocol, UpstreamSession};

/// How much the client may send that its upstream has not read. It also limits what the client sends ahead for its next
/// request.
pub(crate) const OUTGOING_BYTES_MAX: usize = 64 << 10;

/// Bytes for the upstream, in its framing.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Sealed, if there is TLS.
    pub(super) bytes: Vec<u8>,
    /// So many of them have been sent.
    sent: usize,
    pub(super) tls: Option<Box<dyn UpstreamSession>>,
    /// Bytes that wait for the end of its handshake.
    held_bytes: usize,
    /// The rest is in chunks (RFC 9112 §7.1).
    pub(super) is_chunked: bool,
    pub(super) write_half: WriteHalf,
}

/// The sending direction of the upstream's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WriteHalf {
    #[default]
    Open,
    /// The driver has to shut the direction down when all bytes are sent.
    ShutdownDue,
    Shut,
    /// The upstream does not read. What it would get is dropped.
    Refused,
}

impl Outgoing {
    pub(super) fn through(tls: Option<Box<dyn UpstreamSession>>) -> Self {
        Self { tls, ..Self::default() }
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Whether the upstream has all or nothing of what was put here.
    pub(super) fn is_between_writes(&self) -> bool {
        self.sent == 0
    }

    pub(super) fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.left() == 0 {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= OUTGOING_BYTES_MAX {
            // Something may always be left, as in a tunnel. One sent byte stays, so that this is not taken for a place between writes.
            self.bytes.drain(..self.sent - 1);
            self.sent = 1;
        }
    }

    /// How many bytes more there is room for.
    pub(super) fn room(&self) -> usize {
        let held_bytes = if self.is_handshaking() { self.held_bytes } else { 0 };
        OUTGOING_BYTES_MAX.saturating_sub(self.left() + held_bytes)
    }

    fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Nothing more goes through the tunnel.
    pub(super) fn end_tunnel(&mut self) {
        if self.write_half == WriteHalf::Shut {
            if let Some(tls) = &mut self.tls {
                tls.end(&mut self.bytes);
            }
            self.write_half = WriteHalf::ShutdownDue;
        }
    }

    pub(super) fn put(&mut self, data: &[u8], protocol: UpstreamProtocol) {
        match (self.write_half, protocol) {
            (WriteHalf::Refused, _) => {}
            (_, UpstreamProtocol::FastCgi) => Encoder.body(data, &mut self.bytes),
            (_, UpstreamProtocol::Cgi | UpstreamProtocol::Nph) => self.bytes.extend_from_slice(data),
            // A chunk without bytes would be the last.
            (_, UpstreamProtocol::Http) if self.is_chunked && !data.is_empty() => {
                // With TLS, each part would be a record of its own.
                self.seal(&[format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat());
            }
            (_, UpstreamProtocol::Http) => self.seal(data),
        }
    }

    fn seal(&mut self, data: &[u8]) {
        match &mut self.tls {
            Some(tls) => {
                self.held_bytes += data.len();
                tls.seal(data, &mut self.bytes);
            }
            None => self.bytes.extend_from_slice(data),
        }
    }

    /// Lines of trailer fields follow a body in chunks.
    pub(super) fn end_body(&mut self, protocol: UpstreamProtocol, trailers: &[u8]) {
        match (self.write_half, protocol) {
            (WriteHalf::Refused, _) => {}
            (_, UpstreamProtocol::FastCgi) => {
                Encoder.end_body(&mut self.bytes);
                self.write_half = WriteHalf::Shut;
            }
            (_, UpstreamProtocol::Http) => {
                if std::mem::take(&mut self.is_chunked) {
                    self.seal(&[b"0\r\n", trailers, b"\r\n"].concat());
                }
                self.write_half = WriteHalf::Shut;
            }
            (_, UpstreamProtocol::Cgi | UpstreamProtocol::Nph) => self.write_half = WriteHalf::ShutdownDue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_takes_no_room_and_the_middle_of_a_record_is_no_place_between_writes() {
        let mut outgoing = Outgoing::default();
        outgoing.put(&[b'x'; 100_000], UpstreamProtocol::FastCgi);
        let all = outgoing.left();
        outgoing.sent(OUTGOING_BYTES_MAX + 10);
        assert_eq!(outgoing.left(), all - OUTGOING_BYTES_MAX - 10);
        assert!(outgoing.bytes.len() <= outgoing.left() + 1 && !outgoing.is_between_writes());
        outgoing.sent(outgoing.left());
        assert!(outgoing.left() == 0 && outgoing.is_between_writes());
    }
}
