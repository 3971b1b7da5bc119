//! The flags for HTTP servers behind this one.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use flash_core::site::redirect::bare_host;

use super::choices::Balance;
use super::proxy_url::{self, ProxyUrl};
use super::upstream::{self, NamedUpstream};
use super::value::Switch;
use super::{duration, field};

const HEADING: &str = "Proxy";

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct Proxy {
    /// Pass requests to the HTTP server at URL: http://HOST:PORT, https://HOST:PORT, or unix:/PATH; with HTTP/2, h2://HOST:PORT over TLS, or h2c://HOST:PORT. A path behind it stands before that of each request. Of
    /// several servers, each request goes to one. A name is that of an --upstream. With --fallback proxy, they get what no file answers; else
    /// they get all. May be given repeatedly
    #[arg(long, value_name = "URL", value_parser = parse, help_heading = HEADING)]
    pub proxy: Vec<ProxyTo>,

    /// Servers with a name, for --proxy NAME: NAME servers=URL,weight=3 servers=URL,backup balance=hash hash=cookie:NAME … (the page about
    /// proxies has all words). May be given repeatedly
    #[arg(long, value_name = "WORDS", value_parser = upstream::parse, help_heading = HEADING)]
    pub upstream: Vec<NamedUpstream>,

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

    /// Pass the body of a request on as it comes, to servers that can wait for a slow client. Without this flag, a server is asked once the body
    /// is whole
    #[arg(long, help_heading = HEADING)]
    pub stream_requests: bool,

    /// Tell servers of the client by Forwarded (RFC 7239), and not by X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t = Switch::Off, help_heading = HEADING)]
    pub proxy_forwarded: Switch,

    /// Addresses of the application itself in Location and Refresh become those by which the client knows it
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t = Switch::Off, help_heading = HEADING)]
    pub proxy_redirect: Switch,

    /// The same for the paths and domains of cookies
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t = Switch::Off, help_heading = HEADING)]
    pub proxy_cookies: Switch,

    /// Set a field of the responses of servers. Without a value, clients get none. May be given repeatedly
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_response_field, help_heading = HEADING)]
    pub proxy_response_header: Vec<ProxyField>,

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

/// What a request is passed on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProxyTo {
    Url(ProxyUrl),
    /// The upstream of this name.
    Named(String),
}

/// A field of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyField {
    pub name: String,
    pub value: String,
}

fn parse(text: &str) -> Result<ProxyTo, String> {
    match upstream::parse_name(text) {
        Ok(name) => Ok(ProxyTo::Named(name)),
        Err(_) => proxy_url::parse(text).map(ProxyTo::Url),
    }
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

fn parse_response_field(text: &str) -> Result<ProxyField, String> {
    let (name, value) = text.split_once(':').ok_or("write it as \"Name: value\"")?;
    let (name, value) = (field::token(name)?, field::parse_value(value)?);
    // They say where a response ends, and what its body is.
    let ours = [
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "content-encoding",
        "date",
        "server",
    ];
    match ours.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        true => Err(format!("Flash itself writes {name}")),
        false => Ok(ProxyField { name: name.into(), value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses() {
        assert_eq!(parse("app-2"), Ok(ProxyTo::Named("app-2".into())));
        assert!(matches!(parse("http://app-2"), Ok(ProxyTo::Url(_))) && parse("app:80").is_err());
    }

    #[test]
    fn hosts() {
        assert_eq!(parse_host("app.internal:8080").as_deref(), Ok("app.internal:8080"));
        assert_eq!(parse_host("off").as_deref(), Ok(""), "the client's");
        assert!(parse_host("a b").is_err());
    }

    #[test]
    fn fields() {
        assert_eq!(parse_response_field("X-A:").map(|field| field.value), Ok(String::new()));
        assert!(parse_response_field("Content-Length: 3").is_err() && parse_response_field("X-A").is_err());
        assert_eq!(parse_field("X-A: b"), Ok(ProxyField { name: "X-A".into(), value: "b".into() }));
        assert_eq!(parse_field("Cookie:").map(|field| field.value), Ok(String::new()));
        for text in ["X-A", "X A: b", ": b", "Host: a", "content-length: 3", "X-A: b\r\nX-B: c"] {
            assert!(parse_field(text).is_err(), "{text:?}");
        }
    }
}
