//! Signed links: HMAC-SHA256 over a path or a prefix of paths, and over what else the link says.
//!
//! The arguments of a link are `expires`, and perhaps `client`, `rate` and `prefix`. `signature` is the HMAC of a line for each of them and
//! a last one for the path, in base64url without padding:
//!
//! ```text
//! expires=1767225600
//! client=192.0.2.1
//! rate=2M/s
//! path=/members/a.iso
//! ```
//!
//! Only the last line may hold line breaks, so no two links have the same text. A link for all that lies below a path has
//! `prefix=/members` as its last line. The other form of links is that of nginx, see [`secure_link`].

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use flash_core::clients::ByteRate;
use flash_core::clients::link::{BadLink, Link, Links};
use flash_core::path::SitePath;
use flash_core::site::network::Network;
use flash_http::{percent, scan};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

pub use self::said::LinkTerms;
use self::said::argument;
use self::secure_link::SecureLink;

mod said;
pub(crate) mod secure_link;

/// The links of a site or a place.
pub struct SignedLinks {
    form: Form,
    files: Box<[PathBuf]>,
    /// What the files hold, once they are read. The first one signs. Links by the others are right, too.
    keys: OnceLock<Box<[Key]>>,
}

/// What links look like.
#[derive(Debug)]
pub enum Form {
    Flash,
    Nginx(SecureLink),
}

/// What links are signed with.
pub(crate) type Key = Zeroizing<Vec<u8>>;

/// How many bytes a key's file may have.
const KEY_BYTES_MAX: u64 = 4096;
/// RFC 2104 §3 wants as many as the hash has. Half of that cannot be guessed either.
pub(crate) const KEY_BYTES_MIN: usize = 16;

const EXPIRES: &str = "expires";
const CLIENT: &str = "client";
const RATE: &str = "rate";
const PREFIX: &str = "prefix";
const PATH: &str = "path";
const SIGNATURE: &str = "signature";

impl SignedLinks {
    /// Links that are signed with the keys in these files. No link is right before they are read.
    #[must_use]
    pub fn new(form: Form, files: &[&Path]) -> Self {
        let files = files.iter().map(|&path| path.into()).collect();
        Self { form, files, keys: OnceLock::new() }
    }

    /// Reads the files of keys, which `open` opens.
    ///
    /// # Errors
    /// A file cannot be read, or has no key.
    pub fn read(&self, open: impl Fn(&Path) -> io::Result<File>) -> Result<(), String> {
        let bytes_min = match self.form {
            Form::Flash => KEY_BYTES_MIN,
            // It is as long as it was with nginx.
            Form::Nginx(_) => 1,
        };
        let keys = self.files.iter().map(|path| read_key(path, &open, bytes_min));
        let keys = keys.collect::<Result<_, _>>()?;
        self.keys.get_or_init(|| keys);
        Ok(())
    }

    fn keys(&self) -> &[Key] {
        self.keys.get().map_or(&[], |keys| keys)
    }

    /// The arguments of a link to this path, as a query has them.
    ///
    /// # Errors
    /// Such links cannot say that.
    pub fn sign(&self, path: &SitePath<'_>, terms: &LinkTerms<'_>) -> Result<String, String> {
        let key = self.keys().first().ok_or("there is no key")?;
        match &self.form {
            Form::Flash => Ok(sign(key, path, terms)),
            Form::Nginx(form) => form.sign(key, path, terms),
        }
    }
}

impl Links for SignedLinks {
    fn check(&self, link: &Link<'_>) -> Result<Option<ByteRate>, BadLink> {
        match &self.form {
            Form::Flash => check(self.keys(), link),
            Form::Nginx(form) => form.check(self.keys().iter().map(|key| &key[..]), link).map(|()| None),
        }
    }
}

pub(crate) fn read_key(
    path: &Path,
    open: impl Fn(&Path) -> io::Result<File>,
    bytes_min: usize,
) -> Result<Key, String> {
    let shown = path.display();
    let failed = |error| format!("cannot read {shown}: {error}");
    // All of it at once, so that no copy stays behind in memory.
    let mut key = Key::new(Vec::with_capacity(KEY_BYTES_MAX as usize + 2));
    let file = open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(format!("{shown} is not a file"));
    }
    file.take(KEY_BYTES_MAX + 1).read_to_end(&mut key).map_err(failed)?;
    while key.pop_if(|byte| matches!(byte, b'\n' | b'\r')).is_some() {}
    let how_to_make = || format!("make one with openssl rand -base64 32 > {shown}");
    match key.len() {
        0 => Err(format!("{shown} has no key: {}", how_to_make())),
        length if length < bytes_min => {
            Err(format!("the key in {shown} has less than {bytes_min} bytes: {}", how_to_make()))
        }
        length if length as u64 > KEY_BYTES_MAX => {
            Err(format!("the key in {shown} has more than {KEY_BYTES_MAX} bytes"))
        }
        _ => Ok(key),
    }
}

