//! Session tickets: a client brings its session back, to any loop and to any process of the server.
//!
//! All processes have the same keys without telling each other. A key is made of a secret that belongs to a period of six
//! hours. Each period's secret is a one-way function of the one before, which is forgotten. So what a process holds decrypts
//! tickets of this period and of the one before, and no older ones.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hmac, rand};

pub struct Tickets {
    /// Periods count from here, by a clock that nobody sets: with another one, keys could last for as long as it is wrong.
    started: Instant,
    state: Mutex<TicketsState>,
}

struct TicketsState {
    /// The number of the present period.
    period: u64,
    secret: [u8; 32],
    key: LessSafeKey,
    /// The key of the period before.
    previous: Option<LessSafeKey>,
}

const PERIOD: Duration = Duration::from_secs(6 * 3600);
/// The number of a ticket's period stands before its nonce.
const PERIOD_BYTES: usize = 8;

impl Tickets {
    /// A new secret. Processes that are forked later share it.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new() -> Result<Self, Unspecified> {
        let mut secret = [0; 32];
        rand::fill(&mut secret)?;
        let state = TicketsState { period: 0, key: key(&secret)?, secret, previous: None };
        Ok(Self { started: Instant::now(), state: Mutex::new(state) })
    }

    fn period(&self) -> u64 {
        self.started.elapsed().as_secs() / PERIOD.as_secs()
    }

    fn seal(&self, session: &[u8], of_whom: &[u8], period: u64) -> Result<Vec<u8>, Unspecified> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.advance(period)?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce)?;
        let mut sealed = session.to_vec();
        let number = state.period.to_be_bytes();
        state.key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from([&number[..], of_whom].concat()),
            &mut sealed,
        )?;
        Ok([&number[..], &nonce, &sealed].concat())
    }

    fn open(&self, ticket: &[u8], of_whom: &[u8], period: u64) -> Option<Vec<u8>> {
        let (number, rest) = ticket.split_first_chunk::<PERIOD_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.advance(period).ok()?;
        let issued = u64::from_be_bytes(*number);
        let key = match state.period.checked_sub(issued)? {
            0 => &state.key,
            1 => state.previous.as_ref()?,
            _ => return None,
        };
        let mut session = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length =
            key.open_in_place(nonce, Aad::from([number, of_whom].concat()), &mut session).ok()?.len();
        session.truncate(length);
        Some(session)
    }
}

impl TicketsState {
    /// Goes on to this period, and forgets the secrets before it.
    fn advance(&mut self, period: u64) -> Result<(), Unspecified> {
        while self.period < period {
            let next = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.secret), b"next period");
            self.secret.copy_from_slice(next.as_ref());
            self.previous = Some(std::mem::replace(&mut self.key, key(&self.secret)?));
            self.period += 1;
        }
        Ok(())
    }
}

fn key(secret: &[u8; 32]) -> Result<LessSafeKey, Unspecified> {
    let bytes = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), b"key of tickets");
    Ok(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes.as_ref())?))
}

/// The tickets of those who verify clients in the same way. Others cannot read them.
#[derive(Debug)]
pub(crate) struct OwnTickets {
    tickets: Arc<Tickets>,
    /// Authenticated with each ticket.
    of_whom: Vec<u8>,
}

impl OwnTickets {
    pub(crate) fn new(tickets: Arc<Tickets>, of_whom: Vec<u8>) -> Self {
        Self { tickets, of_whom }
    }

    /// A ticket of a period's last moment lasts for the whole next one.
    pub(crate) fn lifetime_seconds(&self) -> u32 {
        PERIOD.as_secs() as u32
    }

    /// A ticket for this session.
    pub(crate) fn seal(&self, session: &[u8]) -> Option<Vec<u8>> {
        self.tickets.seal(session, &self.of_whom, self.tickets.period()).ok()
    }

    /// The session of a ticket, unless it is of others, or too old.
    pub(crate) fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.tickets.open(ticket, &self.of_whom, self.tickets.period())
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a fork inherits.
    fn fork(of: &Tickets) -> Tickets {
        let state = of.state.lock().unwrap();
        let (period, secret) = (state.period, state.secret);
        let state = TicketsState { period, secret, key: key(&secret).unwrap(), previous: None };
        Tickets { started: of.started, state: Mutex::new(state) }
    }

    #[test]
    fn each_process_takes_the_tickets_of_the_others_in_this_period_and_the_next() {
        let parent = Tickets::new().unwrap();
        let now = parent.state.lock().unwrap().period;
        let (one, other) = (fork(&parent), fork(&parent));
        for issued in [now, now + 1, now + 7] {
            let ticket = one.seal(b"session", b"", issued).unwrap();
            assert_eq!(other.open(&ticket, b"", issued).as_deref(), Some(&b"session"[..]), "{issued}");
            assert_eq!(other.open(&ticket, b"", issued + 1).as_deref(), Some(&b"session"[..]), "{issued}");
            assert_eq!(other.open(&ticket, b"", issued + 2), None, "{issued}");
        }
    }

    #[test]
    fn what_is_no_ticket_of_this_server_is_none() {
        let tickets = Tickets::new().unwrap();
        let now = tickets.state.lock().unwrap().period;
        let ticket = tickets.seal(b"session", b"", now).unwrap();
        assert_eq!(Tickets::new().unwrap().open(&ticket, b"", now), None);
        for length in 0..ticket.len() {
            assert_eq!(tickets.open(&ticket[..length], b"", now), None, "{length}");
        }
        for at in 0..ticket.len() {
            let mut forged = ticket.clone();
            forged[at] ^= 1;
            assert_eq!(tickets.open(&forged, b"", now), None, "{at}");
        }
        assert!(tickets.open(&ticket, b"", now).is_some());
        assert_eq!(tickets.open(&ticket, b"another authority", now), None);
    }
}
