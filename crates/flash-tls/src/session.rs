//! The TLS of one connection.
//!
//! The driver passes on what the socket has received, and sends what the session has to send. Plaintext is passed on at once.
//! Records that a socket does not take wait here: at most those of one call. An idle session holds no buffer.
//!
//! A step of a handshake costs up to half a millisecond of a processor. So [`Session::receive`] takes none: the driver chooses
//! when to call [`Session::step`].

mod hello;
mod records;

use std::io::IoSlice;
use std::mem;
use std::sync::Arc;

use flash_core::TlsInfo;
use flash_core::connection::transport::{ApplicationProtocol, CertificatesId, ClientCertificate};
pub use rustls::HandshakeKind;
use rustls::server::{Acceptor, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{CertificateError, Error};

use self::hello::Hello;
pub use self::records::PLAINTEXT_START;
use self::records::{RECORD_BYTES, RECORD_OVERHEAD, RECORD_WIRE_BYTES_MAX, Slices, drive, encode, encrypt};
use crate::client_certificates;
use crate::endpoint::{Endpoint, HTTP2};
use crate::scratch;
use crate::self_signed::ACME_TLS;

#[derive(Debug)]
pub struct Session {
    state: SessionState,
    /// The beginning of a record whose rest has not arrived, or what the next step of the handshake reads.
    incoming: Vec<u8>,
    /// How many bytes may wait there for their rest.
    unfinished_bytes_max: usize,
    /// The handshake can take a step.
    has_step: bool,
    /// Records that wait for the socket.
    outgoing: Vec<u8>,
    outgoing_sent: usize,
    /// How many records the next call of [`Session::seal`] makes at most.
    records_max: u8,
    /// What ends the stream of records has been written.
    is_closed: bool,
}

enum SessionState {
    /// The ClientHello has not arrived as a whole. A client that sends nothing costs no more than this.
    Hello,
    Handshake(Box<UnbufferedServerConnection>, CertificatesId),
    /// The client has sent early data. It gets responses before its handshake is complete.
    Early(Box<UnbufferedServerConnection>),
    Open(Box<UnbufferedServerConnection>),
    /// Only what is left in `outgoing` may be sent.
    Failed,
}

/// What the client's bytes have brought.
#[derive(Debug)]
pub enum Event<'a> {
    /// The client sends data before its handshake is complete. The rest is as with `Secured`.
    Early(TlsInfo, Option<Arc<ClientCertificate>>),
    /// The handshake is complete, after `Early`.
    Confirmed(HandshakeKind),
    /// The handshake is complete. The client may have shown a certificate, in this handshake or in the one that is resumed.
    Secured(TlsInfo, HandshakeKind, Option<Arc<ClientCertificate>>),
    Plaintext(&'a [u8]),
    /// The client has closed its side with a close_notify.
    End,
}

impl Event<'_> {
    /// How the handshake was that this event completes.
    pub fn completed(&self) -> Option<HandshakeKind> {
        match self {
            Event::Secured(_, kind, _) | Event::Confirmed(kind) => Some(*kind),
            Event::Early(..) | Event::Plaintext(_) | Event::End => None,
        }
    }
}

/// Why a session has failed. Its last words are in [`Session::outgoing`].
#[derive(Debug)]
pub enum Failure {
    /// The client speaks HTTP without TLS.
    PlainHttp,
    /// The client has shown no certificate, and one is required.
    NoClientCertificate,
    /// The client's certificate is not accepted.
    BadClientCertificate(CertificateError),
    Tls(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NoCertificatesPresented => Failure::NoClientCertificate,
            Error::InvalidCertificate(why) => Failure::BadClientCertificate(why),
            error => Failure::Tls(error),
        }
    }
}

/// The records that one call makes, and that may so wait for a slow client.
const RECORDS_MAX: u8 = 4;
/// During the handshake with a client that is asked for a certificate. With its authorities it is longer than a record.
const CHAIN_BYTES_MAX: usize = 32 << 10;
/// A ClientHello, and what its client has sent behind it, are no longer.
const FLIGHT_BYTES_MAX: usize = 64 << 10;
/// What a client is told whose ClientHello is too long: an illegal_parameter (RFC 8446 §6.2).
const TOO_LONG_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 47];

