//! What a program is told and has not taken yet, framed as it understands it.

use flash_cgi::fastcgi::Encoder;

use crate::upstream::UpstreamProtocol;

/// What a client has sent and its program has not taken; also what it may send ahead for a next request.
pub(crate) const OUTGOING_BYTES_MAX: usize = 64 << 10;

/// Bytes for the program, framed.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    pub(super) sent: usize,
    pub(super) write_half: WriteHalf,
}

/// The end of what the program is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WriteHalf {
    #[default]
    Open,
    /// The stream is to be shut in that direction when the bytes before have left.
    ShutdownDue,
    Shut,
    /// The program does not listen: what was meant for it is dropped.
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
        }
    }

    pub(super) fn end_body(&mut self, protocol: UpstreamProtocol) {
        match (self.write_half, protocol) {
            (WriteHalf::Refused, _) => {}
            (_, UpstreamProtocol::FastCgi) => {
                Encoder.end_body(&mut self.bytes);
                self.write_half = WriteHalf::Shut;
            }
            (_, UpstreamProtocol::Cgi | UpstreamProtocol::Nph) => self.write_half = WriteHalf::ShutdownDue,
        }
    }
}
