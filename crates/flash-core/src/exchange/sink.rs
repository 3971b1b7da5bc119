//! What an exchange writes its response to. Each protocol has a sink of its own.
//!
//! This module has no protocol and no buffer. HTTP/1 writes directly into its connection's output. A protocol with many
//! exchanges keeps what each has written until flow control allows it to leave. All sinks are known at compile time, so a
//! second protocol costs the first nothing.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use flash_http::status::Status;

use crate::clock::Now;
use crate::file::File;
use crate::file::header::HeaderBlock;

/// The length of a response's body, as far as it is known with the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// There is no body, and the head says nothing about one.
    None,
    /// The head says this length. The body may be left out, as in a response to HEAD.
    Known(u64),
    /// The body ends with [`BodySink::end`].
    Unknown,
}

/// Takes one response: a head, and then a body.
pub(crate) trait ResponseSink: BodySink {
    type Head<'h>: HeadSink
    where
        Self: 'h;

    /// Begins a head. `age_s` is the value of `Age`, if the response needs one.
    fn head(&mut self, status: Status, reason: &[u8], now: &Now, age_s: Option<u64>) -> Self::Head<'_>;

    /// Gives the client leave to send its body, with a 100 response (RFC 9110 §15.2.1).
    fn proceed(&mut self);

    /// An upstream writes the whole response in HTTP/1 itself. Returns whether the protocol can carry that.
    fn raw(&mut self) -> bool;

    /// Writes the ready-made head of a file's 200 response, and a small body with it. Returns as [`HeadSink::end`].
    fn file_head(&mut self, head: FileHead<'_>, now: &Now, body: &[u8]) -> u64;
}

/// A file's ready-made head, with the values that are only known when it is sent.
pub(crate) struct FileHead<'a> {
    pub(crate) block: &'a HeaderBlock,
    /// The file's modification time lies in the future.
    pub(crate) is_modified_later: bool,
    pub(crate) age_s: Option<u64>,
}

/// Takes the fields of one head, in order.
pub(crate) trait HeadSink: Sized {
    fn field(self, name: &[u8], value: &[u8]) -> Self;

    /// Whole field lines, with their CRLFs.
    fn lines(self, lines: &[u8]) -> Self;

    /// Writes the body's length in the protocol's form.
    fn length(self, length: BodyLength) -> Self;

    /// Ends the head. Returns its size on the wire, if a response's sent bytes are counted with its head.
    fn end(self) -> u64;
}

/// Takes a body, in pieces.
pub(crate) trait BodySink {
    /// Bytes that are copied.
    fn write(&mut self, bytes: &[u8]);

    /// Pushes bytes that were made or read for this response. `offset` says where a file has them.
    fn push_copied(&mut self, bytes: Bytes, offset: Option<u64>);

    /// Pushes a range of a file's copy in memory.
    fn push_memory(&mut self, file: &Arc<File>, range: Range<u64>);

    /// Pushes a range that was in the page cache a moment ago.
    fn push_resident(&mut self, file: &Arc<File>, range: Range<u64>);

    /// Ends a body of unknown length.
    fn end(&mut self) {
        self.end_with(b"");
    }

    /// The same, with lines of trailer fields (RFC 9110 §6.5), where the body's end can have them.
    fn end_with(&mut self, trailers: &[u8]);

    /// Whether everything that was written has been sent.
    fn is_empty(&self) -> bool;
}
