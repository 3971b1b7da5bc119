//! Cookies that name the server of a session, each with an HMAC-SHA256 of what it says.
//!
//! A value is `SERVER.EXPIRES.SIGNATURE`: a number that stands for the server and does not tell its name, in hexadecimal, the second at
//! which it is old (0 for never), and the signature in base64url. Servers and reloads with the same key agree, in whatever order their
//! configurations name the servers.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use flash_core::site::sticky::{StickySession, StickySessions};
use hmac::Mac;

use crate::links::{KEY_BYTES_MIN, Key, hmac, read_key};

/// The cookies of an upstream.
pub struct StickyCookies {
    terms: StickyTerms,
    /// By their positions.
    servers: Vec<String>,
    keyed: OnceLock<Keyed>,
}

/// What an upstream says of its cookies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickyTerms {
    pub name: String,
    pub key: PathBuf,
    /// `None`: as long as the browser is open.
    pub life_s: Option<u64>,
    /// `None`: over TLS only if the request came that way.
    pub secure: Option<bool>,
    pub http_only: bool,
    pub same_site: SameSite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    Strict,
    Lax,
    None,
}

/// What the key makes of the servers.
struct Keyed {
    key: Key,
    numbers: Vec<u64>,
}

impl SameSite {
    pub const NAMES: [(&str, Self); 3] = [("strict", Self::Strict), ("lax", Self::Lax), ("none", Self::None)];
}

impl StickyCookies {
    /// Cookies for these servers, by their names. None is right before the key is read.
    #[must_use]
    pub fn new(terms: StickyTerms, servers: Vec<String>) -> Self {
        Self { terms, servers, keyed: OnceLock::new() }
    }

    /// Reads the file of the key, which `open` opens.
    ///
    /// # Errors
    /// The file cannot be read, or has no key.
    pub fn read(&self, open: impl Fn(&Path) -> io::Result<File>) -> Result<(), String> {
        let key = read_key(&self.terms.key, open, KEY_BYTES_MIN)?;
        let number = |name: &String| {
            let made = hmac(&key, format!("server={name}").as_bytes()).finalize().into_bytes();
            made.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let numbers = self.servers.iter().map(number).collect();
        self.keyed.get_or_init(|| Keyed { key, numbers });
        Ok(())
    }

    /// What is signed.
    fn text(&self, said: &str) -> Vec<u8> {
        format!("cookie={}\n{said}", self.terms.name).into_bytes()
    }
}

impl StickySessions for StickyCookies {
    fn name(&self) -> &[u8] {
        self.terms.name.as_bytes()
    }

    fn session(&self, value: &[u8], now_s: u64) -> Option<StickySession> {
        let keyed = self.keyed.get()?;
        let (said, signature) = std::str::from_utf8(value).ok()?.rsplit_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        // Compares in constant time.
        hmac(&keyed.key, &self.text(said)).verify_slice(&signature).ok()?;
        let (number, expires_s) = said.split_once('.')?;
        let (number, expires_s) = (u64::from_str_radix(number, 16).ok()?, expires_s.parse::<u64>().ok()?);
        let is_due = match (self.terms.life_s, expires_s) {
            (None, 0) => false,
            // The configuration has said otherwise when it was set.
            (None, _) | (Some(_), 0) => true,
            (Some(life_s), _) => expires_s < now_s.saturating_add(life_s / 2),
        };
        if expires_s != 0 && expires_s <= now_s {
            return None;
        }
        let server = keyed.numbers.iter().position(|other| *other == number)?;
        Some(StickySession { server, is_due })
    }

