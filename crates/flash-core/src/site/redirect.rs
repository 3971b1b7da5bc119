//! `redirect`: where a request is sent instead, made of the operator's text and the request.
//!
//! What a client writes gets into `Location` in two forms only. A path is the canonical one, encoded anew, so it has one slash at
//! its beginning and no line break. A host has the bytes of hosts and nothing else. The query is kept as it came, or left out if the
//! operator's text ends in `?`.

use flash_http::head::{RequestHead, Target};
use flash_http::status::Status;
use flash_http::{Scheme, percent};

use crate::path::SitePath;

/// A redirection: a status, and a location with gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    status: Status,
    pieces: Box<[Piece]>,
    keeps_query: bool,
    /// Behind the query, with its `#`.
    fragment: Box<str>,
    /// What `{rest}` leaves out: the prefix of the place.
    prefix: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    /// `{path}`: the request's path.
    Path,
    /// `{rest}`: what follows the prefix of the place.
    Rest,
    /// `{host}`: the request's host, without its port.
    Host,
}

const STATUSES: [Status; 5] = [
    Status::MOVED_PERMANENTLY,
    Status::FOUND,
    Status::SEE_OTHER,
    Status::TEMPORARY_REDIRECT,
    Status::PERMANENT_REDIRECT,
];

impl Redirect {
    /// Reads `TO`, or `STATUS TO`.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (status, to) = match text.split_once(' ') {
            Some((status, to)) => {
                let known = STATUSES.into_iter().find(|known| known.0.to_string() == status);
                (known.ok_or("the status of a redirection is 301, 302, 303, 307 or 308")?, to)
            }
            None => (Status::PERMANENT_REDIRECT, text),
        };
        if let Some(wrong) = to.chars().find(|c| !c.is_ascii_graphic() || "\"<>\\^`|".contains(*c)) {
            return Err(format!(
                "'{}' does not stand in a URL: write it percent-encoded",
                wrong.escape_debug()
            ));
        }
        let of_host = to.strip_prefix("https://").or_else(|| to.strip_prefix("http://"));
        let is_path = |to: &str| to.starts_with('/') && !to.starts_with("//");
        let begins_well = match of_host {
            Some(rest) => {
                rest.starts_with("{host}")
                    || rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
            }
            None => is_path(to) || to.starts_with("{path}") || to.starts_with("{rest}"),
        };
        if !begins_well {
            return Err("write a path such as /new, or a URL such as https://example.org{path}".into());
        }
        let (to, fragment) = to.split_at(to.find('#').unwrap_or(to.len()));
        if fragment.contains(['{', '}']) {
            return Err("nothing is filled in behind a #".into());
        }
        let (to, keeps_query) = to.strip_suffix('?').map_or((to, true), |to| (to, false));
        Ok(Self {
            status,
            pieces: pieces(to)?,
            keeps_query,
            fragment: fragment.into(),
            prefix: Box::default(),
        })
    }

    /// The same for a place with this prefix.
    #[must_use]
    pub fn within(self, prefix: &[u8]) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Whether it depends on the prefix of its place.
    pub fn has_rest(&self) -> bool {
        self.pieces.contains(&Piece::Rest)
    }

    pub fn status(&self) -> Status {
        self.status
    }

    /// The value of `Location`. `None` if the request has no path or host that can be filled in. `at` is the path in the place, if the
    /// request's own is elsewhere.
    pub(crate) fn location(&self, head: &RequestHead<'_>, at: Option<&SitePath<'_>>) -> Option<Vec<u8>> {
        let Target::Origin { path, query } = head.target else { return None };
        let path = SitePath::parse(path).ok()?;
        let mut location = self.filled(&path, at.unwrap_or(&path), head.host)?;
        if let Some(query) = query.filter(|_| self.keeps_query) {
            location.push(if location.contains(&b'?') { b'&' } else { b'?' });
            location.extend_from_slice(query);
        }
        location.extend_from_slice(self.fragment.as_bytes());
        Some(location)
    }

    /// The location for a path, without a query.
    pub fn fill(&self, path: &SitePath<'_>, host: Option<&[u8]>) -> Option<Vec<u8>> {
        self.filled(path, path, host)
    }

    fn filled(&self, path: &SitePath<'_>, at: &SitePath<'_>, host: Option<&[u8]>) -> Option<Vec<u8>> {
        let mut location = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => location.extend_from_slice(text.as_bytes()),
                Piece::Path => percent::encode_path(path.as_bytes(), &mut location),
                Piece::Rest => {
                    let (path, at) = (path.as_bytes(), at.as_bytes());
                    let rest = path.strip_prefix(&*self.prefix).or_else(|| at.strip_prefix(&*self.prefix));
                    percent::encode_path(rest.unwrap_or(path), &mut location);
                }
                Piece::Host => location.extend_from_slice(bare_host(host?)?),
            }
        }
        if location.is_empty() {
            location.push(b'/');
        }
        Some(location)
    }
}