/// For a client that speaks HTTP to a port of TLS.
const PLAIN_HTTP: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nServer: Flash\r\nContent-Type: text/plain\r\nContent-Length: 53\r\n\
    Connection: close\r\n\r\nThis port speaks HTTPS. Use https:// in the address.\n";

impl Default for Session {
    fn default() -> Self {
        Self {
            state: SessionState::Hello,
            incoming: Vec::new(),
            unfinished_bytes_max: RECORD_WIRE_BYTES_MAX,
            has_step: false,
            outgoing: Vec::new(),
            outgoing_sent: 0,
            records_max: RECORDS_MAX,
            is_closed: false,
        }
    }
}

impl Session {
    /// Takes bytes of the client. `choose` returns the endpoint for a server name, if there is any, and learns whether an authority
    /// asks for that name (RFC 8737). Bytes of a handshake wait for its next [step](Session::step).
    ///
    /// # Errors
    /// If the session ends here. What is in [`Session::outgoing`] is to be sent all the same.
    pub fn receive(
        &mut self,
        ciphertext: &[u8],
        choose: impl FnOnce(Option<&str>, bool) -> Option<Arc<Endpoint>>,
        mut on: impl FnMut(Event<'_>),
    ) -> Result<(), Failure> {
        match self.state {
            SessionState::Failed => Ok(()),
            SessionState::Hello => {
                self.incoming.extend_from_slice(ciphertext);
                match self.hello(choose) {
                    Ok(is_complete) => {
                        self.has_step = is_complete;
                        Ok(())
                    }
                    Err(failure) => self.fail(failure),
                }
            }
            SessionState::Handshake(..) => {
                self.incoming.extend_from_slice(ciphertext);
                self.has_step = true;
                Ok(())
            }
            // What is left of a handshake with early data costs no more than a record.
            SessionState::Early(_) | SessionState::Open(_) if !self.incoming.is_empty() => {
                let mut bytes = mem::take(&mut self.incoming);
                bytes.extend_from_slice(ciphertext);
                self.process_all(&mut bytes, &mut on)
            }
            SessionState::Early(_) | SessionState::Open(_) => scratch::with(|scratch| {
                scratch.incoming.extend_from_slice(ciphertext);
                self.process_all(&mut scratch.incoming, &mut on)
            }),
        }
    }

    /// Whether the handshake can take a step.
    pub fn has_step(&self) -> bool {
        self.has_step
    }

    /// Takes a step of the handshake, with the bytes that were received.
    ///
    /// # Errors
    /// As for [`Session::receive`].
    pub fn step(&mut self, mut on: impl FnMut(Event<'_>)) -> Result<(), Failure> {
        if !mem::take(&mut self.has_step) {
            return Ok(());
        }
        let mut bytes = mem::take(&mut self.incoming);
        self.process_all(&mut bytes, &mut on)
    }

    /// Reads the ClientHello. Returns whether it is complete.
    fn hello(
        &mut self,
        choose: impl FnOnce(Option<&str>, bool) -> Option<Arc<Endpoint>>,
    ) -> Result<bool, Failure> {
        // A record of a handshake begins with 22 (RFC 8446 §5.1), and a method of HTTP with a letter.
        if self.incoming.first().is_some_and(u8::is_ascii_uppercase) {
            return Err(Failure::PlainHttp);
        }
        match Hello::in_records(&self.incoming) {
            Hello::Incomplete if self.incoming.len() <= self.unfinished_bytes_max => return Ok(false),
            Hello::Whole if self.incoming.len() <= FLIGHT_BYTES_MAX => {}
            _ => {
                self.outgoing.extend_from_slice(&TOO_LONG_ALERT);
                return Err(Error::PeerSentOversizedRecord.into());
            }
        }
        let (mut acceptor, mut bytes) = (Acceptor::default(), &self.incoming[..]);
        while !bytes.is_empty() {
            // It reads from memory, which cannot fail. It refuses to read more than a flight.
            acceptor.read_tls(&mut bytes).map_err(|_| Error::PeerSentOversizedRecord)?;
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    let is_challenge =
                        hello.alpn().is_some_and(|mut names| names.any(|name| name == ACME_TLS));
                    let endpoint = choose(hello.server_name(), is_challenge)
                        .ok_or_else(|| Error::General("there are no certificates".into()))?;
                    let tls = UnbufferedServerConnection::new(Arc::clone(&endpoint.config()))?;
                    if endpoint.asks_clients() {
                        self.unfinished_bytes_max = CHAIN_BYTES_MAX;
                    }
                    self.state = SessionState::Handshake(Box::new(tls), endpoint.id());
                    return Ok(true);
                }
                Err((error, mut alert)) => {
                    // A vector takes all.
                    let _ = alert.write_all(&mut self.outgoing);
                    return Err(error.into());
                }
            }
        }
        Ok(false)
    }