    fn set_cookie(&self, server: usize, is_tls: bool, now_s: u64) -> Option<Vec<u8>> {
        let keyed = self.keyed.get()?;
        let StickyTerms { name, life_s, secure, http_only, same_site, .. } = &self.terms;
        let expires_s = life_s.map_or(0, |life_s| now_s.saturating_add(life_s));
        let said = format!("{:016x}.{expires_s}", keyed.numbers.get(server)?);
        let signature = hmac(&keyed.key, &self.text(&said)).finalize().into_bytes();
        let mut cookie = format!("{name}={said}.{}; Path=/", BASE64_URL_SAFE_NO_PAD.encode(signature));
        if let Some(life_s) = life_s {
            cookie += &format!("; Max-Age={life_s}");
        }
        if secure.unwrap_or(is_tls) {
            cookie += "; Secure";
        }
        if *http_only {
            cookie += "; HttpOnly";
        }
        cookie += match same_site {
            SameSite::Strict => "; SameSite=Strict",
            SameSite::Lax => "; SameSite=Lax",
            SameSite::None => "; SameSite=None",
        };
        Some(cookie.into_bytes())
    }
}

/// Without its key.
impl fmt::Debug for StickyCookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StickyCookies").field("terms", &self.terms).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NOW_S: u64 = 1_767_225_600;

    fn cookies(key: &str, servers: &[&str], life_s: Option<u64>) -> StickyCookies {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, key).unwrap();
        let (name, same_site) = ("srv".into(), SameSite::Lax);
        let terms = StickyTerms { name, key: path, life_s, secure: None, http_only: true, same_site };
        let cookies = StickyCookies::new(terms, servers.iter().map(|&name| name.to_owned()).collect());
        assert_eq!((cookies.session(b"", NOW_S), cookies.set_cookie(0, false, NOW_S)), (None, None));
        cookies.read(|path| File::open(path)).unwrap();
        cookies
    }

    fn value(of: &StickyCookies, server: usize) -> String {
        let set = String::from_utf8(of.set_cookie(server, false, NOW_S).unwrap()).unwrap();
        set.split(';').next().unwrap().strip_prefix("srv=").unwrap().to_owned()
    }

    const KEY: &str = "0123456789abcdef";

    #[test]
    fn servers_that_share_a_key_agree() {
        let one = cookies(KEY, &["http://a", "http://b", "http://c"], None);
        let other = cookies(KEY, &["http://c", "http://b"], None);
        let server = |value: &str| other.session(value.as_bytes(), NOW_S).map(|session| session.server);
        assert_eq!([0, 1, 2].map(|number| server(&value(&one, number))), [None, Some(1), Some(0)]);
        let another = cookies("another key of sixteen", &["http://a"], None);
        assert_eq!(server(&value(&another, 0)), None);
    }

    #[test]
    fn what_is_forged_or_old_names_no_server() {
        let lasting = cookies(KEY, &["http://a", "http://b"], Some(100));
        let value = value(&lasting, 1);
        let at = |seconds| lasting.session(value.as_bytes(), NOW_S + seconds);
        assert_eq!(at(0), Some(StickySession { server: 1, is_due: false }));
        assert_eq!(at(51), Some(StickySession { server: 1, is_due: true }), "half of its life is over");
        assert_eq!((at(99).is_some(), at(100)), (true, None));
        for at in 0..value.len() {
            let mut forged = value.clone().into_bytes();
            forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
            assert_eq!(lasting.session(&forged, NOW_S), None, "{}", forged.escape_ascii());
        }
    }

    #[test]
    fn a_cookie_says_what_the_site_needs() {
        let said = |of: &StickyCookies, is_tls| {
            let text = String::from_utf8(of.set_cookie(0, is_tls, NOW_S).unwrap()).unwrap();
            text.split_once("; ").unwrap().1.to_owned()
        };
        let lasting = cookies(KEY, &["http://a"], Some(100));
        assert_eq!(said(&lasting, false), "Path=/; Max-Age=100; HttpOnly; SameSite=Lax");
        let mut brief = cookies(KEY, &["http://a"], None);
        assert_eq!(said(&brief, true), "Path=/; Secure; HttpOnly; SameSite=Lax");
        (brief.terms.secure, brief.terms.http_only, brief.terms.same_site) =
            (Some(true), false, SameSite::None);
        assert_eq!(said(&brief, false), "Path=/; Secure; SameSite=None");
    }
}