fn pieces(to: &str) -> Result<Box<[Piece]>, String> {
    let mut pieces = Vec::new();
    let mut rest = to;
    while let Some(begin) = rest.find(['{', '}']) {
        let (text, gap) = rest.split_at(begin);
        if !text.is_empty() {
            pieces.push(Piece::Text(text.into()));
        }
        let known = [("{path}", Piece::Path), ("{rest}", Piece::Rest), ("{host}", Piece::Host)];
        let found = known.into_iter().find_map(|(name, piece)| Some((gap.strip_prefix(name)?, piece)));
        let Some((after, piece)) = found else {
            return Err("only {path}, {rest} and {host} are filled in".into());
        };
        pieces.push(piece);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.into()));
    }
    Ok(pieces.into())
}

/// The path that a location leads to, if it is one of this host and scheme.
pub(crate) fn path_here<'l>(location: &'l [u8], host: Option<&[u8]>, scheme: Scheme) -> Option<SitePath<'l>> {
    let mut path = location;
    if !path.starts_with(b"/") {
        let rest = path.strip_prefix(scheme.name().as_bytes())?.strip_prefix(b"://")?;
        let (authority, rest) =
            rest.split_at(rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len()));
        let port: &[u8] = if scheme == Scheme::Https { b":443" } else { b":80" };
        let [there, here] = [authority, host?].map(|host| host.strip_suffix(port).unwrap_or(host));
        if !there.eq_ignore_ascii_case(here) {
            return None;
        }
        path = rest;
    }
    match &path[..path.iter().position(|byte| b"?#".contains(byte)).unwrap_or(path.len())] {
        b"" => SitePath::parse(b"/").ok(),
        path => SitePath::parse(path).ok(),
    }
}

/// A host without its port, if it has the bytes of a host.
pub fn bare_host(host: &[u8]) -> Option<&[u8]> {
    let end = match host.first()? {
        b'[' => host.iter().position(|&byte| byte == b']')? + 1,
        _ => host.iter().position(|&byte| byte == b':').unwrap_or(host.len()),
    };
    let (host, port) = host.split_at(end);
    let is_right = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(byte);
    let is_port = port.is_empty() || (port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit));
    (!host.is_empty() && is_port && host.iter().all(is_right)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(redirect: &str, path: &str, host: Option<&str>) -> Option<String> {
        let redirect = Redirect::parse(redirect).unwrap().within(b"/old");
        let path = SitePath::parse(path.as_bytes()).unwrap();
        redirect.fill(&path, host.map(str::as_bytes)).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn gaps_are_filled_with_what_is_safe() {
        for (redirect, path, location) in [
            ("/new", "/old/x", "/new"),
            ("/new{rest}", "/old/x/y", "/new/x/y"),
            ("/new{rest}", "/old", "/new"),
            ("{rest}", "/old", "/"),
            ("{rest}", "/old/x", "/x"),
            ("{path}.html", "/a b", "/a%20b.html"),
            (
                "https://b.example{path}",
                "//evil.example/%0d%0aX:%20y",
                "https://b.example/evil.example/%0D%0AX:%20y",
            ),
            ("{path}", "/%2e//%2e//evil.example", "/evil.example"),
            ("https://{host}{path}", "/x", "https://a.example/x"),
            ("https://b.example/?from={path}", "/a&b", "https://b.example/?from=/a&b"),
        ] {
            assert_eq!(
                to(redirect, path, Some("a.example:8080")).as_deref(),
                Some(location),
                "{redirect} {path}"
            );
        }
    }

    #[test]
    fn a_host_that_is_none_is_not_filled_in() {
        let host = |host| to("https://{host}{path}", "/x", host);
        assert_eq!(host(Some("[::1]:80")).as_deref(), Some("https://[::1]/x"));
        for wrong in
            [None, Some(""), Some("a@b"), Some("a/b"), Some("a:b@c"), Some("a b"), Some("[::1"), Some(":80")]
        {
            assert_eq!(host(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn statuses_and_wrong_targets() {
        assert_eq!(Redirect::parse("/new").unwrap().status(), Status::PERMANENT_REDIRECT);
        assert_eq!(Redirect::parse("301 /new").unwrap().status(), Status::MOVED_PERMANENTLY);
        for wrong in [
            "",
            "new",
            "//b.example",
            "javascript:x",
            "ftp://b.example",
            "https://",
            "https://{path}",
            "https:///x",
            "304 /new",
            "301",
            "301  /new",
            "/a b",
            "/ü",
            "/\r\n",
            "/{pth}",
            "/{",
            "/}",
            "/#{path}",
            "/a\"b",
        ] {
            assert!(Redirect::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
