//! Links as nginx's `secure_link` and `secure_link_md5` take them: an MD5 hash over an expression that names the secret.

use std::net::IpAddr;
use std::str::FromStr;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flash_core::clients::link::{BadLink, Link};
use flash_core::path::SitePath;
use flash_core::record::Peer;
use flash_http::scan;
use hmac::digest::{CtOutput, Digest};
use md5::Md5;

use super::said::{LinkTerms, argument};

/// nginx ignores padding, and what is left over in the last digit.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureLink {
    arguments: Arguments,
    expression: Expression,
}

/// The value of `secure_link`: which arguments have the hash and the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    hash: String,
    /// Without it, links do not expire.
    expires: Option<String>,
}

/// The value of `secure_link_md5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Secret,
    Uri,
    Expires,
    Client,
    /// The value of this argument.
    Argument(String),
}

impl Default for Arguments {
    fn default() -> Self {
        Self { hash: "md5".into(), expires: Some("expires".into()) }
    }
}

/// `$arg_md5,$arg_expires`, or `$arg_md5` alone.
impl FromStr for Arguments {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = |text: &str| {
            let name =
                text.strip_prefix("$arg_").filter(|name| !name.is_empty() && name.bytes().all(is_of_name));
            name.map(str::to_owned).ok_or("write it as \"$arg_md5,$arg_expires\" or \"$arg_md5\"")
        };
        let (hash, expires) = text.split_once(',').map_or((text, None), |(hash, time)| (hash, Some(time)));
        Ok(Self { hash: name(hash)?, expires: expires.map(name).transpose()? })
    }
}

/// `$secure_link_expires$uri$remote_addr $secret`.
impl FromStr for Expression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, variable)) = rest.split_once('$') {
            let (name, after) = match variable.strip_prefix('{') {
                Some(braced) => braced.split_once('}').ok_or("a brace is not closed")?,
                None => {
                    variable.split_at(variable.bytes().position(|b| !is_of_name(b)).unwrap_or(variable.len()))
                }
            };
            if !before.is_empty() {
                parts.push(Part::Text(before.into()));
            }
            parts.push(Part::of(name)?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        match parts.contains(&Part::Secret) {
            true => Ok(Self(parts)),
            false => {
                Err("write $secret where nginx has the secret itself, and the secret into the file of key"
                    .into())
            }
        }
    }
}

impl Part {
    fn of(name: &str) -> Result<Self, String> {
        Ok(match name {
            "secret" => Self::Secret,
            "uri" => Self::Uri,
            "secure_link_expires" => Self::Expires,
            "remote_addr" => Self::Client,
            _ => match name.strip_prefix("arg_").filter(|name| !name.is_empty()) {
                Some(name) => Self::Argument(name.into()),
                None => {
                    return Err(format!(
                        "${name} is not one of $secret, $uri, $secure_link_expires, $remote_addr and $arg_NAME"
                    ));
                }
            },
        })
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl SecureLink {
    /// # Errors
    /// Links would expire, and nothing would sign when, or the expression has something else of the query.
    pub fn new(arguments: Arguments, mut expression: Expression) -> Result<Self, String> {
        for part in &mut expression.0 {
            if let Part::Argument(name) = part {
                if Some(&*name) != arguments.expires.as_ref() {
                    return Err(format!("$arg_{name} in md5 is not the argument of the time in link"));
                }
                *part = Part::Expires;
            }
        }
        match (&arguments.expires, expression.0.contains(&Part::Expires)) {
            (Some(_), false) => {
                Err("md5 needs $secure_link_expires, or everybody could write another time into a link"
                    .into())
            }
            (None, true) => {
                Err("md5 has $secure_link_expires, and link names no argument for the time".into())
            }
            _ => Ok(Self { arguments, expression }),
        }
    }

    pub(super) fn check<'k>(
        &self,
        mut secrets: impl Iterator<Item = &'k [u8]>,
        link: &Link<'_>,
    ) -> Result<(), BadLink> {
        let Arguments { hash, expires } = &self.arguments;
        let hash = argument(link.query, hash)?.and_then(|hash| BASE64.decode(hash).ok());
        let hash: [u8; 16] = hash.and_then(|hash| hash.try_into().ok()).ok_or(BadLink::Wrong)?;
        let expires = match expires {
            Some(name) => Some(argument(link.query, name)?.ok_or(BadLink::Wrong)?),
            None => None,
        };
        let time = expires.as_deref().unwrap_or_default();
        let client = match link.client {
            Peer::Inet(address) => address.ip().to_string(),
            Peer::Unix => "unix:".into(),
        };
        // Compares in constant time.
        let right = CtOutput::<Md5>::new(hash.into());
        if !secrets.any(|secret| self.hash(secret, link.path, time, &client) == right) {
            return Err(BadLink::Wrong);
        }
        match expires.as_deref().map(scan::decimal) {
            Some(None | Some(0)) => Err(BadLink::Wrong),
            Some(Some(expires_s)) if expires_s < link.now_s => Err(BadLink::Expired),
            _ => Ok(()),
        }
    }

    pub(super) fn sign(
        &self,
        secret: &[u8],
        path: &SitePath<'_>,
        terms: &LinkTerms<'_>,
    ) -> Result<String, String> {
        let LinkTerms { expires_s, is_prefix, client, rate } = *terms;
        let Arguments { hash, expires: Some(expires) } = &self.arguments else {
            return Err("links in this place do not expire".into());
        };
        if is_prefix || rate.is_some() {
            return Err("a link in nginx's form is for one path, and says no rate".into());
        }
        let client = match (client.map(str::parse::<IpAddr>), self.expression.0.contains(&Part::Client)) {
            (None, false) => String::new(),
            (Some(Ok(address)), true) => address.to_canonical().to_string(),
            (Some(Err(_)), true) | (None, true) => {
                return Err("a link in this place is for one address: say which".into());
            }
            (Some(_), false) => {
                return Err("a link in this place is for every client: md5 has no $remote_addr".into());
            }
        };
        let time = expires_s.to_string();
        let made = BASE64.encode(self.hash(secret, path, time.as_bytes(), &client).into_bytes());
        Ok(format!("{hash}={made}&{expires}={time}"))
    }

    fn hash(&self, secret: &[u8], path: &SitePath<'_>, time: &[u8], client: &str) -> CtOutput<Md5> {
        let mut hash = Md5::new();
        for part in &self.expression.0 {
            hash.update(match part {
                Part::Text(text) => text.as_bytes(),
                Part::Secret => secret,
                Part::Uri => path.as_bytes(),
                Part::Expires => time,
                Part::Client => client.as_bytes(),
                Part::Argument(_) => unreachable!("SecureLink::new has replaced it"),
            });
        }
        CtOutput::new(hash.finalize())
    }
}
