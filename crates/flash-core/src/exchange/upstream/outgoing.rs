//! What a program is told and has not taken yet, framed as it understands it.

use flash_cgi::fastcgi::Encoder;

use crate::program::Talk;

/// Bytes for the program, framed.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    pub(super) sent: usize,
    pub(super) end: End,
}

/// The end of what the program is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    #[default]
    NotYet,
    /// The stream is to be shut in that direction when the bytes before have left.
    Due,
    Said,
    /// The program does not listen: what was meant for it is dropped.
    Unheard,
}

impl Outgoing {
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(super) fn put(&mut self, data: &[u8], talk: Talk) {
        match (self.end, talk) {
            (End::Unheard, _) => {}
            (_, Talk::FastCgi) => Encoder.body(data, &mut self.bytes),
            (_, Talk::Cgi | Talk::Nph) => self.bytes.extend_from_slice(data),
        }
    }

    pub(super) fn end_body(&mut self, talk: Talk) {
        match (self.end, talk) {
            (End::Unheard, _) => {}
            (_, Talk::FastCgi) => {
                Encoder.end_body(&mut self.bytes);
                self.end = End::Said;
            }
            (_, Talk::Cgi | Talk::Nph) => self.end = End::Due,
        }
    }
}
