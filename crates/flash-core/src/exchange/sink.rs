//! What an exchange writes its response to. Its protocol decides what that looks like on the wire.
//!
//! There is no protocol here, and no buffer: HTTP/1 writes through to its connection's output, and a protocol with many
//! exchanges at a time keeps what each has written until its flow control lets it go. Everything is known at compile time,
//! so that the first costs nothing for the second.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use flash_http::status::Status;

use crate::clock::Now;
use crate::file::File;
use crate::header::HeaderBlock;

/// How long a response's body is, as far as that is known with its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// There is none, and the head says nothing about it.
    None,
    /// It may be left out, as in an answer to HEAD.
    Known(u64),
    /// The body ends with [`BodySink::end`].
    Unknown,
}

/// Takes one response: a head, then a body.
pub(crate) trait ResponseSink: BodySink {
    type Head<'h>: HeadSink
    where
        Self: 'h;

    /// Begins a head. `age_s` is the value of `Age`, if the response needs one.
    fn head(&mut self, status: Status, reason: &[u8], now: &Now, age_s: Option<u64>) -> Self::Head<'_>;

    /// A program writes the response itself, head and all, as HTTP/1 has it. Returns whether the protocol can carry that.
    fn raw(&mut self) -> bool;

    /// The whole head of a file's 200 response, ready made, and a small body with it. Returns the head's size on the wire.
    fn file_head(&mut self, head: FileHead<'_>, now: &Now, body: &[u8]) -> u64;
}

/// A file's ready-made head, and what is not known before it is sent.
pub(crate) struct FileHead<'a> {
    pub(crate) block: &'a HeaderBlock,
    /// The file says that it was modified later than now.
    pub(crate) is_modified_later: bool,
    pub(crate) age_s: Option<u64>,
}

/// Takes the fields of one head, in order.
pub(crate) trait HeadSink: Sized {
    fn field(self, name: &[u8], value: &[u8]) -> Self;

    /// Whole field lines, with their CRLFs.
    fn lines(self, lines: &[u8]) -> Self;

    /// The body's length, in whatever way the protocol says it.
    fn length(self, length: BodyLength) -> Self;

    /// Ends the head. Returns its size on the wire.
    fn end(self) -> u64;
}

/// Takes a body, in pieces.
pub(crate) trait BodySink {
    /// Bytes that are copied.
    fn write(&mut self, bytes: &[u8]);

    /// Bytes made or read for this response; `offset` says where in a file they can be read again.
    fn push_copied(&mut self, bytes: Bytes, offset: Option<u64>);

    /// A range of a file's copy in memory.
    fn push_memory(&mut self, file: &Arc<File>, range: Range<u64>);

    /// A range that was in the page cache a moment ago.
    fn push_resident(&mut self, file: &Arc<File>, range: Range<u64>);

    /// The last byte of a body whose length was not known.
    fn end(&mut self);

    /// Whether all that was written has left.
    fn is_empty(&self) -> bool;
}
