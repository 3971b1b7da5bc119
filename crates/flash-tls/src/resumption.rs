//! Which sessions may be resumed: those whose clients' certificates are still valid, and that are of no unusual length.
//!
//! A resumed session takes the client's certificates from its first handshake, and rustls does not look at them again. Who signs
//! them cannot change: the [tickets](crate::tickets) of other authorities cannot be read. But their time passes.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

use crate::tickets::OwnTickets;

/// A client sends its session with its ClientHello. With a longer one that would be too long.
const SESSION_BYTES_MAX: usize = 8 << 10;

/// Sessions in tickets.
#[derive(Debug)]
pub(crate) struct TicketSessions(pub(crate) OwnTickets);

impl ProducesTickets for TicketSessions {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime_seconds()
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        (session.len() <= SESSION_BYTES_MAX).then(|| self.0.seal(session))?
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.0.open(ticket).filter(|session| may_resume(session, SystemTime::now()))
    }
}

/// Sessions in the server's memory.
#[derive(Debug)]
pub(crate) struct StoredSessions(pub(crate) Arc<ServerSessionMemoryCache>);

impl StoresServerSessions for StoredSessions {
    fn put(&self, key: Vec<u8>, session: Vec<u8>) -> bool {
        session.len() <= SESSION_BYTES_MAX && self.0.put(key, session)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).filter(|session| may_resume(session, SystemTime::now()))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.take(key).filter(|session| may_resume(session, SystemTime::now()))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Whether all certificates that the session's client has shown are valid at this time. A session in an unknown form is not resumed.
fn may_resume(session: &[u8], now: SystemTime) -> bool {
    let is_valid = |certificate: &[u8]| {
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = ASN1Time::from_timestamp(seconds as i64).ok()?;
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        Some(certificate.validity().is_valid_at(now))
    };
    certificates(session)
        .is_some_and(|mut shown| shown.all(|certificate| is_valid(certificate) == Some(true)))
}

/// The certificates in a session, as rustls writes it (`ServerSessionValue` in its `persist.rs`). `None` in any other form.
fn certificates(session: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let mut fields = Fields(session);
    // The name that the client has asked for.
    fields.optional(|fields| fields.counted(1))?;
    // Version and cipher suite.
    fields.take(2 + 2)?;
    let _secret = fields.counted(1)?;
    let _extended = fields.take(1)?;
    let mut chain = Fields(fields.optional(|fields| fields.counted(3))?.unwrap_or_default());
    let _protocol = fields.optional(|fields| fields.counted(1))?;
    let _application_data = fields.counted(2)?;
    // When the session began, and what hides the ticket's age.
    fields.take(8 + 4)?;
    let mut shown = Vec::new();
    while !chain.0.is_empty() {
        shown.push(chain.counted(3)?);
    }
    fields.0.is_empty().then(|| shown.into_iter())
}

/// What is left of a session.
struct Fields<'s>(&'s [u8]);

impl<'s> Fields<'s> {
    fn take(&mut self, count: usize) -> Option<&'s [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Bytes behind their number, which has so many bytes itself.
    fn counted(&mut self, count_bytes: usize) -> Option<&'s [u8]> {
        let count = self.take(count_bytes)?.iter().fold(0, |count, &byte| count << 8 | usize::from(byte));
        self.take(count)
    }

    /// A field that may be missing.
    fn optional<T>(&mut self, field: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.take(1)? {
            [0] => Some(None),
            [1] => field(self).map(Some),
            _ => None,
        }
    }
}