fn check(keys: &[Key], link: &Link<'_>) -> Result<Option<ByteRate>, BadLink> {
    let argument = |name| argument(link.query, name);
    let [expires, client, rate, prefix, signature] =
        [argument(EXPIRES)?, argument(CLIENT)?, argument(RATE)?, argument(PREFIX)?, argument(SIGNATURE)?];
    // Another line break would begin another line of what is signed.
    let plain =
        |text: &[u8]| std::str::from_utf8(text).ok().filter(|text| !text.contains('\n')).map(str::to_owned);
    let parsed = |rate: &Vec<u8>| plain(rate)?.parse::<ByteRate>().ok();
    let is_for = |client: &Vec<u8>| {
        let network = plain(client).and_then(|text| text.parse::<Network>().ok());
        network.is_some_and(|network| network.holds(link.client))
    };
    let is_above = |prefix: &Vec<u8>| {
        let rest = link.path.as_bytes().strip_prefix(prefix.strip_suffix(b"/").unwrap_or(prefix));
        rest.is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
    };
    let expires = expires.ok_or(BadLink::Wrong)?;
    let expires_s = scan::decimal(&expires).ok_or(BadLink::Wrong)?;
    let of_link = rate.as_ref().map(|rate| parsed(rate).ok_or(BadLink::Wrong)).transpose()?;
    if !(client.as_ref().is_none_or(is_for) && prefix.as_ref().is_none_or(is_above)) {
        return Err(BadLink::Wrong);
    }
    let over = prefix.as_deref().map_or((PATH, link.path.as_bytes()), |prefix| (PREFIX, prefix));
    let text = text([Some(&expires), client.as_deref(), rate.as_deref()], over);
    let signature =
        signature.and_then(|text| BASE64_URL_SAFE_NO_PAD.decode(text).ok()).ok_or(BadLink::Wrong)?;
    // Compares in constant time.
    if !keys.iter().any(|key| hmac(key, &text).verify_slice(&signature).is_ok()) {
        return Err(BadLink::Wrong);
    }
    if expires_s < link.now_s { Err(BadLink::Expired) } else { Ok(of_link) }
}

fn sign(key: &Key, path: &SitePath<'_>, terms: &LinkTerms<'_>) -> String {
    let LinkTerms { expires_s, is_prefix, client, rate } = *terms;
    let expires = expires_s.to_string();
    let over = (if is_prefix { PREFIX } else { PATH }, path.as_bytes());
    let text = text([Some(expires.as_bytes()), client.map(str::as_bytes), rate.map(str::as_bytes)], over);
    let signature = BASE64_URL_SAFE_NO_PAD.encode(hmac(key, &text).finalize().into_bytes());
    let mut query = format!("{EXPIRES}={expires}");
    if let Some(client) = client {
        query += &format!("&{CLIENT}={client}");
    }
    if let Some(rate) = rate {
        query += &format!("&{RATE}={}", rate.replace(' ', "%20"));
    }
    if is_prefix {
        let mut encoded = Vec::new();
        for (number, segment) in path.as_bytes().split(|&byte| byte == b'/').enumerate() {
            encoded.extend((number > 0).then_some(b'/'));
            percent::encode_name(segment, &mut encoded);
        }
        query += &format!("&{PREFIX}={}", String::from_utf8_lossy(&encoded));
    }
    query + &format!("&{SIGNATURE}={signature}")
}

pub(crate) fn hmac(key: &Key, text: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(text);
    mac
}

/// What is signed: the time, the client and the rate as far as they are there, and the prefix or else the path.
fn text([expires, client, rate]: [Option<&[u8]>; 3], over: (&str, &[u8])) -> Vec<u8> {
    let lines = [(EXPIRES, expires), (CLIENT, client), (RATE, rate), (over.0, Some(over.1))];
    let lines = lines.into_iter().filter_map(|(name, value)| Some([name.as_bytes(), b"=", value?].concat()));
    lines.collect::<Vec<_>>().join(&b'\n')
}

/// Without its keys.
impl fmt::Debug for SignedLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedLinks").field("files", &self.files).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