    /// Processes all whole records in `bytes`, and keeps the rest.
    fn process_all(&mut self, bytes: &mut [u8], on: &mut impl FnMut(Event<'_>)) -> Result<(), Failure> {
        match self.process(bytes, on) {
            Ok(used) if bytes.len() - used <= self.unfinished_bytes_max => {
                self.incoming = bytes[used..].to_vec();
                Ok(())
            }
            Ok(_) => self.fail(Error::PeerSentOversizedRecord.into()),
            Err(error) => {
                self.last_words();
                self.fail(error.into())
            }
        }
    }

    /// Returns how many bytes have been used.
    fn process(&mut self, bytes: &mut [u8], on: &mut impl FnMut(Event<'_>)) -> Result<usize, Error> {
        let mut used = 0;
        // Plaintext that came right behind the client's last message of the handshake.
        let mut first = Vec::new();
        loop {
            let is_open = self.is_open();
            let mut early = Vec::new();
            let (SessionState::Handshake(tls, _) | SessionState::Early(tls) | SessionState::Open(tls)) =
                &mut self.state
            else {
                return Ok(bytes.len());
            };
            let UnbufferedStatus { discard, state } = tls.process_tls_records(&mut bytes[used..]);
            used += discard;
            let goes_on = match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        used += record.discard;
                        match is_open {
                            true => on(Event::Plaintext(record.payload)),
                            false => first.extend_from_slice(record.payload),
                        }
                    }
                    true
                }
                ConnectionState::ReadEarlyData(mut data) => {
                    while let Some(record) = data.next_record() {
                        early.extend_from_slice(record?.payload);
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
                    on(Event::End);
                    true
                }
                // The rest of the bytes means nothing.
                ConnectionState::Closed => {
                    used = bytes.len();
                    false
                }
                _ => false,
            };
            if !early.is_empty() {
                self.takes_early_data(on);
                on(Event::Plaintext(&early));
            }
            if self.ends_handshake(on) && !first.is_empty() {
                on(Event::Plaintext(&mem::take(&mut first)));
            }
            if !goes_on {
                return Ok(used);
            }
        }
    }

