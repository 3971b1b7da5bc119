//! A password file as htpasswd writes it: a user and a hash on each line. It is read after it is known, and nobody logs in before.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use flash_core::clients::login::{Check, CheckKey, Known, Users};
use flash_http::basic::Credentials;
use zeroize::Zeroizing;

use crate::hash::Hash;
use crate::successes::Successes;

pub struct PasswordFile {
    path: PathBuf,
    challenge: Box<[u8]>,
    entries: OnceLock<Entries>,
    successes: Successes,
}

struct Entries {
    /// Positions of hashes.
    users: HashMap<Box<[u8]>, usize>,
    hashes: Vec<Arc<Hash>>,
}

/// A line that is wrong.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    line: usize,
    what: String,
}

/// What browsers show where the file has no name that could be shown.
const REALM: &str = "restricted";
/// How many bytes a file may have.
const BYTES_MAX: u64 = 16 << 20;

impl PasswordFile {
    /// A file that is not read yet. `successes` remembers the log-ins of all files.
    #[must_use]
    pub fn new(path: &Path, successes: Successes) -> Self {
        Self { path: path.into(), challenge: challenge(path), entries: OnceLock::new(), successes }
    }

    /// Reads the file, which `open` opens.
    ///
    /// # Errors
    /// The file cannot be read, or lines are wrong: each with its place, and what to write instead.
    pub fn read(&self, open: impl FnOnce(&Path) -> io::Result<File>) -> Result<(), String> {
        let shown = self.path.display();
        let mut text = Vec::new();
        let read = open(&self.path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut text));
        read.map_err(|error| format!("cannot read {shown}: {error}"))?;
        if text.len() as u64 > BYTES_MAX {
            return Err(format!("cannot read {shown}: it is larger than {BYTES_MAX} bytes"));
        }
        let entries = Entries::parse(&text, &self.path).map_err(|wrong| {
            let lines = wrong.iter().map(|Wrong { line, what }| format!("{shown}:{line}: {what}"));
            lines.collect::<Vec<_>>().join("; ")
        })?;
        self.entries.get_or_init(|| entries);
        Ok(())
    }
}

impl Entries {
    fn parse(text: &[u8], path: &Path) -> Result<Self, Vec<Wrong>> {
        let (mut users, mut hashes, mut wrong) = (HashMap::new(), Vec::new(), Vec::new());
        // Some editors begin a text with a mark of its byte order.
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            match entry(line, path) {
                Ok((user, _)) if users.contains_key(user) => {
                    let what = format!("{} is here twice", user.escape_ascii());
                    wrong.push(Wrong { line: number + 1, what });
                }
                Ok((user, hash)) => {
                    users.insert(user.into(), hashes.len());
                    hashes.push(Arc::new(hash));
                }
                Err(what) => wrong.push(Wrong { line: number + 1, what }),
            }
        }
        if wrong.is_empty() { Ok(Self { users, hashes }) } else { Err(wrong) }
    }

    /// The position of a user's hash, if there is such a user, and the hash to check. The check of an unknown user costs what that of a
    /// known one does.
    fn find(&self, user: &[u8]) -> (Option<usize>, Option<Arc<Hash>>) {
        let number = self.users.get(user).copied();
        let decoy = || self.users.hasher().hash_one(user) as usize % self.hashes.len().max(1);
        (number, self.hashes.get(number.unwrap_or_else(decoy)).cloned())
    }
}

/// `user:hash`, and perhaps a comment behind another colon. Only the user's name may be repeated in an error.
fn entry<'l>(line: &'l [u8], path: &Path) -> Result<(&'l [u8], Hash), String> {
    let mut fields = line.split(|byte| *byte == b':');
    let user = fields.next().unwrap_or_default();
    let Some(hash) = fields.next().filter(|_| !user.is_empty()) else {
        return Err("this is not USER:HASH".into());
    };
    let hash = std::str::from_utf8(hash).map_err(|_| "this is no hash").and_then(Hash::parse);
    hash.map(|hash| (user, hash))
        .map_err(|why| format!("{}: {why}; write htpasswd -B {} {0}", user.escape_ascii(), path.display()))
}

/// RFC 7617 §2. Browsers offer a password again within its realm: places with the same file share one.
fn challenge(path: &Path) -> Box<[u8]> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_shown = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'-' | b'_' | b'.');
    let is_name = !stem.is_empty() && !stem.starts_with('.') && stem.bytes().all(is_shown);
    let realm = if is_name { stem } else { REALM };
    format!("Basic realm=\"{realm}\", charset=\"UTF-8\"").into_bytes().into()
}

impl Users for PasswordFile {
    fn challenge(&self) -> &[u8] {
        &self.challenge
    }

    fn ask(&self, credentials: &Credentials, now_ms: u64) -> Known {
        let (user, password) = (credentials.user(), credentials.password());
        let (number, hash) = self.entries.get().map_or((None, None), |entries| entries.find(user));
        let text = hash.as_ref().filter(|_| number.is_some()).map_or("", |hash| &hash.text);
        let key = self.successes.key_of([user, text.as_bytes(), password]);
        if number.is_some() && self.successes.remember(&key, now_ms) {
            return Known::Right;
        }
        let password = Zeroizing::new(Box::from(password));
        let (is_user, successes) = (number.is_some(), self.successes.clone());
        Known::Unchecked(Box::new(PasswordCheck { hash, is_user, password, key, successes }))
    }
}

/// Without what it holds.
impl fmt::Debug for PasswordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordFile").field("path", &self.path).finish_non_exhaustive()
    }
}

struct PasswordCheck {
    /// Another user's, if there is none of that name. `None` if there are no users.
    hash: Option<Arc<Hash>>,
    is_user: bool,
    password: Zeroizing<Box<[u8]>>,
    key: CheckKey,
    successes: Successes,
}

impl Check for PasswordCheck {
    fn key(&self) -> CheckKey {
        self.key
    }

    fn run(&self, now_ms: u64) -> bool {
        let is_right = self.hash.as_ref().is_some_and(|hash| hash.is_of(&self.password)) && self.is_user;
        if is_right {
            self.successes.add(&self.key, now_ms);
        }
        is_right
    }
}

/// Without the password.
impl fmt::Debug for PasswordCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordCheck").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
