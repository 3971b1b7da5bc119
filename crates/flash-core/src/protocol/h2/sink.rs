//! A response on an HTTP/2 stream: its head is a HEADERS frame in the output, and its body is kept in pieces.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use flash_h2::frame::{self, FLAGS_AT, FrameHeader, PAYLOAD_BYTES_MAX, flag, kind};
use flash_h2::hpack::encoder;
use flash_http::Fields;
use flash_http::status::Status;

use super::pieces::Pieces;
use crate::clock::Now;
use crate::connection::output::{Mark, Output};
use crate::exchange::sink::{BodyLength, BodySink, FileHead, HeadSink, ResponseSink};
use crate::file::File;
use crate::file::header;
use crate::record::request_id;

pub(super) struct Sink<'a> {
    output: &'a mut Output,
    pieces: &'a mut Pieces,
    stream: u32,
    /// The next block empties the client's dynamic table.
    empties_table: &'a mut bool,
    /// How much of a body may be written behind its head at once.
    at_once_max: usize,
    /// The request's id, if the client gets it.
    request_id: Option<&'a [u8]>,
    /// Where the HEADERS frame begins in the output.
    head_at: Option<usize>,
    /// Bytes of the body that were written behind the head, with the end of the stream.
    pub(super) written_at_once: Option<usize>,
}

pub(super) struct Head<'h> {
    output: &'h mut Output,
    start: usize,
    age_s: Option<u64>,
    request_id: Option<&'h [u8]>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        output: &'a mut Output,
        pieces: &'a mut Pieces,
        stream: u32,
        empties_table: &'a mut bool,
        at_once_max: usize,
    ) -> Self {
        Self {
            output,
            pieces,
            stream,
            empties_table,
            at_once_max: at_once_max.min(PAYLOAD_BYTES_MAX),
            request_id: None,
            head_at: None,
            written_at_once: None,
        }
    }

    /// The client gets the request's id, if there is one.
    pub(super) fn tells(self, request_id: Option<&'a [u8]>) -> Self {
        Self { request_id, ..self }
    }

    fn begin(&mut self, block: impl FnOnce(&mut Vec<u8>)) -> usize {
        let (stream, empties_table) = (self.stream, std::mem::take(self.empties_table));
        let start = self.output.open(|out| {
            frame::begin_headers(out, stream);
            if empties_table {
                out.push(encoder::EMPTY_TABLE);
            }
            block(out);
        });
        self.head_at = Some(start);
        start
    }

    /// Sends an interim response (RFC 9113 §8.1).
    pub(super) fn interim(&mut self, status: Status) {
        let start = self.begin(|out| encoder::status(out, status.0));
        frame::end_headers(self.output.opened(), start);
        self.output.close(start);
    }

    /// What is written next begins here.
    pub(super) fn mark(&self) -> Mark {
        self.output.mark()
    }

    /// Whether trailers follow the body.
    pub(super) fn has_trailers(&self) -> bool {
        self.pieces.has_trailers()
    }

    /// The response has no body after all: its head ends the stream. Called before anything else is written.
    pub(super) fn end_with_head(&mut self) {
        if let Some(start) = self.head_at {
            self.output.opened()[start + FLAGS_AT] |= flag::END_STREAM;
        }
    }
}

/// A head's size is 0, because a stream counts the bytes of its body only.
impl ResponseSink for Sink<'_> {
    type Head<'h>
        = Head<'h>
    where
        Self: 'h;

    fn head(&mut self, status: Status, _: &[u8], now: &Now, age_s: Option<u64>) -> Head<'_> {
        let start = self.begin(|out| header::begin_compressed(out, status, &now.date));
        Head { output: self.output, start, age_s, request_id: self.request_id }
    }

    fn proceed(&mut self) {
        self.interim(Status::CONTINUE);
    }

    fn raw(&mut self) -> bool {
        false
    }

    fn file_head(&mut self, head: FileHead<'_>, now: &Now, body: &[u8]) -> u64 {
        let FileHead { block, is_modified_later, age_s } = head;
        let at_once = (1..=self.at_once_max).contains(&body.len());
        let (stream, request_id) = (self.stream, self.request_id);
        let start = self.begin(|out| {
            block.write_compressed(&now.date, is_modified_later, age_s, out);
            if let Some(id) = request_id {
                encoder::field(out, request_id::FIELD, id);
            }
        });
        let out = self.output.opened();
        frame::end_headers(out, start);
        if at_once {
            let (length, flags) = (body.len() as u32, flag::END_STREAM);
            let data = FrameHeader { length, kind: kind::DATA, flags, stream };
            out.extend_from_slice(&data.to_bytes());
            out.extend_from_slice(body);
            self.written_at_once = Some(body.len());
        }
        self.output.close(start);
        if !at_once {
            self.write(body);
        }
        0
    }
}

impl HeadSink for Head<'_> {
    fn field(self, name: &[u8], value: &[u8]) -> Self {
        header::compressed_field(self.output.opened(), name, value);
        self
    }

    fn lines(self, lines: &[u8]) -> Self {
        Fields::of_checked(lines).fold(self, |head, (name, value)| head.field(name, value))
    }

    fn length(self, length: BodyLength) -> Self {
        match length {
            BodyLength::Known(bytes) => self.field(b"content-length", bytes.to_string().as_bytes()),
            // The end of the stream is the end of the body.
            BodyLength::None | BodyLength::Unknown => self,
        }
    }

    fn end(self) -> u64 {
        let out = self.output.opened();
        if let Some(age_s) = self.age_s {
            encoder::field(out, b"age", age_s.to_string().as_bytes());
        }
        if let Some(id) = self.request_id {
            encoder::field(out, request_id::FIELD, id);
        }
        frame::end_headers(out, self.start);
        self.output.close(self.start);
        0
    }
}

impl BodySink for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.pieces.push_bytes(Bytes::copy_from_slice(bytes), None);
        }
    }

    fn push_copied(&mut self, bytes: Bytes, offset: Option<u64>) {
        self.pieces.push_bytes(bytes, offset);
    }

    fn push_memory(&mut self, file: &Arc<File>, range: Range<u64>) {
        self.pieces.push_memory(file, range);
    }

    fn push_resident(&mut self, file: &Arc<File>, range: Range<u64>) {
        self.pieces.push_resident(file, range);
    }

    fn end_with(&mut self, trailers: &[u8]) {
        self.pieces.end_with(trailers);
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}
