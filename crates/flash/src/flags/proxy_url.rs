//! The address of an HTTP server behind this one.

use std::path::PathBuf;

use flash_core::site::redirect::bare_host;

use super::route::Upstream;

/// A server, and what stands before the path of each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyUrl {
    pub upstream: Upstream,
    /// The server's name, if it speaks TLS.
    pub tls: Option<String>,
    /// It speaks HTTP/2.
    pub is_http2: bool,
    /// Without a slash at its end.
    pub base: String,
}

impl ProxyUrl {
    pub(crate) fn scheme(&self) -> &'static str {
        match (self.is_http2, &self.tls) {
            (false, None) => "http",
            (false, Some(_)) => "https",
            (true, None) => "h2c",
            (true, Some(_)) => "h2",
        }
    }

    /// Its host and port, if it has them.
    pub(crate) fn authority(&self) -> Option<Box<[u8]>> {
        match &self.upstream {
            Upstream::Inet(authority) => Some(authority.as_bytes().into()),
            Upstream::Unix(_) => None,
        }
    }
}

pub(super) fn parse(text: &str) -> Result<ProxyUrl, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        return match path.has_root() {
            true => Ok(ProxyUrl {
                upstream: Upstream::Unix(path),
                tls: None,
                is_http2: false,
                base: String::new(),
            }),
            false => Err("write the whole path of the socket: unix:/run/app.sock".into()),
        };
    }
    let wrong = || {
        format!(
            "'{text}' is no server: write http://HOST:PORT, https://HOST:PORT, h2://HOST:PORT, h2c://HOST:PORT or unix:/PATH, or the name of an upstream"
        )
    };
    let (port, (is_http2, has_tls), rest) = match text.split_once("://") {
        Some(("http", rest)) => (80, (false, false), rest),
        Some(("https", rest)) => (443, (false, true), rest),
        Some(("h2c", rest)) => (80, (true, false), rest),
        Some(("h2", rest)) => (443, (true, true), rest),
        _ => return Err(wrong()),
    };
    let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = bare_host(authority.as_bytes()).map_or("", |host| &authority[..host.len()]);
    let port = match authority[host.len()..].strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0),
        None => Some(port),
    };
    let base = base.trim_end_matches('/');
    let is_right = !host.is_empty() && base.bytes().all(is_of_path);
    let port: u16 = port.filter(|_| is_right).ok_or_else(wrong)?;
    let tls = has_tls.then(|| host.to_owned());
    Ok(ProxyUrl { upstream: Upstream::Inet(format!("{host}:{port}")), tls, is_http2, base: base.into() })
}

/// Visible, and neither the beginning of a query nor of a fragment.
fn is_of_path(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"?#".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let server = |address: &str, base: &str, tls: Option<&str>| ProxyUrl {
            upstream: Upstream::Inet(address.into()),
            tls: tls.map(str::to_owned),
            is_http2: false,
            base: base.into(),
        };
        let inet = |address, base| server(address, base, None);
        for (text, url) in [
            ("http://127.0.0.1:3000", inet("127.0.0.1:3000", "")),
            ("http://app/", inet("app:80", "")),
            ("http://[::1]:8000/v2/api/", inet("[::1]:8000", "/v2/api")),
            ("http://[::1]", inet("[::1]:80", "")),
            ("https://a.internal", server("a.internal:443", "", Some("a.internal"))),
            ("h2://a:8443", ProxyUrl { is_http2: true, ..server("a:8443", "", Some("a")) }),
            ("h2c://a/x", ProxyUrl { is_http2: true, ..inet("a:80", "/x") }),
            ("https://[::1]:8443/x", server("[::1]:8443", "/x", Some("[::1]"))),
            (
                "unix:/run/app.sock",
                ProxyUrl {
                    upstream: Upstream::Unix("/run/app.sock".into()),
                    tls: None,
                    is_http2: false,
                    base: String::new(),
                },
            ),
        ] {
            assert_eq!(parse(text), Ok(url), "{text}");
        }
        for text in [
            "",
            "localhost:3000",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:x",
            "http://a b",
            "http://a/?b",
            "https://",
            "unix:",
            "unix:app.sock",
            "http://a:b:80",
            "http://::1",
            "http://a:",
            "http://a@b",
            "ftp://a",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
