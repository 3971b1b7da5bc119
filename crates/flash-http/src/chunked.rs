//! Chunked bodies (RFC 9112 §7.1), read to be passed on or to be thrown away.
//!
//! A body on a GET means nothing, but where it ends decides where the next request begins. So the frame is read as
//! strictly as a head is; the data are counted. How many of them are too many, the caller knows.

use crate::{Reject, Status, scan};

/// Bytes of chunk extensions in one body; beyond it 400. They mean nothing to us, and could be sent without end.
pub const EXTENSION_BYTES_MAX: u32 = 4096;
/// Bytes of the trailer section, if nothing else is said; beyond it 431.
pub const TRAILER_BYTES_MAX: u32 = 8192;
/// As many as a size of 64 bits has.
const SIZE_DIGITS_MAX: u8 = 16;

/// A decoder that is fed a body piece by piece and keeps none of it.
#[derive(Clone, Copy, Debug)]
pub struct Chunked {
    state: ChunkState,
    extension_bytes: u32,
    trailer_bytes: u32,
    trailer_bytes_max: u32,
}

/// What one piece held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the piece that belong to this body: all of them, unless it is complete.
    pub consumed: usize,
    /// Of these, how many were data.
    pub data: usize,
    /// The last byte of the body was among them.
    pub complete: bool,
}

