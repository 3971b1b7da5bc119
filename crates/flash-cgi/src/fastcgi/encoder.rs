//! What the server says: the request, its body, and that it is not wanted any more.

use super::record::{CONTENT_BYTES_MAX, HEAD_BYTES, REQUEST_ID, VERSION, kind};
use crate::Variables;

/// §5.1: the application is to answer, as a CGI program does.
const RESPONDER: u16 = 1;
const KEEP_CONN: u8 = 1;

/// Writes one request's records to the end of a buffer, in the order of its methods.
#[derive(Clone, Copy, Debug, Default)]
pub struct Encoder;

impl Encoder {
    /// The request and all that is told of it. Without `keep`, the application closes the connection after its answer.
    pub fn begin(self, variables: &Variables, keep: bool, out: &mut Vec<u8>) {
        let pairs = variables.as_pairs();
        // Four heads and a begin, and room for an empty STDIN: one allocation, if that.
        out.reserve(pairs.len() + (5 + pairs.len() / CONTENT_BYTES_MAX) * HEAD_BYTES);
        let [role_high, role_low] = RESPONDER.to_be_bytes();
        let flags = if keep { KEEP_CONN } else { 0 };
        record(kind::BEGIN_REQUEST, &[role_high, role_low, flags, 0, 0, 0, 0, 0], out);
        stream(kind::PARAMS, pairs, out);
        record(kind::PARAMS, &[], out);
    }

    /// A piece of the request's body. An empty one is no record: that would be the body's end.
    pub fn body(self, piece: &[u8], out: &mut Vec<u8>) {
        stream(kind::STDIN, piece, out);
    }

    /// The body has ended, or there is none.
    pub fn end_body(self, out: &mut Vec<u8>) {
        record(kind::STDIN, &[], out);
    }

    /// §5.4: the client has left.
    pub fn abort(self, out: &mut Vec<u8>) {
        record(kind::ABORT_REQUEST, &[], out);
    }
}

/// As many records as it takes, and no empty one, which would end the stream.
fn stream(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    for content in bytes.chunks(CONTENT_BYTES_MAX) {
        record(kind, content, out);
    }
}

/// One record. Without padding: §3.3 only recommends it, and no reader gains by it.
fn record(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(content.len()).expect("streams are cut into records that fit");
    let [length_high, length_low] = length.to_be_bytes();
    let [id_high, id_low] = REQUEST_ID.to_be_bytes();
    out.extend_from_slice(&[VERSION, kind, id_high, id_low, length_high, length_low, 0, 0]);
    out.extend_from_slice(content);
}
