//! One encoder for all codings.

use std::fmt;
use std::io::{self, Write};

use flash_http::negotiate::Coding;

/// How much time is spent for fewer bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// The bytes are compressed once, and sent often.
    Stored,
    /// The bytes are compressed for one client, while it waits.
    Streamed,
}

/// Takes bytes, and gives the same bytes in a coding. What it gives waits in the encoder until it is [taken](Encoder::take).
pub struct Encoder(Inner);

enum Inner {
    Br(Box<brotli::CompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Gzip(Box<flate2::write::GzEncoder<Vec<u8>>>),
}

/// The encoder has no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// Brotli's own buffer for output.
const BROTLI_BUFFER_BYTES: usize = 4 << 10;
/// Windows of streams are this large at most: an answer of a program is rarely larger, and each connection may have one.
const STREAM_WINDOW_BITS: u32 = 16;
/// RFC 9659 §3: a client need not decode a larger window of zstd than 8 MiB. Larger windows gain little.
const STORED_WINDOW_BITS: u32 = 22;
const WINDOW_BITS_MIN: u32 = 16;

impl Encoder {
    /// `bytes` is how many there will be, if that is known.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(coding: Coding, effort: Effort, bytes: Option<u64>) -> Result<Self, Failed> {
        let bits = window_bits(effort, bytes);
        let inner = match coding {
            Coding::Br => {
                let quality = match effort {
                    Effort::Stored => 6,
                    Effort::Streamed => 4,
                };
                let out = Vec::new();
                Inner::Br(Box::new(brotli::CompressorWriter::new(out, BROTLI_BUFFER_BYTES, quality, bits)))
            }
            Coding::Zstd => {
                let level = match effort {
                    Effort::Stored => 9,
                    Effort::Streamed => 3,
                };
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level)?;
                encoder.window_log(bits)?;
                encoder.set_pledged_src_size(bytes)?;
                Inner::Zstd(encoder)
            }
            Coding::Gzip => {
                let level = match effort {
                    Effort::Stored => 6,
                    Effort::Streamed => 4,
                };
                Inner::Gzip(Box::new(flate2::write::GzEncoder::new(
                    Vec::new(),
                    flate2::Compression::new(level),
                )))
            }
        };
        Ok(Self(inner))
    }

    /// How much memory an encoder holds at most.
    pub fn memory_bytes(coding: Coding, effort: Effort, bytes: Option<u64>) -> u64 {
        let window = 1 << window_bits(effort, bytes);
        match (coding, effort) {
            (Coding::Br, _) => 4 * window + (1 << 20),
            (Coding::Zstd, _) => 4 * window + (1 << 20),
            (Coding::Gzip, _) => 512 << 10,
        }
    }

    /// How many bytes may be written to a stream before it is flushed. Some codings compress them all at once.
    pub const fn bytes_between_flushes(coding: Coding) -> usize {
        match coding {
            Coding::Br => 4 << 10,
            Coding::Zstd | Coding::Gzip => 16 << 10,
        }
    }

    /// # Errors
    /// If there is no memory, or if there are more bytes than were said.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        Ok(self.writer().write_all(bytes)?)
    }

    /// Has the client able to decode everything that was written.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn flush(&mut self) -> Result<(), Failed> {
        Ok(self.writer().flush()?)
    }

    /// The bytes that the encoder has made since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(match &mut self.0 {
            Inner::Br(encoder) => encoder.get_mut(),
            Inner::Zstd(encoder) => encoder.get_mut(),
            Inner::Gzip(encoder) => encoder.get_mut(),
        })
    }

    /// How many bytes [`Encoder::take`] would return.
    pub fn made(&self) -> usize {
        match &self.0 {
            Inner::Br(encoder) => encoder.get_ref().len(),
            Inner::Zstd(encoder) => encoder.get_ref().len(),
            Inner::Gzip(encoder) => encoder.get_ref().len(),
        }
    }

    /// Ends the coding, and returns the bytes that were not taken.
    ///
    /// # Errors
    /// If there is no memory, or if there are fewer bytes than were said.
    pub fn finish(self) -> Result<Vec<u8>, Failed> {
        Ok(match self.0 {
            Inner::Br(encoder) => encoder.into_inner(),
            Inner::Zstd(encoder) => encoder.finish()?,
            Inner::Gzip(encoder) => encoder.finish()?,
        })
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            Inner::Br(encoder) => encoder,
            Inner::Zstd(encoder) => encoder,
            Inner::Gzip(encoder) => encoder,
        }
    }
}

