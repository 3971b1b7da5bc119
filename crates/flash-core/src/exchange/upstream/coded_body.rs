//! The body of a response that is compressed on its way to the client, and which responses are.
//!
//! The driver reads pieces that a loop has time for. What the program has written before a pause is flushed, so that the first
//! bytes of a slow program are not held back.

use std::sync::Arc;

use flash_cgi::response::Head;
use flash_compress::{Effort, Encoder, Failed};
use flash_http::negotiate::Coding;
use flash_http::{Status, media};

use super::gateway_error::GatewayError;
use crate::cache::memory_budget::{Budget, Reservation};
use crate::exchange::sink::BodySink;
use crate::file::compressed::COMPRESSED_FILE_BYTES_MIN;
use crate::file::header;
use crate::site::Site;

/// A loop compresses so much at a time. docs/decisions/programs.md has the measurement.
pub(super) const PIECE_BYTES: usize = 4 << 10;

#[derive(Debug)]
pub(crate) struct CodedBody {
    encoder: Encoder,
    coding: Coding,
    /// Bytes that were written since the last flush.
    unflushed: usize,
    _memory: Reservation,
}

impl CodedBody {
    /// `None` if there is no memory. The response is then sent as it is.
    pub(super) fn new(coding: Coding, memory: &Arc<Budget>) -> Option<Box<Self>> {
        let reservation = memory.reserve(Encoder::memory_bytes(coding, Effort::Streamed, None))?;
        let encoder = Encoder::new(coding, Effort::Streamed, None).ok()?;
        Some(Box::new(Self { encoder, coding, unflushed: 0, _memory: reservation }))
    }

    pub(super) fn write(&mut self, bytes: &[u8], sink: &mut impl BodySink) -> Result<(), GatewayError> {
        let between = Encoder::bytes_between_flushes(self.coding);
        for piece in bytes.chunks(between) {
            self.encoder.write(piece).map_err(failed)?;
            self.unflushed += piece.len();
            if self.unflushed >= between {
                self.flush(sink)?;
            }
        }
        self.give(sink);
        Ok(())
    }

    pub(super) fn flush(&mut self, sink: &mut impl BodySink) -> Result<(), GatewayError> {
        if self.holds_back() {
            self.encoder.flush().map_err(failed)?;
            self.unflushed = 0;
            self.give(sink);
        }
        Ok(())
    }

    /// Ends the body.
    pub(super) fn finish(self, sink: &mut impl BodySink) -> Result<(), GatewayError> {
        let rest = self.encoder.finish().map_err(failed)?;
        sink.write(&rest);
        sink.end();
        Ok(())
    }

    pub(super) fn holds_back(&self) -> bool {
        self.unflushed > 0
    }

    fn give(&mut self, sink: &mut impl BodySink) {
        if self.encoder.made() > 0 {
            sink.write(&self.encoder.take());
        }
    }
}

fn failed(_: Failed) -> GatewayError {
    GatewayError::of_program("wrote what could not be compressed")
}

/// Whether clients get a response in different codings. `length` is that of its body, if it is known.
pub(super) fn varies(head: &Head<'_>, length: Option<u64>, site: &Site) -> bool {
    if site.settings.compress_programs.is_empty()
        || head.status.is_bodiless()
        || head.status == Status::PARTIAL_CONTENT
        || length.is_some_and(|length| length < COMPRESSED_FILE_BYTES_MIN)
        || site.template.forbids_transform(None)
    {
        return false;
    }
    let mut is_loose = false;
    for (name, value) in head.fields() {
        match () {
            () if name.eq_ignore_ascii_case(b"content-type") => is_loose = media::compresses(value),
            // These are about the bytes as they are.
            () if AS_IT_IS.iter().any(|other| name.eq_ignore_ascii_case(other)) => return false,
            () if header::is_cache_control(name) && header::says_no_transform(value) => return false,
            () => {}
        }
    }
    is_loose
}

/// A response with one of these fields is sent as it is.
const AS_IT_IS: [&[u8]; 6] =
    [b"content-encoding", b"content-range", b"content-digest", b"repr-digest", b"digest", b"content-md5"];

/// A field of a response that is compressed. `None` if it is about the bytes as they were.
pub(super) fn coded_field<'v>(name: &[u8], value: &'v [u8], buffer: &'v mut Vec<u8>) -> Option<&'v [u8]> {
    if name.eq_ignore_ascii_case(b"accept-ranges") {
        return None;
    }
    if name.eq_ignore_ascii_case(b"etag") && !value.starts_with(b"W/") {
        // RFC 9110 §8.8.1: other bytes with the same meaning.
        buffer.clear();
        buffer.extend_from_slice(b"W/");
        buffer.extend_from_slice(value);
        return Some(buffer);
    }
    Some(value)
}
