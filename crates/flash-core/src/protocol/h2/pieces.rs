//! The part of a response's body that flow control holds back: pieces that lie elsewhere, and their way into DATA frames.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use flash_h2::frame::{self, FrameHeader, PAYLOAD_BYTES_MAX, flag, kind};
use flash_http::Fields;

use crate::connection::output::Output;
use crate::file::{Content, File, header};

#[derive(Debug, Default)]
pub(super) struct Pieces {
    all: VecDeque<Piece>,
    bytes: u64,
    /// No piece follows.
    pub(super) is_complete: bool,
    /// The header block that follows the last piece.
    trailers: Vec<u8>,
}

#[derive(Debug)]
enum Piece {
    /// Bytes, and their position in a file, if they come from one.
    Bytes(Bytes, Option<u64>),
    Memory(Arc<File>, Range<u64>),
    Resident(Arc<File>, Range<u64>),
}

/// Pieces up to this size are copied behind their frame's header: a slice of its own would cost more.
const COPY_BYTES_MAX: u64 = 2 << 10;

impl Piece {
    fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes, _) => bytes.len() as u64,
            Self::Memory(_, range) | Self::Resident(_, range) => range.end - range.start,
        }
    }
}

impl Pieces {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn push_bytes(&mut self, bytes: Bytes, offset: Option<u64>) {
        if !bytes.is_empty() {
            self.push(Piece::Bytes(bytes, offset));
        }
    }

    pub(super) fn push_memory(&mut self, file: &Arc<File>, range: Range<u64>) {
        if !range.is_empty() {
            self.push(Piece::Memory(Arc::clone(file), range));
        }
    }

    pub(super) fn push_resident(&mut self, file: &Arc<File>, range: Range<u64>) {
        self.push(Piece::Resident(Arc::clone(file), range));
    }

    /// Takes back what follows these bytes, which is to be sent later: whole pieces, which come from no file.
    pub(super) fn take_behind(&mut self, bytes: u64) -> Vec<Bytes> {
        let mut taken = Vec::new();
        while self.bytes > bytes
            && let Some(Piece::Bytes(piece, None)) = self.all.pop_back()
        {
            self.bytes -= piece.len() as u64;
            taken.push(piece);
        }
        taken.reverse();
        taken
    }

    /// The body is complete, and these lines of trailer fields follow.
    pub(super) fn end_with(&mut self, lines: &[u8]) {
        self.is_complete = true;
        for (name, value) in Fields::of_checked(lines) {
            header::compressed_field(&mut self.trailers, name, value);
        }
    }

    pub(super) fn has_trailers(&self) -> bool {
        !self.trailers.is_empty()
    }

    fn push(&mut self, piece: Piece) {
        self.bytes += piece.bytes();
        self.all.push_back(piece);
    }

    /// Takes back the window at the end, before a wait. It is made ready again when it can be sent.
    pub(super) fn take_back_window(&mut self) -> Option<Range<u64>> {
        let range = match self.all.back()? {
            Piece::Resident(_, range) => range.clone(),
            Piece::Bytes(bytes, Some(offset)) => *offset..offset + bytes.len() as u64,
            _ => return None,
        };
        self.bytes -= range.end - range.start;
        self.all.pop_back();
        Some(range)
    }

    /// Whether a window of a file waits.
    pub(super) fn has_window(&self) -> bool {
        matches!(self.all.back(), Some(Piece::Resident(..) | Piece::Bytes(_, Some(_))))
    }

    /// Writes one DATA frame with at most `bytes_max` bytes. Returns how many it has. The frame ends the stream if it has the
    /// body's last byte, or the trailers do that.
    pub(super) fn write_frame(&mut self, stream: u32, bytes_max: usize, output: &mut Output) -> usize {
        let length = self.bytes.min(bytes_max.min(PAYLOAD_BYTES_MAX) as u64);
        let ends = self.is_complete && length == self.bytes;
        let flags = if ends && !self.has_trailers() { flag::END_STREAM } else { 0 };
        let header = FrameHeader { length: length as u32, kind: kind::DATA, flags, stream };
        if length > 0 || flags > 0 {
            output.write(|out| out.extend_from_slice(&header.to_bytes()));
        }
        let mut left = length;
        while left > 0 {
            let Some(piece) = self.all.front_mut() else { break };
            let taken = piece.bytes().min(left);
            match piece {
                Piece::Bytes(bytes, offset) => {
                    if taken <= COPY_BYTES_MAX {
                        output.write(|out| out.extend_from_slice(&bytes[..taken as usize]));
                        bytes.advance(taken as usize);
                    } else {
                        output.push_copied(bytes.split_to(taken as usize), *offset);
                    }
                    *offset = offset.map(|offset| offset + taken);
                }
                Piece::Memory(file, range) => {
                    let start = range.start;
                    range.start += taken;
                    match &file.content {
                        Content::Memory(content) if taken <= COPY_BYTES_MAX => {
                            output.write(|out| {
                                out.extend_from_slice(&content[start as usize..range.start as usize]);
                            });
                        }
                        _ => output.push_memory(file, start..range.start),
                    }
                }
                Piece::Resident(file, range) => {
                    let start = range.start;
                    range.start += taken;
                    output.push_resident(file, start..range.start);
                }
            }
            if piece.bytes() == 0 {
                self.all.pop_front();
            }
            left -= taken;
        }
        self.bytes -= length;
        if ends && self.has_trailers() {
            let block = std::mem::take(&mut self.trailers);
            output.write(|out| frame::trailers(out, stream, &block));
        }
        length as usize
    }
}
