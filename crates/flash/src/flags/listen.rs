//! Where to accept connections, as `--listen` takes it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use flash_http::Scheme;

/// A place to listen at, and how connections begin there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    pub place: ListenAddress,
    /// What its connections speak, if that is said.
    pub scheme: Option<Scheme>,
    /// Each connection begins with a header of the PROXY protocol.
    pub proxy_protocol: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// One address; port 0 lets the system choose.
    Inet(SocketAddr),
    /// This port of every address, of IPv6 and IPv4 where the machine has both.
    EveryAddress(u16),
    Unix(UnixAddress),
}

/// A socket in the filesystem, and who may connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnixAddress {
    pub path: PathBuf,
    pub mode: Option<u32>,
    /// A name or a number.
    pub group: Option<String>,
}

/// What stands behind a place if its connections begin with a header.
const PROXY_PROTOCOL: &str = ",proxy-protocol";

impl From<ListenAddress> for Listen {
    fn from(place: ListenAddress) -> Self {
        Self { place, scheme: None, proxy_protocol: false }
    }
}

impl Listen {
    /// What its connections speak: TLS at port 443, if it is not said.
    pub(crate) fn scheme(&self) -> Scheme {
        let by_port = if self.port() == Some(443) { Scheme::Https } else { Scheme::Http };
        self.scheme.unwrap_or(by_port)
    }

    pub(crate) fn port(&self) -> Option<u16> {
        match &self.place {
            ListenAddress::Inet(address) => Some(address.port()),
            ListenAddress::EveryAddress(port) => Some(*port),
            ListenAddress::Unix(_) => None,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let of =
            |scheme: Scheme| text.strip_prefix(scheme.name())?.strip_prefix("://").map(|rest| (rest, scheme));
        let (text, scheme) = match of(Scheme::Https).or_else(|| of(Scheme::Http)) {
            Some((rest, scheme)) => (rest.strip_suffix('/').unwrap_or(rest), Some(scheme)),
            None => (text, None),
        };
        let bare = text.strip_suffix(PROXY_PROTOCOL);
        Ok(Listen { place: place(bare.unwrap_or(text))?, scheme, proxy_protocol: bare.is_some() })
    }
}

fn place(text: &str) -> Result<ListenAddress, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path);
    }
    // RFC 6761 §6.3: this one name needs no look-up.
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match text.rsplit_once(':') {
        Some(("", port_text)) => Ok(ListenAddress::EveryAddress(port(port_text)?)),
        Some(("localhost", port_text)) => Ok(ListenAddress::Inet(loopback(port(port_text)?))),
        _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(ListenAddress::Inet(loopback(port(text)?)))
        }
        _ => inet(text),
    }
}

/// The value of `--host`: an address without a port.
pub(super) fn parse_host(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match bare {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        "*" => Ok(Ipv6Addr::UNSPECIFIED.into()),
        _ => bare.parse().map_err(|_| match text.rsplit_once(':') {
            Some((host, port)) if host.parse::<IpAddr>().is_ok() || host == "localhost" => {
                format!("write --host {host} --port {port}, or --listen {text}")
            }
            _ => format!("'{text}' is not an address; names are not looked up"),
        }),
    }
}

fn inet(text: &str) -> Result<ListenAddress, String> {
    if let Ok(address) = text.parse() {
        return Ok(ListenAddress::Inet(address));
    }
    // Not an address with its port: say what is missing.
    Err(match (text.parse::<IpAddr>(), text.rsplit_once(':')) {
        (Ok(IpAddr::V6(_)), _) => format!("write [{text}]:8080"),
        _ if is_address(text) => format!("add the port: {text}:8080"),
        (_, Some((host, port_text))) if is_address(host) => match port(port_text) {
            Err(error) => error,
            Ok(_) => SHAPE.into(),
        },
        (_, Some((host, _))) if !host.contains([':', '[', '/']) => {
            format!("'{host}' is not an address; names are not looked up")
        }
        _ => SHAPE.into(),
    })
}

/// Whether it is an IP address as it stands before a port: IPv6 in brackets.
fn is_address(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    host.parse::<Ipv4Addr>().is_ok()
        || bare.is_some_and(|host| host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()))
}

fn port(text: &str) -> Result<u16, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| format!("'{text}' is not a port: those are 0 to 65535"))
}

/// `PATH`, and behind it `,mode=660` and `,group=www-data` in any order.
fn unix(text: &str) -> Result<ListenAddress, String> {
    let (mut path, mut mode, mut group) = (text, None, None);
    while let Some((rest, option)) = path.rsplit_once(',') {
        match option.split_once('=') {
            Some(("mode", digits)) if mode.is_none() => {
                let parsed = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777);
                mode = Some(parsed.ok_or_else(|| format!("'{digits}' is no mode: write it as in mode=660"))?);
            }
            Some(("group", "")) => return Err("add the group: group=www-data".into()),
            Some(("group", name)) if group.is_none() => group = Some(name.to_owned()),
            // A comma of the path's own.
            _ => break,
        }
        path = rest;
    }
    // unix(7): sun_path holds 108 bytes, the last of them a NUL.
    const PATH_BYTES_MAX: usize = 107;
    match path.len() {
        0 => Err("add the path: unix:/run/flash.sock".into()),
        1..=PATH_BYTES_MAX => Ok(ListenAddress::Unix(UnixAddress { path: path.into(), mode, group })),
        _ => Err(format!("the path of a Unix socket has at most {PATH_BYTES_MAX} bytes")),
    }
}

