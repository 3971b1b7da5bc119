//! `--upstream`: HTTP servers with a name.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use flash_auth::{SameSite, StickyTerms};
use flash_core::site::proxy_rules::HashBy;

use super::proxy_url::{self, ProxyUrl};
use super::{duration, field};

/// Servers that answer the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedUpstream {
    pub name: String,
    pub servers: Vec<UpstreamServer>,
    pub balance: UpstreamBalance,
    pub sticky: Option<StickyTerms>,
    pub connect: Option<Duration>,
    pub first_byte: Option<Duration>,
    pub idle: Option<Duration>,
    /// The path of a check, and how often it is asked for.
    pub check: Option<(String, Duration)>,
    pub slow_start: Duration,
    pub queue_max: usize,
    pub queue_wait: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpstreamServer {
    pub url: ProxyUrl,
    pub weight: u32,
    pub is_backup: bool,
    pub requests_max: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamBalance {
    LeastRequests,
    RoundRobin,
    Hash(HashBy),
}

const WEIGHT_MAX: u32 = 1000;
const SERVERS_MAX: usize = 64;
const CHECK_EVERY: Duration = Duration::from_secs(5);
const CHECK_EVERY_MIN: Duration = Duration::from_secs(1);
const SLOW_START: Duration = Duration::from_secs(10);
const QUEUE_MAX: usize = 100;
/// The ways to choose.
const LEAST_REQUESTS: &str = "least-requests";
const ROUND_ROBIN: &str = "round-robin";
const BY_HASH: &str = "hash";

impl NamedUpstream {
    pub(crate) const SERVERS: &str = "servers";
    pub(crate) const WEIGHT: &str = "weight";
    pub(crate) const BACKUP: &str = "backup";
    pub(crate) const REQUESTS_MAX: &str = "max-connections";
    pub(crate) const BALANCE: &str = "balance";
    pub(crate) const HASH: &str = "hash";
    pub(crate) const STICKY: &str = "sticky";
    pub(crate) const COOKIE: &str = "cookie";
    pub(crate) const KEY: &str = "key";
    pub(crate) const LIFE: &str = "life";
    pub(crate) const SECURE: &str = "secure";
    pub(crate) const HTTP_ONLY: &str = "http-only";
    pub(crate) const SAME_SITE: &str = "same-site";
    pub(crate) const CONNECT: &str = "connect-timeout";
    pub(crate) const FIRST_BYTE: &str = "first-byte-timeout";
    pub(crate) const IDLE: &str = "idle-timeout";
    pub(crate) const CHECK: &str = "check";
    pub(crate) const PATH: &str = "path";
    pub(crate) const EVERY: &str = "every";
    pub(crate) const SLOW_START: &str = "slow-start";
    pub(crate) const QUEUE_MAX: &str = "queue-max";
    pub(crate) const QUEUE_WAIT: &str = "queue-wait";

    /// Without a name.
    pub(crate) fn of_servers(
        urls: impl Iterator<Item = ProxyUrl>,
        balance: UpstreamBalance,
    ) -> Result<Self, String> {
        let server = |url| UpstreamServer { url, weight: 1, is_backup: false, requests_max: None };
        let (servers, slow_start) = (urls.map(server).collect::<Vec<_>>(), Duration::ZERO);
        check_paths(&servers)?;
        Ok(Self { servers, balance, slow_start, ..Self::new(String::new()) })
    }

    /// The file of the key that its cookies are signed with.
    pub(crate) fn key(&self) -> Option<&Path> {
        self.sticky.as_ref().map(|sticky| &*sticky.key)
    }

    fn new(name: String) -> Self {
        Self {
            name,
            servers: Vec::new(),
            balance: UpstreamBalance::LeastRequests,
            sticky: None,
            connect: None,
            first_byte: None,
            idle: None,
            check: None,
            slow_start: SLOW_START,
            queue_max: QUEUE_MAX,
            queue_wait: None,
        }
    }
}

/// The name of an upstream, which no address looks like.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    let is_name =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    is_name
        .then(|| text.to_owned())
        .ok_or_else(|| format!("'{text}' is no name: write letters, digits and dashes"))
}

