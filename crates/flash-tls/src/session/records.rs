//! Records of a session: plaintext in, ciphertext out. When they are made is the [session](super)'s business.

use std::io::IoSlice;

use rustls::Error;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};

/// The plaintext of a whole record (RFC 8446 §5.1).
pub(super) const RECORD_BYTES: usize = 16 << 10;
/// A record as it is sent is no longer (RFC 5246 §6.2.3).
pub(super) const RECORD_WIRE_BYTES_MAX: usize = 5 + RECORD_BYTES + 2048;
/// What encryption adds to a record at most: header, type, tag, and the explicit nonce of TLS 1.2.
pub(super) const RECORD_OVERHEAD: usize = 64;
/// Where plaintext begins in a buffer that is made for it. rustls copies it to a few bytes behind the start of a page. From about
/// the same place in another page, some processors of AMD take 20 times as long (glibc's bug 30994).
pub const PLAINTEXT_START: usize = 2 << 10;
const PAGE_BYTES: usize = 4 << 10;
/// Plaintext is slow to copy if it begins this near to the start of a page.
const SLOW_BYTES: usize = 16;

type Traffic<'c> = rustls::unbuffered::WriteTraffic<'c, rustls::server::ServerConnectionData>;

/// Appends what `encode` writes.
pub(super) fn encode(
    outgoing: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), Error> {
    let start = outgoing.len();
    let mut written = encode(&mut []);
    if let Err(EncodeError::InsufficientSize(error)) = &written {
        outgoing.resize(start + error.required_size, 0);
        written = encode(&mut outgoing[start..]);
    }
    let count = written.map_err(|_| Error::EncryptError)?;
    outgoing.truncate(start + count);
    Ok(())
}

/// Encrypts a piece of at most a record.
pub(super) fn encrypt(
    tls: &mut UnbufferedServerConnection,
    incoming: &mut Vec<u8>,
    piece: &[u8],
    outgoing: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut waiting = Vec::new();
    let start = outgoing.len();
    let result = drive(tls, incoming, &mut waiting, |traffic| {
        outgoing.resize(start + piece.len() + RECORD_OVERHEAD, 0);
        match traffic.encrypt(piece, &mut outgoing[start..]) {
            Ok(count) => Ok(count),
            // A message of the handshake goes before the piece.
            Err(rustls::unbuffered::EncryptError::InsufficientSize(error)) => {
                outgoing.resize(start + error.required_size, 0);
                traffic.encrypt(piece, &mut outgoing[start..])
            }
            Err(error) => Err(error),
        }
    })?;
    let count = result.map_err(|_| Error::EncryptError)?;
    outgoing.truncate(start + count);
    if !waiting.is_empty() {
        outgoing.splice(start..start, waiting);
    }
    Ok(())
}

/// Brings the session to where it may encrypt, and calls `write`. Messages of the handshake that come before are appended to
/// `outgoing`. `incoming` is the beginning of a record, which the session may have looked at.
pub(super) fn drive<T>(
    tls: &mut UnbufferedServerConnection,
    incoming: &mut Vec<u8>,
    outgoing: &mut Vec<u8>,
    write: impl FnOnce(&mut Traffic<'_>) -> T,
) -> Result<T, Error> {
    loop {
        let UnbufferedStatus { discard, state } = tls.process_tls_records(incoming);
        match state? {
            ConnectionState::WriteTraffic(mut traffic) => return Ok(write(&mut traffic)),
            ConnectionState::EncodeTlsData(mut data) => encode(outgoing, |room| data.encode(room))?,
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::PeerClosed => {}
            _ => return Err(Error::HandshakeNotComplete),
        }
        incoming.drain(..discard);
    }
}

/// The plaintext that is left.
pub(super) struct Slices<'a> {
    pub(super) slices: &'a [IoSlice<'a>],
    /// How many bytes of the first slice have been taken.
    pub(super) at: usize,
}

impl<'a> Slices<'a> {
    /// The plaintext of the next record: a part of one slice as it is, or the beginnings of several in `buffer`. A slice that is
    /// slow to copy goes through `buffer`, too.
    pub(super) fn record<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        let (first, others) = self.slices.split_first()?;
        let slice: &'a [u8] = &first[self.at..];
        if (slice.len() >= RECORD_BYTES || others.is_empty()) && !is_slow(slice) {
            let count = slice.len().min(RECORD_BYTES);
            self.take(count);
            return Some(&slice[..count]).filter(|piece| !piece.is_empty());
        }
        let end = PLAINTEXT_START + RECORD_BYTES;
        buffer.clear();
        buffer.reserve(end);
        buffer.resize(PLAINTEXT_START, 0);
        while buffer.len() < end
            && let Some(slice) = self.slices.first()
        {
            let slice = &slice[self.at..];
            let count = slice.len().min(end - buffer.len());
            buffer.extend_from_slice(&slice[..count]);
            self.take(count);
        }
        Some(&buffer[PLAINTEXT_START..]).filter(|piece| !piece.is_empty())
    }

    /// `count` bytes of the first slice are taken.
    fn take(&mut self, count: usize) {
        self.at += count;
        if self.slices.first().is_some_and(|slice| slice.len() == self.at) {
            self.slices = &self.slices[1..];
            self.at = 0;
        }
    }
}

/// Whether a slice begins where it is slow to copy, and is long enough for that.
fn is_slow(slice: &[u8]) -> bool {
    let from_start = slice.as_ptr().addr().wrapping_add(SLOW_BYTES) % PAGE_BYTES;
    from_start < 2 * SLOW_BYTES && slice.len() >= PAGE_BYTES / 2
}
