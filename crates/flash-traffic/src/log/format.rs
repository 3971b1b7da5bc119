//! The formats that logs are written in: what one line says.

use std::fmt;
use std::str::FromStr;

use super::calendar::{DAY_SECONDS, clock, common, day, number};
use super::request::Request;

/// How a log's lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Common Log Format: `host ident user [01/Aug/1995:00:00:01 -0400] "GET / HTTP/1.0" 200 1839`.
    Common,
    /// Combined Log Format: the same with `"referer" "user agent"`, and whatever a server puts after them.
    Combined,
    /// That of the US EPA's log, without a month: `host [29:23:53:25] "GET / HTTP/1.0" 200 1497`.
    Epa,
    /// Commas, and no method: `client,30/Apr/1998,22:46:12,/images/11104.gif,200,508`.
    WorldCup,
}

/// A name that is no format's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no log format; common, combined, epa and worldcup are")]
pub struct UnknownFormat(pub String);

impl Format {
    pub(super) const ALL: [Format; 4] = [Format::Common, Format::Combined, Format::Epa, Format::WorldCup];

    /// `common`, `combined`, `epa` or `worldcup`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Combined => "combined",
            Self::Epa => "epa",
            Self::WorldCup => "worldcup",
        }
    }

    /// The format of most of these lines; None where fewer than half of them are of one.
    pub(super) fn recognise<'a>(lines: impl Iterator<Item = &'a [u8]> + Clone) -> Option<Self> {
        let of_format = |format: Format| lines.clone().filter(|line| format.parse(line).is_some()).count();
        let format = Self::ALL.into_iter().max_by_key(|format| of_format(*format))?;
        let found = of_format(format);
        (found > 0 && 2 * found >= lines.clone().count()).then_some(format)
    }

    /// What a line of this format says.
    pub fn parse(self, line: &[u8]) -> Option<Request<'_>> {
        match self {
            Self::Common | Self::Combined => {
                let (_, rest) = split(line, b" [")?;
                let (date, rest) = split(rest, b"] \"")?;
                let (request, rest) = reply(rest, common(date)?)?;
                let as_named = match self {
                    Self::Common => rest.is_empty(),
                    _ => rest.starts_with(b" \""),
                };
                as_named.then_some(request)
            }
            Self::Epa => {
                let (_, rest) = split(line, b" [")?;
                let (date, rest) = split(rest, b"] \"")?;
                let (day, time) = split(date, b":")?;
                let at_seconds =
                    number(day).filter(|day| (1..=31).contains(day))? * DAY_SECONDS + clock(time)?;
                reply(rest, at_seconds).filter(|(_, rest)| rest.is_empty()).map(|(request, _)| request)
            }
            Self::WorldCup => {
                // URLs may contain commas, the fields around them none.
                let mut before = line.splitn(4, |&byte| byte == b',');
                let (_, date, time) = (before.next()?, before.next()?, before.next()?);
                let mut after = before.next()?.rsplitn(3, |&byte| byte == b',');
                let (bytes, status, target) = (after.next()?, after.next()?, after.next()?);
                let at_seconds = day(date)? * DAY_SECONDS + clock(time)?;
                let (status, bytes) = (status_code(status)?, size(bytes)?);
                Some(Request { method: b"GET", target, status, bytes, at_seconds })
            }
        }
    }
}

/// `GET / HTTP/1.0" 200 1839`, and what follows it.
fn reply(text: &[u8], at_seconds: i64) -> Option<(Request<'_>, &[u8])> {
    // Some servers log the quotes that clients send as they come, so the closing one is known by what follows.
    let quotes = text.iter().enumerate().filter(|(_, byte)| **byte == b'"').map(|(place, _)| place);
    for quote in quotes {
        let Some((status, rest)) = text[quote + 1..].strip_prefix(b" ").and_then(|rest| split(rest, b" "))
        else {
            continue;
        };
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        if let (Some(status), Some(bytes)) = (status_code(status), size(&rest[..end])) {
            let mut words = text[..quote].split(|&byte| byte == b' ');
            // A target that has spaces in it is, for the servers of these logs, its first word.
            let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            return Some((Request { method, target, status, bytes, at_seconds }, &rest[end..]));
        }
    }
    None
}

fn status_code(text: &[u8]) -> Option<u16> {
    number(text).filter(|status| text.len() == 3 && (100..1_000).contains(status))?.try_into().ok()
}

/// A dash is a size that the server did not log.
fn size(text: &[u8]) -> Option<Option<u64>> {
    if text == b"-" {
        return Some(None);
    }
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok().map(Some)
}

fn split<'a>(text: &'a [u8], by: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let place = text.windows(by.len()).position(|window| window == by)?;
    Some((&text[..place], &text[place + by.len()..]))
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| UnknownFormat(name.into()))
    }
}
