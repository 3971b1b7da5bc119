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
    pub(super) tls: Option<Box<dyn UpstreamSession>>,
    pub(super) sent: usize,
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
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(super) fn put(&mut self, data: &[u8], protocol: UpstreamProtocol) {
        match (self.write_half, protocol) {
            (WriteHalf::Refused, _) => {}
            (_, UpstreamProtocol::FastCgi) => Encoder.body(data, &mut self.bytes),
            (_, UpstreamProtocol::Cgi | UpstreamProtocol::Nph) => self.bytes.extend_from_slice(data),
            (_, UpstreamProtocol::Http) => match &mut self.tls {
                Some(tls) => tls.seal(data, &mut self.bytes),
                None => self.bytes.extend_from_slice(data),
            },
        }
    }

    pub(super) fn end_body(&mut self, protocol: UpstreamProtocol) {
        match (self.write_half, protocol) {
            (WriteHalf::Refused, _) => {}
            (_, UpstreamProtocol::FastCgi) => {
                Encoder.end_body(&mut self.bytes);
                self.write_half = WriteHalf::Shut;
            }
            // Its length was in the head.
            (_, UpstreamProtocol::Http) => self.write_half = WriteHalf::Shut,
            (_, UpstreamProtocol::Cgi | UpstreamProtocol::Nph) => self.write_half = WriteHalf::ShutdownDue,
        }
    }
}
