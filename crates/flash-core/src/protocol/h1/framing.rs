//! A response on an HTTP/1 wire: its head as text, and how the client finds the end of the body (RFC 9112 §6.3).

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use flash_http::head::Version;
use flash_http::status::Status;

use crate::clock::Now;
use crate::connection::output::Output;
use crate::exchange::sink::{BodyLength, BodySink, FileHead, HeadSink, ResponseSink};
use crate::file::File;
use crate::file::header;
use crate::record::request_id;

use super::persistence::Persistence;

/// What the request allows its response, and what the response has chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framing {
    pub(super) persistence: Persistence,
    pub(super) version: Version,
    pub(super) body: BodyFraming,
}

/// How the end of a response's body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// There is no body, or the head says its length.
    Length,
    Chunks,
    UntilClose,
}

/// Writes a response straight into its connection's output.
pub(super) struct Sink<'a> {
    pub(super) output: &'a mut Output,
    pub(super) framing: &'a mut Framing,
    /// The request's id, if the client gets it.
    pub(super) request_id: Option<&'a [u8]>,
}

/// A head that is being written into the output.
pub(super) struct Head<'h> {
    output: &'h mut Output,
    framing: &'h mut Framing,
    /// Where the head begins in the output.
    start: usize,
    age_s: Option<u64>,
    request_id: Option<&'h [u8]>,
}

impl Framing {
    pub(super) fn new(persistence: Persistence, version: Version) -> Self {
        Self { persistence, version, body: BodyFraming::Length }
    }
}

/// Writes a 100 response (RFC 9110 §15.2.1).
pub(super) fn write_continue(output: &mut Output) {
    output.write(|out| out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
    output.push_interim_end();
}

impl ResponseSink for Sink<'_> {
    type Head<'h>
        = Head<'h>
    where
        Self: 'h;

    fn head(&mut self, status: Status, reason: &[u8], now: &Now, age_s: Option<u64>) -> Head<'_> {
        let start = self.output.open(|out| header::begin(out, status, reason, &now.date));
        Head { output: self.output, framing: self.framing, start, age_s, request_id: self.request_id }
    }

    fn proceed(&mut self) {
        write_continue(self.output);
    }

    fn raw(&mut self) -> bool {
        self.framing.persistence = Persistence::Closes;
        self.framing.body = BodyFraming::UntilClose;
        true
    }

    fn file_head(&mut self, head: FileHead<'_>, now: &Now, body: &[u8]) -> u64 {
        let FileHead { block, is_modified_later, age_s } = head;
        let (end, request_id) = (self.framing.persistence.end_of_head(), self.request_id);
        self.output.write(|out| {
            let before = out.len();
            block.write_ok(&now.date, is_modified_later, age_s, out);
            if let Some(id) = request_id {
                header::field(out, request_id::FIELD, id);
            }
            out.extend_from_slice(end);
            let head_bytes = out.len() - before;
            out.extend_from_slice(body);
            head_bytes as u64
        })
    }
}

impl HeadSink for Head<'_> {
    fn field(self, name: &[u8], value: &[u8]) -> Self {
        header::field(self.output.opened(), name, value);
        self
    }

    fn lines(self, lines: &[u8]) -> Self {
        self.output.opened().extend_from_slice(lines);
        self
    }

    fn length(self, length: BodyLength) -> Self {
        match (length, self.framing.version) {
            (BodyLength::None, _) => self,
            (BodyLength::Known(bytes), _) => {
                let _ = write!(self.output.opened(), "Content-Length: {bytes}\r\n");
                self
            }
            (BodyLength::Unknown, Version::Http11 | Version::Http2) => {
                self.framing.body = BodyFraming::Chunks;
                self.field(b"Transfer-Encoding", b"chunked")
            }
            (BodyLength::Unknown, Version::Http10) => {
                self.framing.body = BodyFraming::UntilClose;
                self.framing.persistence = Persistence::Closes;
                self
            }
        }
    }

    fn end(self) -> u64 {
        let out = self.output.opened();
        if let Some(age_s) = self.age_s {
            let _ = write!(out, "Age: {age_s}\r\n");
        }
        if let Some(id) = self.request_id {
            header::field(out, request_id::FIELD, id);
        }
        out.extend_from_slice(self.framing.persistence.end_of_head());
        self.output.close(self.start)
    }
}

impl Sink<'_> {
    /// Writes the chunk framing around a piece of the body (RFC 9112 §7.1). An empty chunk would end the body.
    fn framed(&mut self, bytes: usize, push: impl FnOnce(&mut Output)) {
        let is_chunk = self.framing.body == BodyFraming::Chunks && bytes > 0;
        if is_chunk {
            self.output.write(|out| _ = write!(out, "{bytes:x}\r\n"));
        }
        push(self.output);
        if is_chunk {
            self.output.write(|out| out.extend_from_slice(b"\r\n"));
        }
    }
}

impl BodySink for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.framed(bytes.len(), |output| output.write(|out| out.extend_from_slice(bytes)));
    }

    fn push_copied(&mut self, bytes: Bytes, offset: Option<u64>) {
        self.framed(bytes.len(), |output| output.push_copied(bytes, offset));
    }

    fn push_memory(&mut self, file: &Arc<File>, range: Range<u64>) {
        self.output.push_memory(file, range);
    }

    fn push_resident(&mut self, file: &Arc<File>, range: Range<u64>) {
        self.output.push_resident(file, range);
    }

    fn end_with(&mut self, trailers: &[u8]) {
        if self.framing.body == BodyFraming::Chunks {
            self.output.write(|out| {
                [b"0\r\n", trailers, b"\r\n"].iter().for_each(|part| out.extend_from_slice(part))
            });
        }
    }

    fn is_empty(&self) -> bool {
        self.output.is_empty()
    }
}