fn window_bits(effort: Effort, bytes: Option<u64>) -> u32 {
    let bits_max = match effort {
        Effort::Stored => STORED_WINDOW_BITS,
        Effort::Streamed => STREAM_WINDOW_BITS,
    };
    bytes.map_or(bits_max, |bytes| (bytes.max(1).ilog2() + 1).clamp(WINDOW_BITS_MIN, bits_max))
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Inner::Br(_) => "Encoder(br)",
            Inner::Zstd(_) => "Encoder(zstd)",
            Inner::Gzip(_) => "Encoder(gzip)",
        })
    }
}

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use proptest::prelude::*;

    fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match coding {
            Coding::Br => _ = brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain).unwrap(),
            Coding::Zstd => plain = zstd::stream::decode_all(bytes).unwrap(),
            Coding::Gzip => _ = flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap(),
        }
        plain
    }

    fn begun(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        // What a client can decode of a beginning: each decoder gives all it can before it fails.
        let mut plain = Vec::new();
        let mut buffer = [0; 1 << 16];
        let mut reader: Box<dyn Read + '_> = match coding {
            Coding::Br => Box::new(brotli::Decompressor::new(bytes, 4096)),
            Coding::Zstd => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
            Coding::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
        };
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            plain.extend_from_slice(&buffer[..count]);
        }
        plain
    }

    #[test]
    fn text_is_smaller_and_comes_back() {
        let text = "To be, or not to be, that is the question: ".repeat(500);
        for coding in Coding::ALL {
            for effort in [Effort::Stored, Effort::Streamed] {
                let mut encoder = Encoder::new(coding, effort, Some(text.len() as u64)).unwrap();
                encoder.write(text.as_bytes()).unwrap();
                let coded = encoder.finish().unwrap();
                assert!(coded.len() < text.len() / 20, "{coding:?} {effort:?}: {}", coded.len());
                assert_eq!(decoded(coding, &coded), text.as_bytes());
            }
        }
    }

    #[test]
    fn what_is_flushed_can_be_decoded_at_once() {
        for coding in Coding::ALL {
            let mut encoder = Encoder::new(coding, Effort::Streamed, None).unwrap();
            let mut sent = Vec::new();
            for (number, line) in ["first line\n", "second line\n"].into_iter().enumerate() {
                encoder.write(line.as_bytes()).unwrap();
                encoder.flush().unwrap();
                sent.extend(encoder.take());
                let expected = ["first line\n", "first line\nsecond line\n"][number];
                assert_eq!(begun(coding, &sent), expected.as_bytes(), "{coding:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_cut_come_back(
            bytes in prop::collection::vec(any::<u8>(), 0..5000),
            cuts in prop::collection::vec((0..5000_usize, any::<bool>()), 0..6),
        ) {
            for coding in Coding::ALL {
                let mut encoder = Encoder::new(coding, Effort::Streamed, None).unwrap();
                let (mut rest, mut coded) = (&bytes[..], Vec::new());
                for (cut, flushes) in &cuts {
                    let (now, later) = rest.split_at(rest.len().min(*cut));
                    encoder.write(now).unwrap();
                    if *flushes {
                        encoder.flush().unwrap();
                        coded.extend(encoder.take());
                    }
                    rest = later;
                }
                encoder.write(rest).unwrap();
                coded.extend(encoder.finish().unwrap());
                prop_assert_eq!(&decoded(coding, &coded), &bytes);
            }
        }
    }
}
