//! What becomes of the fields of a response of an HTTP server, for the client of one request.
//!
//! Where a route's rules ask for it, addresses of the application itself become the client's: an application knows itself by the address
//! of its server, or by the `Host` that it was told, and below the path that stands before its own.

use std::borrow::Cow;
use std::sync::Arc;

use flash_http::Scheme;
use flash_http::head::Head;

use crate::clock::Now;
use crate::connection::transport::TransportInfo;
use crate::site::proxy_rules::{ProxyRules, ResponseRules};
use crate::site::redirect::bare_host;
use crate::site::sticky::StickyRequest;

/// A field's name and its value.
type Changed<'h> = (&'h [u8], Cow<'h, [u8]>);

/// What is known before the response is there. A request without it gets the fields as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseChanges {
    /// `None` if they change no field.
    rules: Option<Arc<ProxyRules>>,
    /// As the client sees the application: its scheme and host, and the path that is left out for the application.
    scheme: &'static str,
    host: Box<[u8]>,
    prefix: Box<[u8]>,
    /// The session of the request, if those of its route stay with their servers.
    sticky: Option<StickyRequest>,
    /// The value of a `Set-Cookie` for it.
    cookie: Option<Vec<u8>>,
}

impl ResponseChanges {
    /// By the rules of the request's route, where the application does not see the prefix. `None` if they change nothing.
    pub(super) fn new(
        rules: &Arc<ProxyRules>,
        prefix: &[u8],
        head: &Head<'_>,
        client: &TransportInfo,
        now: &Now,
    ) -> Option<Self> {
        let sticky = rules.sticky(head, client.scheme == Scheme::Https, now.unix_seconds() as u64);
        match (rules.response.is_empty(), sticky) {
            (true, None) => None,
            (true, sticky) => Some(Self { sticky, ..Self::default() }),
            (false, sticky) => Some(Self {
                rules: Some(Arc::clone(rules)),
                scheme: client.scheme.name(),
                host: head.host.unwrap_or_default().into(),
                prefix: prefix.into(),
                sticky,
                cookie: None,
            }),
        }
    }

    /// The server that its session stays with.
    pub(super) fn server(&self) -> Option<usize> {
        Some(self.sticky.as_ref()?.asked?.server)
    }

    /// This server of the route answers.
    pub(super) fn answered_by(&mut self, server: usize, now_s: u64) {
        self.cookie = self.sticky.as_ref().and_then(|sticky| sticky.set_cookie(server, now_s));
    }

