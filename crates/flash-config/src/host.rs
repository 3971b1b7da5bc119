//! The names of sites: hosts, in the form that requests are compared with.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// A host that a site answers, in lower case, in its ASCII form, and without a trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    Exact(String),
    /// `*.example.org`: all names below this one.
    Below(String),
    /// `*`: all hosts that no other name covers.
    Any,
}

/// Reads a name as the file has it.
impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        match (text, text.strip_prefix("*.")) {
            ("*", _) => Ok(Host::Any),
            (_, Some(parent)) => name(parent).map(Host::Below),
            (_, None) => name(text).map(Host::Exact),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Exact(name) => f.write_str(name),
            Host::Below(parent) => write!(f, "*.{parent}"),
            Host::Any => f.write_str("*"),
        }
    }
}

/// RFC 1035 §2.3.4.
const NAME_BYTES_MAX: usize = 253;

fn name(text: &str) -> Result<String, String> {
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if let Some(address) = bracketed.or(Some(text)).and_then(|text| text.parse::<Ipv6Addr>().ok()) {
        return Ok(format!("[{address}]"));
    }
    if let Some((host, port)) = text.rsplit_once(':')
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(format!("write it without a port: {host}"));
    }
    let bare = text.strip_suffix('.').unwrap_or(text);
    let is_wrong = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '_');
    if bare.is_empty() || bare.contains(is_wrong) || bare.split('.').any(str::is_empty) {
        return Err("write a host, such as www.example.org, *.example.org or *".into());
    }
    let ascii = idna::domain_to_ascii(bare).map_err(|_| "this is no name of a host".to_owned())?;
    match ascii.len() <= NAME_BYTES_MAX {
        true => Ok(ascii),
        false => Err(format!("a host has {NAME_BYTES_MAX} bytes at most")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_one_form() {
        let exact = |text: &str| Host::Exact(text.into());
        for (text, host) in [
            ("*", Host::Any),
            ("*.Example.ORG", Host::Below("example.org".into())),
            ("WWW.example.org.", exact("www.example.org")),
            ("Bücher.example", exact("xn--bcher-kva.example")),
            ("*.bücher.example", Host::Below("xn--bcher-kva.example".into())),
            ("faß.de", exact("xn--fa-hia.de")),
            ("localhost", exact("localhost")),
            ("a_b.example", exact("a_b.example")),
            ("127.0.0.1", exact("127.0.0.1")),
            ("::1", exact("[::1]")),
            ("[0::1]", exact("[::1]")),
        ] {
            assert_eq!(text.parse(), Ok(host), "{text}");
        }
    }

    #[test]
    fn what_is_no_host() {
        for text in
            ["", ".", "a..b", "a b", "http://a", "a/b", "*a", "a.*", "*.", "a:80", "[::1]:80", "xn--a\u{e9}"]
        {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
        assert!("a.".repeat(200).parse::<Host>().is_err());
        assert_eq!("a.example:80".parse::<Host>(), Err("write it without a port: a.example".into()));
    }
}