/// A name, and words such as `balance=round-robin`.
pub(super) fn parse(text: &str) -> Result<NamedUpstream, String> {
    let mut words = text.split_ascii_whitespace();
    let mut upstream = NamedUpstream::new(parse_name(words.next().unwrap_or_default())?);
    let (mut balance, mut hash) = (None, None);
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is no NAME=VALUE"))?;
        let time = || duration::parse_positive(value).map_err(|why| format!("{key}: {why}"));
        match key {
            NamedUpstream::SERVERS => upstream.servers.push(server(value)?),
            NamedUpstream::BALANCE => balance = Some(value),
            NamedUpstream::HASH => hash = Some(hash_by(value)?),
            NamedUpstream::STICKY => upstream.sticky = Some(sticky(value)?),
            NamedUpstream::CONNECT => upstream.connect = Some(time()?),
            NamedUpstream::FIRST_BYTE => upstream.first_byte = Some(time()?),
            NamedUpstream::IDLE => upstream.idle = Some(time()?),
            NamedUpstream::CHECK => upstream.check = Some(check(value)?),
            NamedUpstream::SLOW_START => {
                upstream.slow_start = duration::parse(value).map_err(|why| format!("{key}: {why}"))?;
            }
            NamedUpstream::QUEUE_MAX => upstream.queue_max = number(key, value)?,
            NamedUpstream::QUEUE_WAIT => upstream.queue_wait = Some(time()?),
            _ => return Err(format!("an upstream has no '{key}'")),
        }
    }
    upstream.balance =
        match (balance, hash) {
            (None | Some(LEAST_REQUESTS), None) => UpstreamBalance::LeastRequests,
            (Some(ROUND_ROBIN), None) => UpstreamBalance::RoundRobin,
            (None | Some(BY_HASH), Some(hash)) => UpstreamBalance::Hash(hash),
            (Some(BY_HASH), None) => return Err(
                "balance \"hash\" needs its hash: \"path\", \"client\", \"cookie:NAME\" or \"field:NAME\""
                    .into(),
            ),
            (Some(LEAST_REQUESTS | ROUND_ROBIN), Some(_)) => return Err("hash needs balance \"hash\"".into()),
            (Some(other), _) => {
                return Err(format!(
                    "'{other}' is no balance: write \"least-requests\", \"round-robin\" or \"hash\""
                ));
            }
        };
    check_servers(&upstream.servers)?;
    Ok(upstream)
}

fn check_servers(servers: &[UpstreamServer]) -> Result<(), String> {
    if servers.is_empty() {
        return Err("an upstream has its servers: servers = [\"http://127.0.0.1:3000\"]".into());
    };
    if servers.len() > SERVERS_MAX {
        return Err(format!("an upstream has {SERVERS_MAX} servers at most"));
    }
    check_paths(servers)?;
    let is_twice = |(place, server): (usize, &UpstreamServer)| {
        servers[..place].iter().any(|other| other.url == server.url)
    };
    if servers.iter().enumerate().any(is_twice) {
        return Err("a server is given twice".into());
    }
    match servers.iter().all(|server| server.is_backup) {
        true => Err("one server is no backup".into()),
        false => Ok(()),
    }
}

fn check_paths(servers: &[UpstreamServer]) -> Result<(), String> {
    let is_same = |one: &ProxyUrl, other: &ProxyUrl| one.base == other.base && one.is_http2 == other.is_http2;
    match servers.windows(2).all(|pair| is_same(&pair[0].url, &pair[1].url)) {
        true => Ok(()),
        false => Err("servers that answer the same have the same path and the same version of HTTP".into()),
    }
}

/// `URL,weight=3,backup,max-connections=20`.
fn server(text: &str) -> Result<UpstreamServer, String> {
    let mut parts = text.split(',');
    let url = proxy_url::parse(parts.next().unwrap_or_default())?;
    let mut server = UpstreamServer { url, weight: 1, is_backup: false, requests_max: None };
    check_once("a server", parts.clone())?;
    for part in parts {
        match part.split_once('=') {
            Some((key @ NamedUpstream::WEIGHT, value)) => {
                let weight = number(key, value)?;
                server.weight = u32::try_from(weight)
                    .ok()
                    .filter(|weight| (1..=WEIGHT_MAX).contains(weight))
                    .ok_or_else(|| format!("a weight is a number from 1 to {WEIGHT_MAX}"))?;
            }
            Some((key @ NamedUpstream::REQUESTS_MAX, value)) => {
                let most = number(key, value)?;
                server.requests_max = Some(most).filter(|most| *most > 0);
            }
            None if part == NamedUpstream::BACKUP => server.is_backup = true,
            _ => return Err(format!("a server has no '{part}'")),
        }
    }
    Ok(server)
}