/// A part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'b> {
    Data(&'b [u8]),
    /// Bytes of trailer fields, which are whole lines together (RFC 9112 §7.1.2).
    Trailers(&'b [u8]),
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum ChunkState {
    Size { size: u64, digits: u8 },
    Extension { size: u64, within: Within },
    SizeLf { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    TrailerName { bytes: u32 },
    TrailerValue,
    TrailerLf,
    LastLf,
    Complete,
}

/// Where in a chunk extension (RFC 9112 §7.1.1).
#[derive(Clone, Copy, Debug)]
enum Within {
    Plain,
    Quoted,
    Escaped,
}

impl Default for Chunked {
    fn default() -> Chunked {
        Chunked::new()
    }
}

impl Chunked {
    pub const fn new() -> Chunked {
        Chunked::with_trailers(TRAILER_BYTES_MAX)
    }

    /// For a body whose trailer section has so many bytes at most.
    pub const fn with_trailers(trailer_bytes_max: u32) -> Chunked {
        let state = ChunkState::Size { size: 0, digits: 0 };
        Chunked { state, extension_bytes: 0, trailer_bytes: 0, trailer_bytes_max }
    }

    /// Reads on in the next piece. After an error the decoder is of no more use; after the end it consumes nothing.
    ///
    /// # Errors
    /// 400 for what RFC 9112 §7.1 forbids; 431 for a trailer section beyond its limit.
    pub fn decode(&mut self, input: &[u8]) -> Result<Progress, Reject> {
        self.read(input, |_| {})
    }

    /// The same; the body's parts go to `sink`, in pieces.
    ///
    /// # Errors
    /// As above.
    pub fn read(&mut self, input: &[u8], mut sink: impl FnMut(Part<'_>)) -> Result<Progress, Reject> {
        let mut at = 0;
        let mut data = 0;
        while at < input.len() {
            match self.state {
                ChunkState::Complete => break,
                ChunkState::Data { left } => {
                    let here = left.min((input.len() - at) as u64);
                    sink(Part::Data(&input[at..at + here as usize]));
                    at += here as usize;
                    data += here as usize;
                    self.state = match left - here {
                        0 => ChunkState::DataCr,
                        left => ChunkState::Data { left },
                    };
                }
                frame => {
                    self.state = self.frame(frame, input[at])?;
                    if frame.is_trailer() && !matches!(self.state, ChunkState::LastLf) {
                        sink(Part::Trailers(&input[at..=at]));
                    }
                    at += 1;
                }
            }
        }
        Ok(Progress { consumed: at, data, complete: matches!(self.state, ChunkState::Complete) })
    }

    /// One byte that is not data.
    fn frame(&mut self, state: ChunkState, byte: u8) -> Result<ChunkState, Reject> {
        match (state, byte) {
            (ChunkState::Size { digits: SIZE_DIGITS_MAX, .. }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                bad("a chunk's size has too many digits")
            }
            (ChunkState::Size { digits: 1.., size }, b'\r') => Ok(ChunkState::SizeLf { size }),
            (ChunkState::Size { digits: 1.., size }, b';') => {
                Ok(ChunkState::Extension { size, within: Within::Plain })
            }
            (ChunkState::Size { size, digits }, _) => match char::from(byte).to_digit(16) {
                Some(digit) => {
                    Ok(ChunkState::Size { size: size << 4 | u64::from(digit), digits: digits + 1 })
                }
                None => bad("a chunk's size is not a hexadecimal number"),
            },

            (ChunkState::Extension { size, within: Within::Plain }, b'\r') => Ok(ChunkState::SizeLf { size }),
            (ChunkState::Extension { size, within }, _) => {
                self.extension_bytes += 1;
                if self.extension_bytes > EXTENSION_BYTES_MAX {
                    return bad("too many bytes of chunk extensions");
                }
                Ok(ChunkState::Extension { size, within: within.next(byte)? })
            }

            // RFC 9112 §7.1: a chunk of no bytes is the last one.
            (ChunkState::SizeLf { size: 0 }, b'\n') => Ok(ChunkState::TrailerName { bytes: 0 }),
            (ChunkState::SizeLf { size }, b'\n') => Ok(ChunkState::Data { left: size }),
            (ChunkState::DataCr, b'\r') => Ok(ChunkState::DataLf),
            (ChunkState::DataLf, b'\n') => Ok(ChunkState::Size { size: 0, digits: 0 }),
            (ChunkState::DataCr | ChunkState::DataLf, _) => bad("a chunk is longer than its size"),

            (ChunkState::TrailerName { bytes: 0 }, b'\r') => Ok(ChunkState::LastLf),
            (ChunkState::LastLf, b'\n') => Ok(ChunkState::Complete),
            (ChunkState::TrailerName { .. } | ChunkState::TrailerValue | ChunkState::TrailerLf, _) => {
                self.trailer(state, byte)
            }

            (ChunkState::SizeLf { .. } | ChunkState::LastLf, _) => bad("a CR without its LF"),
            (ChunkState::Data { .. } | ChunkState::Complete, _) => unreachable!("not part of the frame"),
        }
    }

    /// One byte of a trailer field. They are checked as fields of a head are.
    fn trailer(&mut self, state: ChunkState, byte: u8) -> Result<ChunkState, Reject> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > self.trailer_bytes_max {
            return Err(Reject {
                status: Status::FIELDS_TOO_LARGE,
                reason: "the trailer section is too long",
            });
        }
        match (state, byte) {
            (ChunkState::TrailerName { bytes: 1.. }, b':') => Ok(ChunkState::TrailerValue),
            (ChunkState::TrailerName { bytes }, _) if scan::is_token(byte) => {
                Ok(ChunkState::TrailerName { bytes: bytes + 1 })
            }
            (ChunkState::TrailerName { .. }, _) => bad("a trailer's name is not a token"),
            (ChunkState::TrailerValue, b'\r') => Ok(ChunkState::TrailerLf),
            (ChunkState::TrailerValue, _) if scan::is_value(byte) => Ok(ChunkState::TrailerValue),
            (ChunkState::TrailerValue, _) => bad("a control character in a trailer"),
            (_, b'\n') => Ok(ChunkState::TrailerName { bytes: 0 }),
            _ => bad("a CR without its LF"),
        }
    }
}

impl ChunkState {
    fn is_trailer(self) -> bool {
        matches!(self, Self::TrailerName { .. } | Self::TrailerValue | Self::TrailerLf)
    }
}

impl Within {
    /// Names, values, and the blanks and marks between them; or the inside of a quoted string (RFC 9110 §5.6.4).
    fn next(self, byte: u8) -> Result<Within, Reject> {
        match (self, byte) {
            (Within::Plain, b'"') => Ok(Within::Quoted),
            (Within::Plain, b';' | b'=' | b' ' | b'\t') => Ok(Within::Plain),
            (Within::Plain, _) if scan::is_token(byte) => Ok(Within::Plain),
            (Within::Quoted, b'"') => Ok(Within::Plain),
            (Within::Quoted, b'\\') => Ok(Within::Escaped),
            (Within::Quoted | Within::Escaped, _) if scan::is_value(byte) => Ok(Within::Quoted),
            _ => bad("a chunk extension has a byte that it may not have"),
        }
    }
}

fn bad<T>(reason: &'static str) -> Result<T, Reject> {
    Err(Reject { status: Status::BAD_REQUEST, reason })
}

#[cfg(test)]
mod tests;