    /// The fields that the client gets of these.
    pub(super) fn of<'h>(
        this: Option<&'h Self>,
        fields: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) -> impl Iterator<Item = Changed<'h>> {
        let changed = move |name: &[u8], value: &'h [u8]| match this {
            Some(this) => this.changed(name, value),
            None => Some(value.into()),
        };
        let passing = fields.filter_map(move |(name, value)| Some((name, changed(name, value)?)));
        passing.chain(this.into_iter().flat_map(Self::own))
    }

    /// Those that are not the application's.
    fn own(&self) -> impl Iterator<Item = Changed<'_>> {
        let set = self.rules.iter().flat_map(|rules| &rules.response.fields);
        let set = set.filter(|(_, value)| !value.is_empty()).map(|(name, value)| (&**name, &**value));
        let cookie = self.cookie.iter().map(|cookie| (&b"Set-Cookie"[..], &cookie[..]));
        set.chain(cookie).map(|(name, value)| (name, Cow::Borrowed(value)))
    }

    /// `None` if the field does not pass.
    fn changed<'h>(&self, name: &[u8], value: &'h [u8]) -> Option<Cow<'h, [u8]>> {
        let Some(rules) = self.rules.as_deref() else { return Some(value.into()) };
        let ResponseRules { redirects, cookies, fields, .. } = &rules.response;
        if fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return None;
        }
        let changed = if *redirects && name.eq_ignore_ascii_case(b"location") {
            self.location(rules, value)
        } else if *redirects && name.eq_ignore_ascii_case(b"refresh") {
            self.refresh(rules, value)
        } else if *cookies && name.eq_ignore_ascii_case(b"set-cookie") {
            Some(self.set_cookie(rules, value))
        } else {
            None
        };
        Some(changed.map_or(value.into(), Cow::Owned))
    }

    /// An address of the application, as its client knows it. `None` for any other.
    fn location(&self, rules: &ProxyRules, address: &[u8]) -> Option<Vec<u8>> {
        if let [b'/', rest @ ..] = address {
            // Two slashes begin another server's name (RFC 3986 §4.2), in what is said and in what would come of it.
            let is_other = |rest: &[u8]| matches!(rest.first(), Some(b'/' | b'\\'));
            let path = self.path(rules, address).filter(|path| !is_other(&path[1..]));
            return path.filter(|_| !is_other(rest));
        }
        let schemes: [(&[u8], &[u8]); 2] = [(b"http://", b":80"), (b"https://", b":443")];
        let (rest, port) = schemes.iter().find_map(|(scheme, port)| {
            let is_it = address.get(..scheme.len())?.eq_ignore_ascii_case(scheme);
            is_it.then(|| (&address[scheme.len()..], *port))
        })?;
        let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if !self.is_own(rules, authority, port) {
            return None;
        }
        let path = if path.starts_with(b"/") { Cow::Borrowed(path) } else { [b"/", path].concat().into() };
        // An application that knows its client's host may send it to TLS.
        let is_upgrade = port == b":443" && self.is_asked_for(rules, authority, port);
        let scheme = if is_upgrade { "https" } else { self.scheme };
        Some([scheme.as_bytes(), b"://", &self.host, &self.path(rules, &path)?].concat())
    }

    /// Whether the application is meant by this host, whose scheme has this port.
    fn is_own(&self, rules: &ProxyRules, authority: &[u8], port: &[u8]) -> bool {
        let told = rules.host.as_deref().unwrap_or(&self.host);
        let mut own = [told].into_iter().chain(rules.response.servers.iter().map(|of| &**of));
        own.any(|own| is_alike(own, authority, port))
    }

    /// Whether this is the host that the client has asked for, and the application knows.
    fn is_asked_for(&self, rules: &ProxyRules, authority: &[u8], port: &[u8]) -> bool {
        rules.host.is_none() && is_alike(&self.host, authority, port)
    }

    /// A path of the application, as its client knows it. `None` if it is not below what stands before each path.
    fn path(&self, rules: &ProxyRules, path: &[u8]) -> Option<Vec<u8>> {
        let rest = path.strip_prefix(&*rules.base)?;
        let is_below = rules.base.is_empty() || matches!(rest.first(), None | Some(b'/' | b'?' | b'#'));
        is_below.then(|| match [&self.prefix, rest].concat() {
            path if path.starts_with(b"/") => path,
            path => [b"/", &path[..]].concat(),
        })
    }

    /// `5; url=/login`
    fn refresh(&self, rules: &ProxyRules, value: &[u8]) -> Option<Vec<u8>> {
        let at = value.windows(4).position(|text| text.eq_ignore_ascii_case(b"url="))? + 4;
        let (before, address) = value.split_at(at);
        let quote = address.iter().take(1).copied().filter(|byte| b"'\"".contains(byte)).collect::<Vec<_>>();
        let inner = address.strip_prefix(&quote[..])?.strip_suffix(&quote[..])?;
        Some([before, &quote, &self.location(rules, inner.trim_ascii())?, &quote].concat())
    }

    /// RFC 6265 §4.1.1. Without a domain, the cookie is for the host that the client has asked.
    fn set_cookie(&self, rules: &ProxyRules, value: &[u8]) -> Vec<u8> {
        let attribute = |part: &[u8], wanted: &[u8]| -> Option<Vec<u8>> {
            let (name, value) = part.split_at(part.iter().position(|byte| *byte == b'=')?);
            name.trim_ascii().eq_ignore_ascii_case(wanted).then(|| value[1..].trim_ascii().to_vec())
        };
        let is_own_domain = |part: &[u8]| {
            let domain = attribute(part, b"domain");
            domain.is_some_and(|domain| self.is_own_host(rules, domain.strip_prefix(b".").unwrap_or(&domain)))
        };
        let parts = value.split(|byte| *byte == b';').enumerate();
        let parts = parts.filter(|(number, part)| *number == 0 || !is_own_domain(part));
        let changed = parts.map(|(number, part)| {
            let path = attribute(part, b"path").filter(|_| number > 0);
            match path.and_then(|path| self.path(rules, &path)) {
                Some(path) => [b" Path=", &path[..]].concat(),
                None => part.to_vec(),
            }
        });
        changed.collect::<Vec<_>>().join(&b';')
    }

    fn is_own_host(&self, rules: &ProxyRules, host: &[u8]) -> bool {
        let told = rules.host.iter().chain(&rules.response.servers);
        told.filter_map(|of| bare_host(of)).any(|own| own.eq_ignore_ascii_case(host))
    }
}

