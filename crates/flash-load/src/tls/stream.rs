//! One connection's TLS above its socket. Records that the socket does not take wait here, and so does the beginning of one that
//! has not arrived whole.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{Error, HandshakeKind};

use crate::received::{Failed, Received, Secured};

pub(crate) struct TlsStream {
    socket: OwnedFd,
    session: UnbufferedClientConnection,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    has_begun: bool,
    is_open: bool,
    /// The server has said that nothing follows.
    has_ended: bool,
}

/// ALPN's name of HTTP/2 (RFC 7301 §6).
pub(super) const HTTP2: &[u8] = b"h2";
/// The plaintext of a whole record (RFC 8446 §5.1).
const RECORD_BYTES: usize = 16 << 10;
/// What encryption adds to a record at most.
const RECORD_OVERHEAD: usize = 64;
/// Records of one call.
const RECORDS_MAX: usize = 4;

impl TlsStream {
    pub(crate) fn new(socket: OwnedFd, session: UnbufferedClientConnection) -> TlsStream {
        let (incoming, outgoing) = (Vec::new(), Vec::new());
        TlsStream { socket, session, incoming, outgoing, has_begun: false, is_open: false, has_ended: false }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(crate) fn waits(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Takes as many bytes as become records now. Before the end of the handshake none do.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        if !self.is_open {
            if !std::mem::replace(&mut self.has_begun, true) {
                // The ClientHello.
                self.process(&mut [], &mut []).map_err(|_| Errno::PROTO)?;
            }
            self.flush()?;
            return Err(Errno::AGAIN);
        }
        self.flush()?;
        let mut taken = 0;
        for piece in bytes.chunks(RECORD_BYTES).take(RECORDS_MAX) {
            self.encrypt(piece).map_err(|_| Errno::PROTO)?;
            taken += piece.len();
        }
        match self.flush() {
            Ok(()) | Err(Errno::AGAIN) => Ok(taken),
            Err(error) => Err(error),
        }
    }

    /// Receives up to `room` bytes, and decrypts what they complete into `buffer`. `scratch` is as long as `buffer`.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        room: usize,
        scratch: &mut [u8],
    ) -> Result<Received, Failed> {
        let kept = self.incoming.len();
        scratch[..kept].copy_from_slice(&self.incoming);
        let room = room.min(scratch.len() - kept);
        let received =
            retry_on_intr(|| recv(&self.socket, &mut scratch[kept..kept + room], RecvFlags::empty()));
        let bytes = received?.1;
        let was_open = self.is_open;
        let processed = self.process(&mut scratch[..kept + bytes], buffer);
        let (used, plaintext) = processed.map_err(|_| {
            // The alert says why, if anybody still reads it.
            let _ = self.flush();
            Failed::Tls
        })?;
        self.incoming.clear();
        self.incoming.extend_from_slice(&scratch[used..kept + bytes]);
        // If the socket is full or broken, a later event says so.
        let _ = self.flush();
        let secured = (self.is_open && !was_open).then(|| Secured {
            is_resumed: self.session.handshake_kind() == Some(HandshakeKind::Resumed),
            is_http2: self.session.alpn_protocol() == Some(HTTP2),
        });
        Ok(Received { bytes, plaintext, is_all: bytes < room, secured })
    }

    /// Says that nothing follows.
    pub(crate) fn close(&mut self) {
        if !self.is_open || self.waits() {
            return;
        }
        let mut room = [0; RECORD_OVERHEAD];
        if let Ok(Ok(count)) = self.drive(|traffic| traffic.queue_close_notify(&mut room)) {
            self.outgoing.extend_from_slice(&room[..count]);
            let _ = self.flush();
        }
    }

    fn flush(&mut self) -> Result<(), Errno> {
        while !self.outgoing.is_empty() {
            match send(&self.socket, &self.outgoing, SendFlags::NOSIGNAL) {
                Ok(sent) => _ = self.outgoing.drain(..sent),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Processes whole records. Returns how many bytes were used, and how many bytes of plaintext they had.
    fn process(&mut self, bytes: &mut [u8], buffer: &mut [u8]) -> Result<(usize, usize), Error> {
        let (mut used, mut written) = (0, 0);
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.session.process_tls_records(&mut bytes[used..]);
            let state = match state {
                Ok(state) => state,
                Err(error) => {
                    self.last_words();
                    return Err(error);
                }
            };
            let goes_on = match state {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        // A record is longer than its plaintext, so there is room.
                        buffer[written..written + record.payload.len()].copy_from_slice(record.payload);
                        written += record.payload.len();
                    }
                    true
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(&mut self.outgoing, |room| data.encode(room))?;
                    true
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    true
                }
                ConnectionState::PeerClosed => {
                    self.has_ended = true;
                    true
                }
                ConnectionState::Closed => return Ok((bytes.len(), written)),
                _ => false,
            };
            used += discard;
            if !goes_on {
                self.is_open = !self.session.is_handshaking();
                return Ok((used, written));
            }
        }
    }

    /// Writes the alert that a failure has left. The session must not look at its input again: it would fail a second time.
    fn last_words(&mut self) {
        while self.session.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(mut data)) =
                self.session.process_tls_records(&mut []).state
            && encode(&mut self.outgoing, |room| data.encode(room)).is_ok()
        {}
    }

    /// Appends the record of a piece.
    fn encrypt(&mut self, piece: &[u8]) -> Result<(), Error> {
        let mut room = vec![0; piece.len() + RECORD_OVERHEAD];
        let written = self.drive(|traffic| match traffic.encrypt(piece, &mut room) {
            // A message of the handshake goes before the piece.
            Err(EncryptError::InsufficientSize(error)) => {
                room.resize(error.required_size, 0);
                traffic.encrypt(piece, &mut room)
            }
            other => other,
        })?;
        let count = written.map_err(|_| Error::EncryptError)?;
        self.outgoing.extend_from_slice(&room[..count]);
        Ok(())
    }

    /// Brings the session to where it may encrypt, and calls `write`.
    fn drive<T>(
        &mut self,
        write: impl FnOnce(&mut WriteTraffic<'_, ClientConnectionData>) -> T,
    ) -> Result<T, Error> {
        loop {
            let UnbufferedStatus { discard, state } = self.session.process_tls_records(&mut self.incoming);
            match state? {
                ConnectionState::WriteTraffic(mut traffic) => return Ok(write(&mut traffic)),
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(&mut self.outgoing, |room| data.encode(room))?;
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.has_ended = true,
                _ => return Err(Error::HandshakeNotComplete),
            }
            self.incoming.drain(..discard);
        }
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Appends what `encode` writes.
fn encode(
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