/// Whether each part, such as `weight=3`, stands once.
fn check_once<'a>(what: &str, parts: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut keys = HashSet::new();
    let mut names = parts.map(|part| part.split_once('=').map_or(part, |(key, _)| key));
    match names.find(|key| !keys.insert(*key)) {
        Some(key) => Err(format!("{what} has '{key}' twice")),
        None => Ok(()),
    }
}

/// `path=/healthz,every=5s`.
fn check(text: &str) -> Result<(String, Duration), String> {
    check_once("a check", text.split(','))?;
    let (mut path, mut every) = (None, CHECK_EVERY);
    for part in text.split(',') {
        match part.split_once('=') {
            Some((NamedUpstream::PATH, value))
                if value.starts_with('/') && value.bytes().all(|byte| byte.is_ascii_graphic()) =>
            {
                path = Some(value.to_owned());
            }
            Some((NamedUpstream::EVERY, value)) => {
                every = duration::parse_positive(value)?;
                if every < CHECK_EVERY_MIN {
                    return Err("servers are checked every second at most: every is a second at least".into());
                }
            }
            _ => return Err("write a check as { path = \"/healthz\", every = \"5s\" }".into()),
        }
    }
    path.map(|path| (path, every)).ok_or_else(|| "a check needs its path".into())
}

/// `cookie=NAME,key=FILE,life=8h,secure=on,http-only=off,same-site=strict`.
fn sticky(text: &str) -> Result<StickyTerms, String> {
    check_once("sticky", text.split(','))?;
    let (mut name, mut key, same_site) = (None, None, SameSite::Lax);
    let mut terms = StickyTerms {
        name: String::new(),
        key: "".into(),
        life_s: None,
        secure: None,
        http_only: true,
        same_site,
    };
    for part in text.split(',') {
        match part.split_once('=') {
            Some((NamedUpstream::COOKIE, value)) => name = Some(field::token(value)?.to_owned()),
            Some((NamedUpstream::KEY, path)) if !path.is_empty() => key = Some(path.into()),
            Some((NamedUpstream::LIFE, value)) => {
                let seconds = duration::parse_positive(value)?.as_secs();
                terms.life_s = Some(seconds).filter(|seconds| *seconds > 0);
                terms.life_s.ok_or("the life of a cookie is a second at least")?;
            }
            Some((NamedUpstream::SAME_SITE, value)) => {
                let known = SameSite::NAMES.iter().find(|(name, _)| *name == value);
                terms.same_site = known.ok_or("same-site is strict, lax or none")?.1;
            }
            Some((NamedUpstream::SECURE, value)) => {
                terms.secure = Some(switch(NamedUpstream::SECURE, value)?)
            }
            Some((NamedUpstream::HTTP_ONLY, value)) => {
                terms.http_only = switch(NamedUpstream::HTTP_ONLY, value)?;
            }
            _ => {
                return Err(
                    "write sticky as { cookie = \"NAME\", key = { file = \"/etc/flash/sticky.key\" } }"
                        .into(),
                );
            }
        }
    }
    terms.name = name.ok_or("sticky needs the name of its cookie")?;
    terms.key = key.ok_or("sticky needs a key: key = { file = \"/etc/flash/sticky.key\" }")?;
    // Browsers drop such a cookie.
    if terms.same_site == SameSite::None && terms.secure == Some(false) {
        return Err("same-site \"none\" needs a cookie that is secure".into());
    }
    Ok(terms)
}

fn switch(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{key} is on or off")),
    }
}

fn hash_by(text: &str) -> Result<HashBy, String> {
    let name = |name: &str| field::token(name).map(|name| name.as_bytes().into());
    match text.split_once(':') {
        None if text == "path" => Ok(HashBy::Path),
        None if text == "client" => Ok(HashBy::Client),
        Some(("cookie", cookie)) => name(cookie).map(HashBy::Cookie),
        Some(("field", field)) => name(field).map(HashBy::Field),
        _ => {
            Err(format!("'{text}' is no hash: write \"path\", \"client\", \"cookie:NAME\" or \"field:NAME\""))
        }
    }
}

