//! Chunked bodies (RFC 9112 §7.1): where the data lie between the frames, and where the last one ends.

use super::bad::Bad;

/// Digits, extensions or a trailer line; what is longer is no chunked body.
const LINE_BYTES_MAX: u32 = 8192;
/// More than any file has.
const SIZE_MAX: u64 = 1 << 60;

#[derive(Clone, Copy)]
pub(super) enum Chunks {
    Size {
        size: u64,
        digits: u32,
    },
    /// What follows the size up to the line's end.
    Extension {
        size: u64,
        bytes: u32,
    },
    Data {
        left: u64,
    },
    /// The CR and the LF after data.
    DataEnd {
        lf: bool,
    },
    /// A line of the trailer; an empty one is the end.
    Trailer {
        bytes: u32,
    },
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks::Size { size: 0, digits: 0 }
    }
}

impl Chunks {
    /// Takes bytes, hands on the data among them: how many belonged to this body, and whether it is complete.
    pub(super) fn feed(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<(usize, bool), Bad> {
        let mut at = 0;
        while at < bytes.len() {
            if let Chunks::Data { left } = *self {
                let here = (bytes.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
                data(&bytes[at..at + here]);
                at += here;
                let left = left - here as u64;
                *self = if left == 0 { Chunks::DataEnd { lf: false } } else { Chunks::Data { left } };
                continue;
            }
            let byte = bytes[at];
            at += 1;
            *self = match (*self, byte) {
                (Chunks::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                    let digit = (byte as char).to_digit(16).ok_or(Bad)?;
                    if size >= SIZE_MAX >> 4 {
                        return Err(Bad);
                    }
                    Chunks::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
                }
                (Chunks::Size { digits: 0, .. }, _) => return Err(Bad),
                (Chunks::Size { size, .. } | Chunks::Extension { size, .. }, b'\n') => match size {
                    0 => Chunks::Trailer { bytes: 0 },
                    left => Chunks::Data { left },
                },
                (Chunks::Size { size, .. }, b'\r' | b';' | b' ' | b'\t') => {
                    Chunks::Extension { size, bytes: 0 }
                }
                (Chunks::Extension { size, bytes }, _) if bytes < LINE_BYTES_MAX => {
                    Chunks::Extension { size, bytes: bytes + 1 }
                }
                (Chunks::DataEnd { lf: false }, b'\r') => Chunks::DataEnd { lf: true },
                (Chunks::DataEnd { .. }, b'\n') => Chunks::default(),
                (Chunks::Trailer { bytes: 0 }, b'\n') => return Ok((at, true)),
                (Chunks::Trailer { .. }, b'\n') => Chunks::Trailer { bytes: 0 },
                // Not counted, so that an empty line is one.
                (Chunks::Trailer { bytes }, b'\r') => Chunks::Trailer { bytes },
                (Chunks::Trailer { bytes }, _) if bytes < LINE_BYTES_MAX => {
                    Chunks::Trailer { bytes: bytes + 1 }
                }
                _ => return Err(Bad),
            };
        }
        Ok((at, false))
    }
}