const SHAPE: &str = "write ADDRESS:PORT, :PORT for every address, or unix:PATH";

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Inet(address) => address.fmt(f),
            ListenAddress::EveryAddress(port) => write!(f, ":{port}"),
            ListenAddress::Unix(place) => write!(f, "unix:{}", place.path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let inet = |text: &str| Ok(ListenAddress::Inet(text.parse().unwrap()));
        let parse = |text: &str| text.parse::<Listen>().map(|listen| listen.place);
        assert_eq!(parse("127.0.0.1:8080"), inet("127.0.0.1:8080"));
        assert_eq!(parse("localhost:8080"), inet("127.0.0.1:8080"));
        assert_eq!(parse("8080"), inet("127.0.0.1:8080"));
        assert_eq!(parse("[::1]:0"), inet("[::1]:0"));
        assert_eq!(parse(":80"), Ok(ListenAddress::EveryAddress(80)));
        let unix = |path: &str, mode, group: Option<&str>| {
            Ok(ListenAddress::Unix(UnixAddress { path: path.into(), mode, group: group.map(str::to_owned) }))
        };
        assert_eq!(parse("unix:/run/f:l.sock"), unix("/run/f:l.sock", None, None));
        assert_eq!(
            parse("unix:/run/f,mode=660,group=www-data"),
            unix("/run/f", Some(0o660), Some("www-data"))
        );
        assert_eq!(parse("unix:/run/a,b,group=7"), unix("/run/a,b", None, Some("7")));
        for text in ["127.0.0.1:8080", "[::1]:80", ":80", "unix:/run/f"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_header_of_the_proxy_protocol_is_required_or_unknown() {
        for (text, place) in [
            (":80,proxy-protocol", ":80"),
            ("[::1]:80,proxy-protocol", "[::1]:80"),
            ("8080,proxy-protocol", "127.0.0.1:8080"),
            ("unix:/run/f,mode=660,proxy-protocol", "unix:/run/f"),
        ] {
            let listen = text.parse::<Listen>().unwrap();
            assert!(listen.proxy_protocol && listen.place.to_string() == place, "{text}");
            assert!(!place.parse::<Listen>().unwrap().proxy_protocol);
        }
        for text in [":80,proxy", ",proxy-protocol", ":80,proxy-protocol,proxy-protocol"] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_listener_may_say_what_it_speaks() {
        for (text, place, scheme) in [
            ("https://:8443", ":8443", Scheme::Https),
            ("https://127.0.0.1:8443/", "127.0.0.1:8443", Scheme::Https),
            ("http://:443", ":443", Scheme::Http),
            (":443", ":443", Scheme::Https),
            ("[::1]:443", "[::1]:443", Scheme::Https),
            (":80", ":80", Scheme::Http),
            ("https://unix:/run/f", "unix:/run/f", Scheme::Https),
            ("unix:/run/f", "unix:/run/f", Scheme::Http),
        ] {
            let listen = text.parse::<Listen>().unwrap();
            assert_eq!((listen.place.to_string().as_str(), listen.scheme()), (place, scheme), "{text}");
        }
        for text in ["https://", "ftp://:21", "https:///:80", "https://http://:80"] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn hosts() {
        for (text, ip) in
            [("0.0.0.0", "0.0.0.0"), ("localhost", "127.0.0.1"), ("[::1]", "::1"), ("::", "::"), ("*", "::")]
        {
            assert_eq!(parse_host(text), Ok(ip.parse().unwrap()), "{text}");
        }
        assert_eq!(
            parse_host("0.0.0.0:80"),
            Err("write --host 0.0.0.0 --port 80, or --listen 0.0.0.0:80".into())
        );
        assert!(parse_host("example.org").unwrap_err().contains("names are not looked up"));
    }

    #[test]
    fn each_mistake_has_its_answer() {
        for (text, answer) in [
            ("", "write ADDRESS:PORT"),
            ("127.0.0.1", "add the port: 127.0.0.1:8080"),
            ("[::1]", "add the port: [::1]:8080"),
            ("::1", "write [::1]:8080"),
            (":", "'' is not a port"),
            (":http", "'http' is not a port"),
            (":+80", "'+80' is not a port"),
            ("70000", "'70000' is not a port"),
            ("127.0.0.1:70000", "'70000' is not a port"),
            ("[::1]:x", "'x' is not a port"),
            ("example.org:80", "'example.org' is not an address"),
            ("127.0.0:80", "'127.0.0' is not an address"),
            ("ftp://localhost:80", "write ADDRESS:PORT"),
            ("/run/flash.sock", "write ADDRESS:PORT"),
            ("unix:", "add the path"),
            ("unix:,mode=660", "add the path"),
            ("unix:/f,mode=999", "'999' is no mode"),
            ("unix:/f,mode=7777", "'7777' is no mode"),
            ("unix:/f,group=", "add the group"),
        ] {
            let error = text.parse::<Listen>().expect_err(text);
            assert!(error.starts_with(answer), "{text}: {error}");
        }
        assert!(format!("unix:/{}", "x".repeat(107)).parse::<Listen>().is_err());
    }
}
