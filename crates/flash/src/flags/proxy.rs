//! The flags for HTTP servers behind this one.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::choices::Balance;
use super::route::Upstream;
use super::{duration, field};

const HEADING: &str = "Proxy";

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct Proxy {
    /// Pass requests to the HTTP server at URL: http://HOST:PORT, or unix:/PATH. A path behind it stands before that of each request. Of
    /// several servers, each request goes to one. With --fallback proxy, they get what no file answers; else they get all. May be
    /// given repeatedly
    #[arg(long, value_name = "URL", value_parser = parse, help_heading = HEADING)]
    pub proxy: Vec<ProxyUrl>,

    /// Which of several servers gets a request
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Balance::LeastRequests, help_heading = HEADING)]
    pub balance: Balance,

    /// Ask the servers for this host. Without this flag, for the one that the client has asked for
    #[arg(long, value_name = "HOST", value_parser = parse_host, help_heading = HEADING)]
    pub proxy_host: Option<String>,

    /// Set a field of the requests that servers get. Without a value, they get none. May be given repeatedly
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_field, help_heading = HEADING)]
    pub proxy_header: Vec<ProxyField>,

    /// How long neither side of a WebSocket may say anything. Then it is closed
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse_positive, help_heading = HEADING)]
    pub tunnel_idle: Duration,
}

/// A server, and what stands before the path of each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyUrl {
    pub upstream: Upstream,
    /// Without a slash at its end.
    pub base: String,
}

/// A field of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyField {
    pub name: String,
    pub value: String,
}

/// The port of `http` without one.
const PORT: u16 = 80;

fn parse(text: &str) -> Result<ProxyUrl, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        return match path.has_root() {
            true => Ok(ProxyUrl { upstream: Upstream::Unix(path), base: String::new() }),
            false => Err("write the whole path of the socket: unix:/run/app.sock".into()),
        };
    }
    let Some(rest) = text.strip_prefix("http://") else {
        return Err(match text.split_once("://") {
            Some(("https", _)) => "Flash does not speak TLS with servers behind it: write http://".into(),
            _ => format!("'{text}' is no server: write http://HOST:PORT or unix:/PATH"),
        });
    };
    let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|port| *port > 0)),
        _ => (authority, Some(PORT)),
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    let base = base.trim_end_matches('/');
    match port {
        Some(port) if !host.is_empty() && host.bytes().all(is_host) && base.bytes().all(is_of_path) => {
            Ok(ProxyUrl { upstream: Upstream::Inet(format!("{host}:{port}")), base: base.into() })
        }
        _ => Err(format!("'{text}' is no server: write http://HOST:PORT or unix:/PATH")),
    }
}

/// Visible, and neither the beginning of a query nor of a fragment.
fn is_of_path(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"?#".contains(&byte)
}

fn parse_host(text: &str) -> Result<String, String> {
    match !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte))
    {
        true => Ok(text.into()),
        false => Err("write a host, such as app.internal:8080".into()),
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
        let inet = |address: &str, base: &str| ProxyUrl {
            upstream: Upstream::Inet(address.into()),
            base: base.into(),
        };
        for (text, url) in [
            ("http://127.0.0.1:3000", inet("127.0.0.1:3000", "")),
            ("http://app/", inet("app:80", "")),
            ("http://[::1]:8000/v2/api/", inet("[::1]:8000", "/v2/api")),
            ("http://[::1]", inet("[::1]:80", "")),
            (
                "unix:/run/app.sock",
                ProxyUrl { upstream: Upstream::Unix("/run/app.sock".into()), base: String::new() },
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
            "https://a",
            "unix:",
            "unix:app.sock",
            "http://a@b",
            "ftp://a",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
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
