//! The hashes of passwords that Flash takes: bcrypt, argon2id and SHA-crypt. Each is slow on purpose.
//!
//! A hash that is too weak, or so costly that a few log-ins would take all processors, is an error.

use std::str::FromStr;

use argon2::password_hash::phc;
use argon2::{Argon2, PasswordVerifier};
use bcrypt::HashParts;
use sha_crypt::ShaCrypt;

/// A hash as it stands in its file, which was found well-formed.
pub(crate) struct Hash {
    kind: Kind,
    pub(crate) text: Box<str>,
}

#[derive(Clone, Copy)]
enum Kind {
    Bcrypt,
    Argon2id,
    ShaCrypt,
}

/// What costs a processor about two seconds.
const BCRYPT_COST_MAX: u32 = 15;
const SHA_ROUNDS: std::ops::RangeInclusive<u32> = 1_000..=5_000_000;
const ARGON2_KIB_MAX: u32 = 256 << 10;
/// Memory times passes.
const ARGON2_KIB_PASSES_MAX: u64 = 2 << 20;
const TOO_COSTLY: &str = "its check would take longer than two seconds";

impl Hash {
    /// The error says what the text is, and never repeats it: it may be a password.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let kind = match text.split('$').nth(1) {
            _ if text.starts_with("{SHA}") => return Err("a SHA-1 hash is too weak"),
            Some("apr1" | "1") if text.starts_with('$') => return Err("an MD5 hash is too weak"),
            Some("2a" | "2b" | "2y") if text.starts_with('$') => bcrypt(text)?,
            Some("argon2id") if text.starts_with('$') => argon2id(text)?,
            Some("5") if text.starts_with('$') => sha_crypt(text, 43)?,
            Some("6") if text.starts_with('$') => sha_crypt(text, 86)?,
            _ => return Err("this is no hash of bcrypt ($2y$), argon2id or SHA-crypt ($5$, $6$)"),
        };
        Ok(Self { kind, text: text.into() })
    }

    /// Takes a processor for long.
    pub(crate) fn is_of(&self, password: &[u8]) -> bool {
        let text = &*self.text;
        match self.kind {
            Kind::Bcrypt => bcrypt::verify(password, text).is_ok_and(|is_right| is_right),
            Kind::Argon2id => Argon2::default().verify_password(password, text).is_ok(),
            Kind::ShaCrypt => ShaCrypt::default().verify_password(password, text).is_ok(),
        }
    }
}

fn bcrypt(text: &str) -> Result<Kind, &'static str> {
    let parts = HashParts::from_str(text).map_err(|_| "the bcrypt hash is incomplete")?;
    match parts.get_cost() {
        4..=BCRYPT_COST_MAX => Ok(Kind::Bcrypt),
        0..4 => Err("the bcrypt hash is too weak"),
        _ => Err(TOO_COSTLY),
    }
}

fn argon2id(text: &str) -> Result<Kind, &'static str> {
    let wrong = "the argon2id hash is incomplete";
    let hash = phc::PasswordHash::new(text).map_err(|_| wrong)?;
    let params = argon2::Params::try_from(&hash).map_err(|_| wrong)?;
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err(wrong);
    }
    let (kib, passes) = (params.m_cost(), u64::from(params.t_cost()));
    match kib <= ARGON2_KIB_MAX && u64::from(kib) * passes <= ARGON2_KIB_PASSES_MAX {
        true => Ok(Kind::Argon2id),
        false => Err(TOO_COSTLY),
    }
}

/// `$6$rounds=5000$SALT$HASH`, where the rounds may be missing.
fn sha_crypt(text: &str, digits: usize) -> Result<Kind, &'static str> {
    let wrong = "the SHA-crypt hash is incomplete";
    let mut fields = text.split('$').skip(2);
    let mut salt = fields.next().ok_or(wrong)?;
    if let Some(rounds) = salt.strip_prefix("rounds=") {
        let rounds: u32 = rounds.parse().map_err(|_| wrong)?;
        if !SHA_ROUNDS.contains(&rounds) {
            return Err(if rounds < *SHA_ROUNDS.start() { wrong } else { TOO_COSTLY });
        }
        salt = fields.next().ok_or(wrong)?;
    }
    let hash = fields.next().ok_or(wrong)?;
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/');
    let is_whole = (1..=16).contains(&salt.len()) && salt.bytes().all(is_digit);
    match is_whole && hash.len() == digits && hash.bytes().all(is_digit) && fields.next().is_none() {
        true => Ok(Kind::ShaCrypt),
        false => Err(wrong),
    }
}
