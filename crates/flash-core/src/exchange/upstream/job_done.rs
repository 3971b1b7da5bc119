//! What a job about stored bytes has led to.

use bytes::Bytes;

#[derive(Debug)]
pub(crate) enum JobDone {
    /// So many bytes were written.
    Written(u64),
    /// The next part of the response, for the client.
    Response(Bytes),
    /// A part of the response could not be written, for this reason. It stays in memory.
    Refused(&'static str),
    Nothing,
}
