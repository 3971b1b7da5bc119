//! Why requests are refused, for the error log. The client is not told: its page says the status alone.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 403: a symbolic link leads out of the folder that is served.
    LinkOutside,
    /// 403: a user's folder leads to it, and it is not that user's.
    NotTheUsers,
    /// 403: the server's user may not read it.
    Permission,
    /// 403: a program, where none runs.
    Program,
    /// 403: a folder without an index file, and without a listing.
    FolderWithoutIndex,
    /// 413.
    BodyTooLarge,
    /// 403: the networks of the site or place do not admit the client.
    Network,
    /// 429.
    Limit,
    /// 403: no signed link, or a wrong one.
    WrongLink,
    /// 410: a signed link that was right.
    ExpiredLink,
    /// 401: a name or a password is wrong.
    WrongLogin,
    /// 503: too many log-ins wait for their check.
    LoginsBusy,
    /// 429: a new connection is one too many.
    Connections,
    /// A connection does not begin as its listener requires.
    NoProxyHeader,
    /// A connection that begins with a header of the PROXY protocol is from nobody who is believed.
    UntrustedProxy,
    /// A client's TLS handshake fails, because its site requires a certificate of it.
    NoClientCertificate,
    /// A client's TLS handshake fails, because its certificate is not accepted.
    BadClientCertificate,
    /// 403: the site requires a certificate of its clients, and a proxy has ended this one's TLS.
    NoCertificate,
}

impl Refusal {
    const ALL: [Self; 18] = [
        Self::LinkOutside,
        Self::NotTheUsers,
        Self::Permission,
        Self::Program,
        Self::FolderWithoutIndex,
        Self::BodyTooLarge,
        Self::Network,
        Self::Limit,
        Self::WrongLink,
        Self::ExpiredLink,
        Self::WrongLogin,
        Self::LoginsBusy,
        Self::Connections,
        Self::NoProxyHeader,
        Self::UntrustedProxy,
        Self::NoClientCertificate,
        Self::BadClientCertificate,
        Self::NoCertificate,
    ];

    /// The refusal with this number, as another process sent it.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    fn reason(self) -> &'static str {
        match self {
            Self::LinkOutside => {
                "403: a symbolic link leads out of the folder that is served; --follow-links anywhere allows it"
            }
            Self::NotTheUsers => {
                "403: a user's folder leads to what belongs to another user, and is not for everyone to read there"
            }
            Self::Permission => "403: the server's user has no permission to read it",
            Self::Program => "403: it is a program, and no program runs there",
            Self::FolderWithoutIndex => "403: the folder has no index file; --list would list it",
            Self::BodyTooLarge => "413: the request's body is larger than --body-bytes-max",
            Self::Network => "403: --allow and --deny do not admit the client's address",
            Self::Limit => "429: the client has used up its --limit",
            Self::WrongLink => "403: the link has no signature by a key of --signed",
            Self::ExpiredLink => "410: the signed link has expired",
            Self::WrongLogin => "401: the user name or the password is not one of --auth",
            Self::LoginsBusy => "503: too many log-ins wait for the check of their passwords",
            Self::Connections => "429: the client has as many connections as --connections-per-client says",
            Self::NoProxyHeader => {
                "closed: the connection did not begin with a header of the PROXY protocol, which its listener requires"
            }
            Self::NoClientCertificate => {
                "closed: the client has shown no certificate, and --client-certificate requires one"
            }
            Self::BadClientCertificate => "closed: --client-ca does not accept the client's certificate",
            Self::NoCertificate => {
                "403: --client-certificate requires a certificate, and a proxy cannot show its client's"
            }
            Self::UntrustedProxy => {
                "closed: the listener requires a header of the PROXY protocol, and --trusted-proxies does not name this peer"
            }
        }
    }
}

/// Writes a line for a refusal, once a minute for each reason.
pub struct RefusalLog {
    log: Box<dyn Fn(fmt::Arguments<'_>) + Send + Sync>,
    reasons: [Reason; Refusal::ALL.len()],
}

#[derive(Default)]
struct Reason {
    /// When the next line may be written, in the server's milliseconds.
    next_ms: AtomicU64,
    /// How many refusals got no line since the last one.
    unsaid: AtomicU64,
}

const EVERY_MS: u64 = 60_000;

impl RefusalLog {
    pub fn new(log: impl Fn(fmt::Arguments<'_>) + Send + Sync + 'static) -> Self {
        Self { log: Box::new(log), reasons: Default::default() }
    }

    /// Notes that a request for this path was refused.
    pub(crate) fn note(&self, refusal: Refusal, path: &[u8], now_ms: u64) {
        let Reason { next_ms, unsaid } = &self.reasons[refusal as usize];
        let next = next_ms.load(Ordering::Relaxed);
        let is_due = now_ms >= next;
        if !is_due
            || next_ms
                .compare_exchange(next, now_ms + EVERY_MS, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            unsaid.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let reason = refusal.reason();
        let path = path.escape_ascii();
        match unsaid.swap(0, Ordering::Relaxed) {
            0 => (self.log)(format_args!("{path}: {reason}")),
            more => (self.log)(format_args!("{path}: {reason} ({more} more of these since the last line)")),
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

    #[test]
    fn each_reason_gets_a_line_a_minute() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&lines);
        let log = RefusalLog::new(move |line| written.lock().unwrap().push(line.to_string()));
        for (refusal, target, ms) in [
            (Refusal::Permission, "/a", 0),
            (Refusal::Permission, "/b", 10),
            (Refusal::BodyTooLarge, "/c", 20),
            (Refusal::Permission, "/d", 59_999),
            (Refusal::Permission, "/e", 60_000),
        ] {
            log.note(refusal, target.as_bytes(), ms);
        }
        let permission = Refusal::Permission.reason();
        assert_eq!(
            *lines.lock().unwrap(),
            [
                format!("/a: {permission}"),
                format!("/c: {}", Refusal::BodyTooLarge.reason()),
                format!("/e: {permission} (2 more of these since the last line)"),
            ]
        );
    }
}
