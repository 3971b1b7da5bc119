//! What the server and the process that asks for certificates tell each other, in memory that all processes of the server share.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_core::challenges::Challenges;
use flash_os::shared_array::SharedWords;
use flash_os::shared_text::SharedText;

/// It has to be made before the processes that use it.
#[derive(Debug)]
pub struct Board {
    /// The server's own number.
    pub(crate) server: u64,
    /// The hosts of each certificate that the server wants, a line for each.
    wanted: SharedText,
    /// What the authority may ask now.
    challenges: SharedText,
    /// A line for the error log, and the version of the last one that was logged.
    line: SharedText,
    logged: SharedWords,
}

/// Room for the hosts of some 30,000 certificates.
const WANTED_BYTES_MAX: usize = 1 << 20;
/// The same for the challenges of four orders with a hundred hosts each, which Let's Encrypt allows.
const CHALLENGES_BYTES_MAX: usize = 256 << 10;
/// A longer line is cut.
const LINE_BYTES_MAX: usize = 4 << 10;
/// How long a line waits for a process of the server to log it.
pub(crate) const HEARD_WITHIN: Duration = Duration::from_secs(5);

/// The words of [`Board::logged`].
const LOGGED: usize = 0;
const RENEWED: usize = 1;

/// A challenge that is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) token: String,
    pub(crate) host: String,
    pub(crate) key_authorization: String,
}

impl Board {
    /// # Errors
    /// When the kernel has no memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            server: fastrand::u64(..),
            wanted: SharedText::new(WANTED_BYTES_MAX)?,
            challenges: SharedText::new(CHALLENGES_BYTES_MAX)?,
            line: SharedText::new(LINE_BYTES_MAX)?,
            logged: SharedWords::zeroed(2)?,
        })
    }

    /// Whether so many certificates can be wanted.
    pub fn has_room(certificates: &[Vec<String>]) -> bool {
        lines(certificates).len() <= WANTED_BYTES_MAX
    }

    /// Says which certificates are wanted, each by its hosts.
    ///
    /// # Errors
    /// If there is no [room](Self::has_room) for them.
    pub fn want(&self, certificates: &[Vec<String>]) -> io::Result<()> {
        let text = lines(certificates);
        if text.as_bytes() == self.wanted.read() { Ok(()) } else { self.wanted.write(text.as_bytes()) }
    }

    /// The certificates that are wanted, if that has changed since this version.
    pub(crate) fn wanted_since(&self, version: &mut u64) -> Option<Vec<Vec<String>>> {
        let present = self.wanted.version();
        (std::mem::replace(version, present) != present).then(|| {
            let text = String::from_utf8_lossy(&self.wanted.read()).into_owned();
            text.lines().map(|hosts| hosts.split(' ').map(str::to_owned).collect()).collect()
        })
    }

    pub(crate) fn show(&self, pending: &[Pending]) -> io::Result<()> {
        let line = |Pending { token, host, key_authorization }: &Pending| {
            format!("{token} {host} {key_authorization}\n")
        };
        self.challenges.write(pending.iter().map(line).collect::<String>().as_bytes())
    }

    fn find(&self, is_it: impl Fn(&[u8], &[u8]) -> bool) -> Option<Vec<u8>> {
        if self.challenges.is_empty() {
            return None;
        }
        let text = self.challenges.read();
        text.split(|byte| *byte == b'\n').find_map(|line| {
            let mut words = line.splitn(3, |byte| *byte == b' ');
            let (token, host, answer) = (words.next()?, words.next()?, words.next()?);
            is_it(token, host).then(|| answer.to_vec())
        })
    }

    /// Writes a line that the server logs. The line before may be lost if no process of the server has seen it.
    pub(crate) fn say(&self, line: &str) {
        let _ = self.line.write(cut(line, LINE_BYTES_MAX).as_bytes());
    }

    /// Has the server log a line, and waits until it has.
    pub(crate) fn tell(&self, line: &str) {
        self.say(line);
        let give_up = Instant::now() + HEARD_WITHIN;
        while !self.is_heard() && Instant::now() < give_up {
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether the last line was logged.
    pub(crate) fn is_heard(&self) -> bool {
        self.logged[LOGGED].load(Ordering::Acquire) == self.line.version()
    }

    /// The line that this process has to log. No other one gets it.
    pub fn take_line(&self) -> Option<String> {
        let (version, logged) = (self.line.version(), &self.logged[LOGGED]);
        let known = logged.load(Ordering::Acquire);
        if known == version || version % 2 == 1 {
            return None;
        }
        let line = self.line.read();
        logged.compare_exchange(known, version, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    /// How often certificates, or answers that are stapled to them, have been written.
    pub fn renewals(&self) -> u64 {
        self.renewed().load(Ordering::Acquire)
    }

    pub(crate) fn renewed(&self) -> &AtomicU64 {
        &self.logged[RENEWED]
    }
}

/// The text, or as much of it as there is room for.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=text.len().min(bytes_max)).rfind(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

fn lines(certificates: &[Vec<String>]) -> String {
    certificates.iter().map(|hosts| hosts.join(" ") + "\n").collect()
}

impl Challenges for Board {
    fn of_token(&self, token: &[u8]) -> Option<Vec<u8>> {
        self.find(|pending, _| pending == token)
    }

    fn of_host(&self, host: &str) -> Option<Vec<u8>> {
        self.find(|_, pending| pending.eq_ignore_ascii_case(host.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_pending_is_answered() {
        let board = Board::new().unwrap();
        assert_eq!(board.of_token(b""), None);
        let pending = |token: &str, host: &str| Pending {
            token: token.into(),
            host: host.into(),
            key_authorization: format!("{token}.thumbprint"),
        };
        board.show(&[pending("one", "a.example"), pending("two", "b.example")]).unwrap();
        assert_eq!(board.of_token(b"two").as_deref(), Some(&b"two.thumbprint"[..]));
        assert_eq!(board.of_host("A.example").as_deref(), Some(&b"one.thumbprint"[..]));
        assert!(board.of_token(b"thumbprint").is_none() && board.of_token(b"").is_none());
        assert!(board.of_host("c.example").is_none() && board.of_host("").is_none());
        board.show(&[]).unwrap();
        assert_eq!(board.of_token(b"two"), None);
        let longest = vec![pending(&"t".repeat(43), &"a".repeat(253)); 400];
        board.show(&longest).unwrap();
    }

    #[test]
    fn wanted_certificates_and_lines_arrive_once() {
        let board = Board::new().unwrap();
        let wanted = vec![vec!["a.example".to_owned(), "b.example".into()], vec!["c.example".into()]];
        let mut version = 0;
        assert_eq!(board.wanted_since(&mut version), None);
        board.want(&wanted).unwrap();
        assert_eq!(board.wanted_since(&mut version), Some(wanted.clone()));
        board.want(&wanted).unwrap();
        assert_eq!(board.wanted_since(&mut version), None, "nothing has changed");
        let many = vec![vec!["a".repeat(300)]; 4_000];
        assert!(!Board::has_room(&many) && board.want(&many).is_err());

        assert!(board.take_line().is_none() && board.is_heard());
        board.say(&"ä".repeat(LINE_BYTES_MAX));
        assert!(!board.is_heard());
        assert_eq!(board.take_line(), Some("ä".repeat(LINE_BYTES_MAX / 2)));
        assert!(board.take_line().is_none() && board.is_heard());
    }
}
