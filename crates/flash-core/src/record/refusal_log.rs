//! The lines of the error log about what is refused, and how many there may be.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::record::Peer;
use crate::record::refusal::Refusal;

/// What is refused, for a line. What clients choose comes last, so that it can stand for nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    pub client: Peer,
    /// The [number](crate::site::Site::counted_as) of the site. `None` for a connection without a request.
    pub site: Option<u32>,
    /// The name of a log-in.
    pub user: Option<&'a [u8]>,
    /// As the client has sent it. Empty for a connection without a request.
    pub path: &'a [u8],
    /// With the status in front of it, or `closed`.
    pub reason: &'a str,
    /// How many more got no line since the last one with this cause.
    pub unsaid: u64,
}

/// Writes lines for refusals. Each cause has a line for each client of a site every ten seconds, and failed log-ins have five in a
/// second. Whatever clients do, a cause has no more than [`LINES_MAX`] in a second, in each process.
pub struct RefusalLog {
    log: Box<dyn Fn(&Refused<'_>) + Send + Sync>,
    hasher: RandomState,
    /// When the next line of such a cause, site and client is due, in the server's milliseconds. The first bits tell which it is.
    due: Box<[AtomicU64]>,
    causes: [Cause; Refusal::ALL.len()],
}

#[derive(Default)]
struct Cause {
    /// The second of the last line, and how many there were in it.
    in_second: AtomicU64,
    /// How many refusals got no line since the last one.
    unsaid: AtomicU64,
}

const EVERY_MS: u64 = 10_000;
/// Of a client's failed log-ins.
const LOGIN_EVERY_MS: u64 = 200;
/// A longer path is cut.
const PATH_MAX: usize = 256;
const LINES_MAX: u64 = 50;
/// Clients beyond these take each other's places, and have more lines.
const CLIENTS_MAX: usize = 4096;
/// 34 years, in the server's milliseconds.
const TIME_BITS: u32 = 40;

impl RefusalLog {
    pub fn new(log: impl Fn(&Refused<'_>) + Send + Sync + 'static) -> Self {
        let due = (0..CLIENTS_MAX).map(|_| AtomicU64::new(0)).collect();
        Self { log: Box::new(log), hasher: RandomState::new(), due, causes: Default::default() }
    }

    /// Notes that a connection was refused. `what` says more about it.
    pub fn note_connection(&self, refusal: Refusal, client: Peer, what: &[u8], now_ms: u64) {
        self.note(refusal, (client, None), (None, what), now_ms);
    }

    pub(crate) fn note(
        &self,
        refusal: Refusal,
        (client, site): (Peer, Option<u32>),
        (user, path): (Option<&[u8]>, &[u8]),
        now_ms: u64,
    ) {
        let cause = &self.causes[refusal as usize];
        // Attempts count for what keeps guessers out.
        let every_ms = if refusal == Refusal::WrongLogin { LOGIN_EVERY_MS } else { EVERY_MS };
        let second = now_ms / 1000;
        let is_said = !cause.is_full(second)
            && self.is_due(refusal, (client, site), every_ms, now_ms)
            && cause.has_room(second);
        if !is_said {
            cause.unsaid.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let unsaid = cause.unsaid.swap(0, Ordering::Relaxed);
        (self.log)(&Refused { client, site, user, path, reason: refusal.reason(), unsaid });
    }

    fn is_due(
        &self,
        refusal: Refusal,
        (client, site): (Peer, Option<u32>),
        every_ms: u64,
        now_ms: u64,
    ) -> bool {
        let address = match client {
            Peer::Inet(address) => Some(address.ip()),
            Peer::Unix => None,
        };
        let hash = self.hasher.hash_one((refusal as u8, site, address));
        let place = &self.due[hash as usize % CLIENTS_MAX];
        let which = hash >> TIME_BITS << TIME_BITS;
        let before = place.load(Ordering::Relaxed);
        let is_waiting = before >> TIME_BITS << TIME_BITS == which && now_ms < before ^ which;
        let next = which | (now_ms + every_ms);
        !is_waiting && place.compare_exchange(before, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Cause {
    /// Whether all lines of this second are written.
    fn is_full(&self, second: u64) -> bool {
        let before = self.in_second.load(Ordering::Relaxed);
        before >> 8 == second && before & 0xff >= LINES_MAX
    }

    /// Whether another line may be written in this second.
    fn has_room(&self, second: u64) -> bool {
        let next = |before: u64| match before >> 8 == second {
            true => (before & 0xff < LINES_MAX).then_some(before + 1),
            false => Some(second << 8 | 1),
        };
        self.in_second.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

impl<'a> Refused<'a> {
    /// As a line says it, for a site of this name.
    #[must_use]
    pub fn text(&'a self, site: Option<&'a str>) -> RefusedText<'a> {
        RefusedText { refused: self, site }
    }
}

/// `client 192.0.2.7, site www.example.org, user "bob", /a: 401: …`.
#[derive(Debug)]
pub struct RefusedText<'a> {
    refused: &'a Refused<'a>,
    site: Option<&'a str>,
}

impl fmt::Display for RefusedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { client, user, path, reason, unsaid, .. } = self.refused;
        write!(f, "client {client}")?;
        self.site.iter().try_for_each(|site| write!(f, ", site {site}"))?;
        user.iter().try_for_each(|user| write!(f, ", user \"{}\"", user.escape_ascii()))?;
        if !path.is_empty() {
            let (shown, rest) = path.split_at(path.len().min(PATH_MAX));
            write!(f, ", {}{}", shown.escape_ascii(), if rest.is_empty() { "" } else { "…" })?;
        }
        write!(f, ": {reason}")?;
        match unsaid {
            0 => Ok(()),
            more => write!(f, " ({more} more of these since the last line)"),
        }
    }
}

impl Default for RefusalLog {
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl fmt::Debug for RefusalLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusalLog").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn client(last: u8) -> Peer {
        Peer::Inet(([192, 0, 2, last], 80).into())
    }

    /// A log, and its lines.
    fn log() -> (RefusalLog, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&lines);
        let log = RefusalLog::new(move |refused| {
            let site = refused.site.map(|site| format!("s{site}.example"));
            written.lock().unwrap().push(refused.text(site.as_deref()).to_string());
        });
        (log, lines)
    }

    #[test]
    fn each_cause_has_lines_for_each_client_of_each_site() {
        let (log, lines) = log();
        for (refusal, last, site, path, ms) in [
            (Refusal::Permission, 1, 1, "/a", 0),
            (Refusal::Permission, 1, 1, "/b", 10),
            (Refusal::Permission, 2, 1, "/c", 20),
            (Refusal::Permission, 1, 2, "/d", 30),
            (Refusal::BodyTooLarge, 1, 1, "/e", 40),
            (Refusal::Permission, 1, 1, "/f", 9_999),
            (Refusal::Permission, 1, 1, "/g", 10_000),
        ] {
            log.note(refusal, (client(last), Some(site)), (None, path.as_bytes()), ms);
        }
        let permission = Refusal::Permission.reason();
        assert_eq!(
            *lines.lock().unwrap(),
            [
                format!("client 192.0.2.1, site s1.example, /a: {permission}"),
                format!(
                    "client 192.0.2.2, site s1.example, /c: {permission} (1 more of these since the last line)"
                ),
                format!("client 192.0.2.1, site s2.example, /d: {permission}"),
                format!("client 192.0.2.1, site s1.example, /e: {}", Refusal::BodyTooLarge.reason()),
                format!(
                    "client 192.0.2.1, site s1.example, /g: {permission} (1 more of these since the last line)"
                ),
            ]
        );
    }

    #[test]
    fn each_log_in_that_fails_has_a_line_in_which_nothing_can_be_forged() {
        let (log, lines) = log();
        for (user, at_ms) in [(&b"bob"[..], 0), (b"too soon", 100), (b"x\", client 192.0.2.9\n", 300)] {
            log.note(Refusal::WrongLogin, (client(1), Some(1)), (Some(user), b"/a, client 192.0.2.8"), at_ms);
        }
        let lines = lines.lock().unwrap();
        assert!(
            lines.iter().all(|line| line.starts_with("client 192.0.2.1, site s1.example, user \"")),
            "{lines:?}"
        );
        assert!(lines[0].contains("user \"bob\", /a"), "{lines:?}");
        assert!(lines[1].contains("user \"x\\\", client 192.0.2.9\\n\", /a"), "{lines:?}");
    }

    #[test]
    fn a_flood_of_clients_has_no_flood_of_lines() {
        let (log, lines) = log();
        for number in 0..10_000u32 {
            let client = Peer::Inet((std::net::Ipv4Addr::from(number), 80).into());
            log.note(Refusal::WrongLogin, (client, Some(1)), (None, b"/"), 5);
        }
        assert_eq!(lines.lock().unwrap().len(), LINES_MAX as usize);
        log.note(Refusal::WrongLogin, (client(1), Some(1)), (None, b"/"), 1_000);
        assert!(
            lines.lock().unwrap()[LINES_MAX as usize].ends_with("(9950 more of these since the last line)")
        );
    }

    #[test]
    fn a_connection_has_no_site() {
        let (log, lines) = log();
        log.note_connection(Refusal::Connections, client(1), b"", 0);
        assert_eq!(*lines.lock().unwrap(), [format!("client 192.0.2.1: {}", Refusal::Connections.reason())]);
    }
}