    fn takes_early_data(&mut self, on: &mut impl FnMut(Event<'_>)) {
        if let SessionState::Handshake(tls, certificates) = &self.state {
            let tls_info = TlsInfo { is_early: true, ..info(tls, *certificates) };
            on(Event::Early(tls_info, client_certificate(tls)));
        }
        self.state = match mem::replace(&mut self.state, SessionState::Failed) {
            SessionState::Handshake(tls, _) => SessionState::Early(tls),
            state => state,
        };
    }

    /// Whether the handshake has just been completed.
    fn ends_handshake(&mut self, on: &mut impl FnMut(Event<'_>)) -> bool {
        let (SessionState::Handshake(tls, _) | SessionState::Early(tls)) = &self.state else { return false };
        if tls.is_handshaking() {
            return false;
        }
        let kind = tls.handshake_kind().unwrap_or(HandshakeKind::Full);
        on(match &self.state {
            SessionState::Handshake(tls, certificates) => {
                Event::Secured(info(tls, *certificates), kind, client_certificate(tls))
            }
            _ => Event::Confirmed(kind),
        });
        self.unfinished_bytes_max = RECORD_WIRE_BYTES_MAX;
        self.state = match mem::replace(&mut self.state, SessionState::Failed) {
            SessionState::Handshake(tls, _) | SessionState::Early(tls) => SessionState::Open(tls),
            state => state,
        };
        true
    }

    /// Writes the alert that a failure has left. While there is something to write, rustls reads none of the client's bytes, so
    /// they can be missing.
    fn last_words(&mut self) {
        while let SessionState::Handshake(tls, _) | SessionState::Early(tls) | SessionState::Open(tls) =
            &mut self.state
            && tls.wants_write()
        {
            let UnbufferedStatus { state: Ok(ConnectionState::EncodeTlsData(mut data)), .. } =
                tls.process_tls_records(&mut [])
            else {
                return;
            };
            if encode(&mut self.outgoing, |room| data.encode(room)).is_err() {
                return;
            }
        }
    }

    fn fail(&mut self, failure: Failure) -> Result<(), Failure> {
        if matches!(failure, Failure::PlainHttp) {
            self.outgoing.extend_from_slice(PLAIN_HTTP);
        }
        self.state = SessionState::Failed;
        self.incoming = Vec::new();
        self.has_step = false;
        self.is_closed = true;
        Err(failure)
    }

    /// Whether the handshake is complete.
    pub fn is_open(&self) -> bool {
        matches!(self.state, SessionState::Open(_))
    }

    /// The records that wait for the socket.
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing[self.outgoing_sent..]
    }

    /// The socket took this many bytes of [`Session::outgoing`].
    pub fn sent(&mut self, count: usize) {
        self.outgoing_sent += count;
        if self.outgoing_sent == self.outgoing.len() {
            self.outgoing = Vec::new();
            self.outgoing_sent = 0;
        }
    }

    /// How many bytes of plaintext the next call of [`Session::seal`] takes at most.
    pub fn seal_bytes_max(&self) -> usize {
        RECORD_BYTES * usize::from(self.records_max)
    }

    /// Makes records of the front of `slices`, and passes them to `send`, which returns how many bytes the socket took. The
    /// rest waits. Returns how many bytes of plaintext are in the records. `None` if the socket is broken, or if the session
    /// cannot encrypt any more. Called when no record waits.
    pub fn seal(
        &mut self,
        slices: &[IoSlice<'_>],
        send: impl FnOnce(&[u8]) -> Option<usize>,
    ) -> Option<usize> {
        debug_assert!(self.outgoing.is_empty(), "records leave in their order");
        let records_max = self.records_max;
        let (SessionState::Early(tls) | SessionState::Open(tls)) = &mut self.state else { return None };
        scratch::with(|scratch| {
            let mut sealed = 0;
            let mut rest = Slices { slices, at: 0 };
            for _ in 0..records_max {
                let Some(piece) = rest.record(&mut scratch.plaintext) else { break };
                sealed += piece.len();
                encrypt(tls, &mut self.incoming, piece, &mut scratch.outgoing).ok()?;
            }
            let taken = send(&scratch.outgoing)?;
            self.outgoing.extend_from_slice(&scratch.outgoing[taken..]);
            // A slow client gets one record at a time, so that few wait here.
            self.records_max = match self.outgoing.is_empty() {
                true => RECORDS_MAX.min(records_max * 2),
                false => 1,
            };
            Some(sealed)
        })
    }

    /// Adds a close_notify to the records that wait, once.
    pub fn close(&mut self) {
        if mem::replace(&mut self.is_closed, true) {
            return;
        }
        let (SessionState::Early(tls) | SessionState::Open(tls)) = &mut self.state else { return };
        let mut room = [0; RECORD_OVERHEAD];
        let written = drive(tls, &mut self.incoming, &mut self.outgoing, |traffic| {
            traffic.queue_close_notify(&mut room).ok()
        });
        if let Ok(Some(count)) = written {
            self.outgoing.extend_from_slice(&room[..count]);
        }
    }
}

/// What a handshake has agreed on.
fn info(tls: &UnbufferedServerConnection, certificates: CertificatesId) -> TlsInfo {
    TlsInfo {
        protocol: match tls.alpn_protocol() {
            Some(HTTP2) => ApplicationProtocol::Http2,
            _ => ApplicationProtocol::Http1,
        },
        certificates,
        version: tls.protocol_version().map_or(0, u16::from),
        cipher: tls.negotiated_cipher_suite().map_or(0, |suite| suite.suite().into()),
        has_client_certificate: tls.peer_certificates().is_some(),
        is_early: false,
    }
}

fn client_certificate(tls: &UnbufferedServerConnection) -> Option<Arc<ClientCertificate>> {
    let chain = tls.peer_certificates()?;
    client_certificates::describe(chain.first()?).map(Arc::new)
}

impl std::fmt::Debug for SessionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SessionState::Hello => "Hello",
            SessionState::Handshake(..) => "Handshake",
            SessionState::Early(_) => "Early",
            SessionState::Open(_) => "Open",
            SessionState::Failed => "Failed",
        })
    }
}

#[cfg(test)]
mod tests;
