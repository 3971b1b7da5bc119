//! Password files. No text may cause a panic, a line is as good in a file as alone, and errors do not repeat a hash. What was
//! accepted can be checked, and lets nobody in with a password that is not its own.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};

use flash_auth::{PasswordFile, Successes};
use flash_core::clients::login::{Check, Known, Users};
use flash_http::basic::Credentials;

/// The memory of log-ins, which stays empty.
struct Table(Vec<AtomicU64>);

impl AsRef<[AtomicU64]> for Table {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

static SUCCESSES: LazyLock<Successes> = LazyLock::new(|| {
    let words = (0..Successes::WORDS).map(|_| AtomicU64::new(0)).collect();
    Successes::new([7; 32], Arc::new(Table(words)))
});

pub(crate) fn check(input: &[u8]) {
    let whole = read(input);
    if let Err(why) = &whole {
        assert!(!secrets(input).any(|secret| why.contains(secret)), "{why}");
    }
    let lines = || input.split(|byte| *byte == b'\n');
    let alone = |line: &[u8]| read(line).is_ok();
    match &whole {
        // More lines would take long and teach little.
        Ok(_) if input.len() <= 1024 => assert!(lines().all(alone)),
        Err(why) if input.len() <= 1024 => assert!(!lines().all(alone) || why.contains(" is here twice")),
        _ => {}
    }
    let Ok(file) = whole else { return };
    for line in lines().filter(|line| is_cheap(line)).take(2) {
        let user = line.trim_ascii().split(|byte| *byte == b':').next().unwrap_or_default();
        let token = base64(&[user, b":not it"].concat());
        let Some(credentials) = Credentials::parse(&[b"Basic ", &*token].concat()) else { continue };
        let Known::Unchecked(check) = file.ask(&credentials, 0) else { panic!("it was never right") };
        assert!(!Check::run(&*check, 0));
    }
}

fn read(text: &[u8]) -> Result<PasswordFile, String> {
    let open = |_: &Path| {
        let mut file: File = tempfile::tempfile()?;
        file.write_all(text)?;
        file.rewind()?;
        Ok(file)
    };
    let read = PasswordFile::new(Path::new("/etc/flash/users"), SUCCESSES.clone());
    read.read(open).map(|()| read)
}

/// What stands where hashes do, is long enough to be one, and is in no user's name.
fn secrets(text: &[u8]) -> impl Iterator<Item = &str> {
    let fields = |number| {
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        lines.filter_map(move |line| line.split(|byte| *byte == b':').nth(number))
    };
    // Errors have names, with escapes for some of their bytes.
    let has = |text: &[u8], hash: &[u8]| text.windows(hash.len()).any(|part| part == hash);
    let is_in_name = move |hash: &[u8]| {
        fields(0).any(|name| has(name, hash) || has(name.escape_ascii().to_string().as_bytes(), hash))
    };
    let hashes = fields(1).filter(move |hash| hash.len() >= 20 && !is_in_name(hash));
    hashes.filter_map(|hash| std::str::from_utf8(hash).ok())
}

/// Whether a check takes a few milliseconds at most.
fn is_cheap(line: &[u8]) -> bool {
    let Some(hash) = line.split(|byte| *byte == b':').nth(1) else { return false };
    let number = |from: &[u8]| {
        let at = hash.windows(from.len()).position(|part| part == from)? + from.len();
        let digits = hash[at..].iter().take_while(|byte| byte.is_ascii_digit());
        Some(digits.take(9).fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    };
    match hash.get(..3) {
        Some(b"$2a" | b"$2b" | b"$2y") => hash[3..].starts_with(b"$04$"),
        Some(b"$5$" | b"$6$") => number(b"rounds=").is_some_and(|rounds| rounds <= 1000),
        _ => number(b"m=").is_some_and(|kib| kib <= 256) && number(b"t=").is_some_and(|passes| passes <= 2),
    }
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits = three.iter().chain(&[0; 2]).take(3).fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        let digits = [18, 12, 6, 0].map(|shift| DIGITS[bits >> shift & 63]);
        digits[..=three.len()].to_vec()
    };
    bytes.chunks(3).flat_map(group).collect()
}