/// Whether two hosts are the same, if this is the port of the scheme.
fn is_alike(one: &[u8], other: &[u8], port: &[u8]) -> bool {
    let bare = |text: &[u8]| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
    bare(one) == bare(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(base: &str, prefix: &str, host: Option<&str>) -> ResponseChanges {
        let text = |text: &str| text.as_bytes().into();
        let fields = vec![(text("X-Powered-By"), text("")), (text("X-Own"), text("set"))];
        let servers = vec![text("10.0.0.1:8000"), text("a.internal:443")];
        let response = ResponseRules { redirects: true, cookies: true, fields, servers };
        let rules = ProxyRules { base: text(base), host: host.map(text), response, ..ProxyRules::default() };
        ResponseChanges {
            rules: Some(rules.into()),
            scheme: "https",
            host: text("example.org"),
            prefix: text(prefix),
            ..ResponseChanges::default()
        }
    }

    fn changed(of: &ResponseChanges, name: &str, value: &str) -> String {
        let value = of.changed(name.as_bytes(), value.as_bytes()).expect("it passes");
        String::from_utf8(value.into_owned()).unwrap()
    }

    #[test]
    fn an_application_that_knows_its_clients_host_may_send_it_to_tls() {
        let plain = |host| ResponseChanges { scheme: "http", ..changes("", "", host) };
        let to_tls = "https://example.org/login";
        assert_eq!(changed(&plain(None), "location", to_tls), to_tls);
        assert_eq!(changed(&plain(None), "location", "https://a.internal/x"), "http://example.org/x");
        assert_eq!(
            changed(&changes("", "", None), "location", "http://example.org/x"),
            "https://example.org/x"
        );
        assert_eq!(changed(&plain(Some("app")), "location", "https://app/x"), "http://example.org/x");
    }

    #[test]
    fn addresses_of_the_application_become_the_clients() {
        let below = changes("/v2", "/api", None);
        for (said, expected) in [
            ("http://10.0.0.1:8000/v2/login?x#y", "https://example.org/api/login?x#y"),
            ("HTTP://10.0.0.1:8000/v2", "https://example.org/api"),
            ("https://A.internal/v2/", "https://example.org/api/"),
            ("http://example.org/v2/a", "https://example.org/api/a"),
            ("/v2/login", "/api/login"),
            ("/v2?x", "/api?x"),
            // What is not the application's stays.
            ("/v22/login", "/v22/login"),
            ("/other", "/other"),
            ("http://10.0.0.1:8000/other", "http://10.0.0.1:8000/other"),
            ("http://10.0.0.1/v2/a", "http://10.0.0.1/v2/a"),
            ("http://other.org/v2/a", "http://other.org/v2/a"),
            ("http://a.internal/v2/a", "http://a.internal/v2/a"),
            ("//10.0.0.1:8000/v2/a", "//10.0.0.1:8000/v2/a"),
            ("login", "login"),
        ] {
            assert_eq!(changed(&below, "location", said), expected, "{said}");
        }
        let plain = changes("", "", Some("app.internal"));
        assert_eq!(changed(&plain, "Location", "http://app.internal:80"), "https://example.org/");
        assert_eq!(changed(&plain, "Location", "http://app.internal?x"), "https://example.org/?x");
        assert_eq!(changed(&plain, "Location", "/a"), "/a");
        assert_eq!(changed(&changes("", "/api", None), "Location", "/a"), "/api/a");
        assert_eq!(changed(&changes("/v2", "", None), "Location", "/v2"), "/");
        // What would lead to another server stays as the application has said it.
        for said in ["/v2//evil.example/x", "/v2/\\evil.example/x"] {
            assert_eq!(changed(&changes("/v2", "", None), "Location", said), said);
        }
        for (said, expected) in [
            ("5; url=/v2/a", "5; url=/api/a"),
            ("0;URL='http://10.0.0.1:8000/v2/a'", "0;URL='https://example.org/api/a'"),
            ("5", "5"),
            ("5; url=http://other.org/", "5; url=http://other.org/"),
            ("5; url=\"", "5; url=\""),
        ] {
            assert_eq!(changed(&below, "Refresh", said), expected, "{said}");
        }
    }

    #[test]
    fn cookies_are_for_the_clients_path_and_host() {
        let below = changes("/v2", "/api", None);
        for (said, expected) in [
            ("a=b; Path=/v2/x; HttpOnly", "a=b; Path=/api/x; HttpOnly"),
            ("a=b; path=/v2", "a=b; Path=/api"),
            ("a=b; Path=/; Domain=.a.internal; Secure", "a=b; Path=/; Secure"),
            ("a=b; Domain=other.internal", "a=b; Domain=other.internal"),
            ("path=/v2/x", "path=/v2/x"),
            ("domain=a.internal", "domain=a.internal"),
        ] {
            assert_eq!(changed(&below, "Set-Cookie", said), expected, "{said}");
        }
    }

    #[test]
    fn fields_are_set_and_left_out() {
        let changes = changes("", "", None);
        let said: [(&[u8], &[u8]); 3] = [(b"x-powered-by", b"x"), (b"X-OWN", b"its"), (b"X-A", b"b")];
        let got: Vec<_> = ResponseChanges::of(Some(&changes), said.into_iter())
            .map(|(name, value)| (name, value.into_owned()))
            .collect();
        assert_eq!(got, [(&b"X-A"[..], b"b".to_vec()), (b"X-Own", b"set".to_vec())]);
        assert_eq!(ResponseChanges::of(None, said.into_iter()).count(), 3);
    }
}
