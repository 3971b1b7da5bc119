//! Frames as bytes (RFC 9113 §4.1 and §6): their headers, and whole frames that a server or a client writes.
//!
//! The bodies of DATA frames are not written here: a frame's header stands before bytes that lie elsewhere.

use crate::error::ErrorCode;
use crate::hpack::encoder::EMPTY_TABLE;

/// The length of every frame's header.
pub const HEADER_BYTES: usize = 9;
/// The largest payload that this side accepts, and the largest that a peer must accept (RFC 9113 §6.5.2).
pub const PAYLOAD_BYTES_MAX: usize = 16_384;
/// What a client sends first (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest number of a stream.
pub const STREAM_MAX: u32 = (1 << 31) - 1;

/// Types of frames.
pub mod kind {
    pub const DATA: u8 = 0x0;
    pub const HEADERS: u8 = 0x1;
    pub const PRIORITY: u8 = 0x2;
    pub const RST_STREAM: u8 = 0x3;
    pub const SETTINGS: u8 = 0x4;
    pub const PUSH_PROMISE: u8 = 0x5;
    pub const PING: u8 = 0x6;
    pub const GOAWAY: u8 = 0x7;
    pub const WINDOW_UPDATE: u8 = 0x8;
    pub const CONTINUATION: u8 = 0x9;
    /// RFC 9218 §7.1.
    pub const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags of frames.
pub mod flag {
    pub const END_STREAM: u8 = 0x1;
    pub const ACK: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// Where the flags are in a frame's header.
pub const FLAGS_AT: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Of the payload.
    pub length: u32,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl FrameHeader {
    pub fn of(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes;
        Self {
            length: u32::from_be_bytes([0, l0, l1, l2]),
            kind,
            flags,
            // RFC 9113 §4.1: the first bit has no meaning.
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & STREAM_MAX,
        }
    }

    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [_, l0, l1, l2] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let header = FrameHeader { length: payload.len() as u32, kind, flags, stream };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(payload);
}

/// Begins a HEADERS frame. Returns where it begins, for [`end_headers`].
#[inline]
pub fn begin_headers(out: &mut Vec<u8>, stream: u32) -> usize {
    let start = out.len();
    let header = FrameHeader { length: 0, kind: kind::HEADERS, flags: flag::END_HEADERS, stream };
    out.extend_from_slice(&header.to_bytes());
    start
}

/// Ends a HEADERS frame that begins at `start`. A block that is too long for it goes on in CONTINUATION frames.
#[inline]
pub fn end_headers(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start - HEADER_BYTES;
    if length > PAYLOAD_BYTES_MAX {
        return split_headers(out, start);
    }
    let [_, l0, l1, l2] = (length as u32).to_be_bytes();
    out[start..start + 3].copy_from_slice(&[l0, l1, l2]);
}

/// Writes a header block that ends its stream. It may be the first after the peer has asked for an empty table, so it begins with that.
pub fn trailers(out: &mut Vec<u8>, stream: u32, block: &[u8]) {
    let start = begin_headers(out, stream);
    out[start + FLAGS_AT] |= flag::END_STREAM;
    out.push(EMPTY_TABLE);
    out.extend_from_slice(block);
    end_headers(out, start);
}

#[cold]
fn split_headers(out: &mut Vec<u8>, start: usize) {
    let header = FrameHeader::of(out[start..].first_chunk().expect("a header was begun"));
    let block = out.split_off(start + HEADER_BYTES);
    out.truncate(start);
    let count = block.len().div_ceil(PAYLOAD_BYTES_MAX);
    for (number, fragment) in block.chunks(PAYLOAD_BYTES_MAX).enumerate() {
        let kind = if number == 0 { kind::HEADERS } else { kind::CONTINUATION };
        let end = if number + 1 == count { flag::END_HEADERS } else { 0 };
        let flags = if number == 0 { header.flags & !flag::END_HEADERS | end } else { end };
        frame(out, kind, flags, header.stream, fragment);
    }
}

/// Numbers and values, as in [`crate::settings`].
pub fn settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let mut payload = Vec::with_capacity(6 * settings.len());
    for (id, value) in settings {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame(out, kind::SETTINGS, 0, 0, &payload);
}

pub fn settings_ack(out: &mut Vec<u8>) {
    frame(out, kind::SETTINGS, flag::ACK, 0, &[]);
}

pub fn ping(out: &mut Vec<u8>, data: &[u8; 8], is_ack: bool) {
    frame(out, kind::PING, if is_ack { flag::ACK } else { 0 }, 0, data);
}

pub fn window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    frame(out, kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}

pub fn rst_stream(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    frame(out, kind::RST_STREAM, 0, stream, &code.0.to_be_bytes());
}

pub fn goaway(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode, reason: &str) {
    let payload = [&last_stream.to_be_bytes()[..], &code.0.to_be_bytes(), reason.as_bytes()].concat();
    frame(out, kind::GOAWAY, 0, 0, &payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = FrameHeader { length: 0x01_02_03, kind: 9, flags: 0x25, stream: STREAM_MAX };
        assert_eq!(header.to_bytes(), [1, 2, 3, 9, 0x25, 0x7f, 0xff, 0xff, 0xff]);
        assert_eq!(FrameHeader::of(&header.to_bytes()), header);
        let reserved = FrameHeader::of(&[0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(reserved.stream, STREAM_MAX, "the reserved bit is dropped");
    }

    #[test]
    fn a_long_block_goes_on_in_continuations() {
        let mut out = b"before".to_vec();
        let start = begin_headers(&mut out, 7);
        let block: Vec<u8> = (0..PAYLOAD_BYTES_MAX * 2 + 5).map(|at| at as u8).collect();
        out.extend_from_slice(&block);
        end_headers(&mut out, start);
        let mut rest = out.strip_prefix(b"before").unwrap();
        let mut got = Vec::new();
        let mut kinds = Vec::new();
        while let Some((header, after)) = rest.split_first_chunk() {
            let header = FrameHeader::of(header);
            assert_eq!(header.stream, 7);
            kinds.push((header.kind, header.flags, header.length));
            got.extend_from_slice(&after[..header.length as usize]);
            rest = &after[header.length as usize..];
        }
        assert_eq!(got, block);
        let most = PAYLOAD_BYTES_MAX as u32;
        assert_eq!(kinds, [(1, 0, most), (9, 0, most), (9, flag::END_HEADERS, 5)]);
    }
}