fn number(key: &str, value: &str) -> Result<usize, String> {
    value.parse().map_err(|_| format!("{key} is a whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words() {
        let upstream = parse(
            "app servers=http://a:80,weight=3,max-connections=20 servers=https://b,backup hash=cookie:sid \
             connect-timeout=2s first-byte-timeout=3s idle-timeout=4s check=path=/healthz,every=7s slow-start=0 \
             queue-max=5 queue-wait=6s sticky=cookie=srv,key=/k,life=8h,secure=on,http-only=off,same-site=none",
        )
        .unwrap();
        let of = |server: &UpstreamServer| (server.weight, server.is_backup, server.requests_max);
        assert_eq!(
            upstream.servers.iter().map(of).collect::<Vec<_>>(),
            [(3, false, Some(20)), (1, true, None)]
        );
        assert_eq!(upstream.balance, UpstreamBalance::Hash(HashBy::Cookie(b"sid"[..].into())));
        let sticky = StickyTerms {
            name: "srv".into(),
            key: "/k".into(),
            life_s: Some(8 * 3600),
            secure: Some(true),
            http_only: false,
            same_site: SameSite::None,
        };
        assert_eq!(upstream.sticky, Some(sticky));
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
        let times = [upstream.connect, upstream.first_byte, upstream.idle, upstream.queue_wait];
        assert_eq!(times.map(seconds), [2, 3, 4, 6].map(Some));
        assert_eq!(upstream.check, Some(("/healthz".into(), Duration::from_secs(7))));
        assert_eq!((upstream.slow_start, upstream.queue_max), (Duration::ZERO, 5));
        assert_eq!(parse("app servers=http://a").unwrap().balance, UpstreamBalance::LeastRequests);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("", "is no name"),
            ("a/b servers=http://a", "is no name"),
            ("app", "has its servers"),
            ("app servers=a:80", "is no server"),
            ("app servers=http://a,weight=0", "from 1 to 1000"),
            ("app servers=http://a,wait=0", "a server has no 'wait=0'"),
            ("app servers=http://a servers=http://a", "given twice"),
            ("app servers=http://a/x servers=http://b/y", "have the same path"),
            ("app servers=http://a servers=h2c://b", "the same version of HTTP"),
            ("app servers=http://a,weight=2,weight=3", "a server has 'weight' twice"),
            ("app servers=http://a,backup", "one server is no backup"),
            ("app servers=http://a balance=random", "is no balance"),
            ("app servers=http://a balance=hash", "needs its hash"),
            ("app servers=http://a balance=round-robin hash=path", "hash needs balance"),
            ("app servers=http://a hash=ip", "is no hash"),
            ("app servers=http://a hash=cookie:a;b", ""),
            ("app servers=http://a check=every=5s", "needs its path"),
            ("app servers=http://a check=path=healthz", "write a check as"),
            ("app servers=http://a check=path=/x,every=500ms", "a second at least"),
            ("app servers=http://a check=path=/x,path=/y", "a check has 'path' twice"),
            ("app servers=http://a sticky=cookie=s,cookie=t,key=/k", "sticky has 'cookie' twice"),
            ("app servers=http://a sticky=cookie=a", "needs a key"),
            ("app servers=http://a sticky=key=/k", "needs the name"),
            ("app servers=http://a sticky=cookie=a,key=/k,life=1ms", "a second at least"),
            ("app servers=http://a sticky=cookie=a,key=/k,same-site=all", "strict, lax or none"),
            ("app servers=http://a sticky=cookie=a,key=/k,same-site=none,secure=off", "that is secure"),
            ("app servers=http://a sticky=cookie=a,key=/k,secure=yes", "on or off"),
            ("app servers=http://a sticky=cookie=a,key=/k,domain=b", "write sticky as"),
            ("app servers=http://a retries=3", "has no 'retries'"),
            ("app servers=http://a queue-max=x", "whole number"),
        ] {
            let said = parse(text).expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
