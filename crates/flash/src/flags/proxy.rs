//! The flags for HTTP servers behind this one.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use flash_core::site::redirect::bare_host;

use super::choices::Balance;
use super::route::Upstream;
use super::{duration, field};

const HEADING: &str = "Proxy";

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct Proxy {
    /// Pass requests to the HTTP server at URL: http://HOST:PORT, https://HOST:PORT, or unix:/PATH. A path behind it stands before that of each request. Of
    /// several servers, each request goes to one. With --fallback proxy, they get what no file answers; else they get all. May be
    /// given repeatedly
    #[arg(long, value_name = "URL", value_parser = parse, help_heading = HEADING)]
    pub proxy: Vec<ProxyUrl>,

    /// Which of several servers gets a request
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Balance::LeastRequests, help_heading = HEADING)]
    pub balance: Balance,

    /// The authorities, in PEM, of which one has signed the certificates of servers at https://. Without this flag, those that the system
    /// trusts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = HEADING)]
    pub proxy_ca: Option<PathBuf>,

    /// Ask the servers for this host. Without this flag, or with off, for the one that the client has asked for
    #[arg(long, value_name = "HOST", value_parser = parse_host, help_heading = HEADING)]
    pub proxy_host: Option<String>,

    /// Set a field of the requests that servers get. Without a value, they get none. May be given repeatedly
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_field, help_heading = HEADING)]
    pub proxy_header: Vec<ProxyField>,

    /// How long neither side of a WebSocket may say anything. Then it is closed
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse_positive, help_heading = HEADING)]
    pub tunnel_idle: Duration,
}

impl Proxy {
    /// The host that servers are asked for in place of the client's.
    pub(crate) fn other_host(&self) -> Option<&String> {
        self.proxy_host.as_ref().filter(|host| !host.is_empty())
    }
}

/// A server, and what stands before the path of each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyUrl {
    pub upstream: Upstream,
    /// The server's name, if it speaks TLS.
    pub tls: Option<String>,
    /// Without a slash at its end.
    pub base: String,
}

/// A field of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyField {
    pub name: String,
    pub value: String,
}

fn parse(text: &str) -> Result<ProxyUrl, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        return match path.has_root() {
            true => Ok(ProxyUrl { upstream: Upstream::Unix(path), tls: None, base: String::new() }),
            false => Err("write the whole path of the socket: unix:/run/app.sock".into()),
        };
    }
    let wrong = || format!("'{text}' is no server: write http://HOST:PORT, https://HOST:PORT or unix:/PATH");
    let (port, rest) = match text.split_once("://") {
        Some(("http", rest)) => (80, rest),
        Some(("https", rest)) => (443, rest),
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
    let tls = text.starts_with("https:").then(|| host.to_owned());
    Ok(ProxyUrl { upstream: Upstream::Inet(format!("{host}:{port}")), tls, base: base.into() })
}

/// Visible, and neither the beginning of a query nor of a fragment.
fn is_of_path(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"?#".contains(&byte)
}

/// An empty text stands for the client's.
fn parse_host(text: &str) -> Result<String, String> {
    match bare_host(text.as_bytes()) {
        _ if text == "off" => Ok(String::new()),
        Some(_) => Ok(text.into()),
        None => Err("write a host, such as app.internal:8080, or off".into()),
    }
}

fn parse_field(text: &str) -> Result<ProxyField, String> {
    let (name, value) = text.split_once(':').ok_or("write it as \"Name: value\"")?;
    let (name, value) = (field::token(name)?, field::parse_value(value)?);
    // They say where a request ends, and who is asked.
    let ours = ["content-length", "transfer-encoding", "connection", "upgrade", "host"];
    match ours.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        true => Err(format!("Flash itself writes {name}; proxy-host says which host is asked")),
        false => Ok(ProxyField { name: name.into(), value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let server = |address: &str, base: &str, tls: Option<&str>| ProxyUrl {
            upstream: Upstream::Inet(address.into()),
            tls: tls.map(str::to_owned),
            base: base.into(),
        };
        let inet = |address, base| server(address, base, None);
        for (text, url) in [
            ("http://127.0.0.1:3000", inet("127.0.0.1:3000", "")),
            ("http://app/", inet("app:80", "")),
            ("http://[::1]:8000/v2/api/", inet("[::1]:8000", "/v2/api")),
            ("http://[::1]", inet("[::1]:80", "")),
            ("https://a.internal", server("a.internal:443", "", Some("a.internal"))),
            ("https://[::1]:8443/x", server("[::1]:8443", "/x", Some("[::1]"))),
            (
                "unix:/run/app.sock",
                ProxyUrl { upstream: Upstream::Unix("/run/app.sock".into()), tls: None, base: String::new() },
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

    #[test]
    fn hosts() {
        assert_eq!(parse_host("app.internal:8080").as_deref(), Ok("app.internal:8080"));
        assert_eq!(parse_host("off").as_deref(), Ok(""), "the client's");
        assert!(parse_host("a b").is_err());
    }

    #[test]
    fn fields() {
        assert_eq!(parse_field("X-A: b"), Ok(ProxyField { name: "X-A".into(), value: "b".into() }));
        assert_eq!(parse_field("Cookie:").map(|field| field.value), Ok(String::new()));
        for text in ["X-A", "X A: b", ": b", "Host: a", "content-length: 3", "X-A: b\r\nX-B: c"] {
            assert!(parse_field(text).is_err(), "{text:?}");
        }
    }
}
