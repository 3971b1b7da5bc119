//! Which server is asked: its address, and what it is called in requests. Names are looked up once, before a run.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;

use crate::{Error, Tls};

/// How long the first connection of all may take.
const REACH_TIMEOUT: Duration = Duration::from_secs(10);

/// `http://host[:port]/target` or `https://…`, taken apart. The target stays as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The scheme is https.
    pub tls: bool,
    pub host: String,
    pub port: u16,
    /// In origin form, with its query.
    pub target: String,
}

impl Url {
    /// Takes `host:port/target` too.
    pub fn parse(text: &str) -> Result<Url, Error> {
        let bad = |why: &str| {
            Error::Usage(format!("'{}' is not a URL that can be requested: {why}", text.escape_debug()))
        };
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = whole.parse().map_err(|error: http::uri::InvalidUri| bad(&error.to_string()))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad("write http://host:port/path or https://host:port/path")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("a user's name has no place in it"));
        }
        if authority.host().is_empty() {
            return Err(bad("it names no host"));
        }
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str() != authority.host() => {
                return Err(bad("its port is no number up to 65535"));
            }
            None => default_port(tls),
        };
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Url { tls, host: authority.host().to_owned(), port, target })
    }

    /// What the Host field says (RFC 9110 §7.2).
    pub fn authority(&self) -> String {
        match self.port == default_port(self.tls) {
            true => self.host.clone(),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

/// Where connections go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Server {
    pub address: Address,
    /// The Host field of requests.
    pub authority: String,
    /// How clients speak TLS with it, if they do.
    pub tls: Option<Tls>,
}

impl Server {
    /// Looks the host up, and connects once to the first of its addresses that accepts.
    pub fn reach(url: &Url) -> Result<Server, Error> {
        // An IPv6 address stands in brackets in a URL, and without them anywhere else.
        let host = url.host.trim_start_matches('[').trim_end_matches(']');
        let found = (host, url.port)
            .to_socket_addrs()
            .map_err(|error| Error::Run(format!("cannot find the host '{host}': {error}")))?;
        let mut last = format!("the host '{host}' has no address");
        for address in found {
            match TcpStream::connect_timeout(&address, REACH_TIMEOUT) {
                Ok(_) => {
                    let address = Address::Tcp(address);
                    return Ok(Server { address, authority: url.authority(), tls: None });
                }
                Err(error) => last = format!("cannot connect to {address}: {error}"),
            }
        }
        Err(Error::Run(last))
    }

    /// The same for a Unix socket; the URL gives the target.
    pub fn reach_unix(path: &Path, url: &Url) -> Result<Server, Error> {
        UnixStream::connect(path)
            .map_err(|error| Error::Run(format!("cannot connect to {}: {error}", path.display())))?;
        Ok(Server { address: Address::Unix(path.to_owned()), authority: url.authority(), tls: None })
    }

    /// The same, with TLS.
    pub fn with_tls(self, tls: Option<Tls>) -> Server {
        Server { tls, ..self }
    }

    /// The scheme of its URLs.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_not_changed() {
        let good = [
            ("http://example.org", "example.org", 80, "/"),
            ("http://example.org:8080/a%20b/../c?d=e", "example.org", 8080, "/a%20b/../c?d=e"),
            ("127.0.0.1:9001/1k", "127.0.0.1", 9001, "/1k"),
            ("http://[::1]:81/", "[::1]", 81, "/"),
            ("http://localhost?q", "localhost", 80, "/?q"),
            ("https://localhost/a", "localhost", 443, "/a"),
        ];
        for (text, host, port, target) in good {
            let url = Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((url.host.as_str(), url.port, url.target.as_str()), (host, port, target), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_said_in_one_line() {
        for text in ["", "http://", "ftp://a/", "http://a:99999/", "http://a:/", "http://u@a/", "http://a b/"]
        {
            let error = Url::parse(text).map(|url| format!("{url:?}")).unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{text}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
