//! The flags of `flash explain`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use flash_core::site::methods::{Method, Methods};

use super::field;

pub(super) const DEFAULT_CONFIG: &str = "/etc/flash/flash.toml";

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// What is asked for, such as http://www.example.org/a?b. Without a scheme, http
    #[arg(value_name = "URL", required = true, value_parser = parse_url)]
    pub urls: Vec<Url>,

    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG, value_hint = ValueHint::FilePath)]
    pub config: PathBuf,

    /// The request's method
    #[arg(long, value_name = "METHOD", default_value = "GET", value_parser = Methods::parse)]
    pub method: Method,

    /// A field of the request. May be given repeatedly
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse_field)]
    pub header: Vec<String>,

    /// Print a line of JSON for each URL
    #[arg(long)]
    pub json: bool,
}

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub text: String,
    pub is_https: bool,
    /// The host, and the port if there is one.
    pub authority: String,
    pub port: u16,
    /// The path and the query, as a request has them.
    pub target: String,
}

pub(super) fn parse_url(text: &str) -> Result<Url, String> {
    let (is_https, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        (None, None) if text.contains("://") => return Err("write http:// or https://".into()),
        (None, None) => (false, text),
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if let Some(wrong) = rest.chars().find(|c| !c.is_ascii_graphic()) {
        return Err(format!("'{}' does not stand in a URL: write it percent-encoded", wrong.escape_debug()));
    }
    let host_end = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let port = authority[host_end..].rsplit_once(':').map(|(_, port)| port.parse());
    let port = match port {
        Some(Ok(port)) => port,
        Some(Err(_)) => return Err("the port is no number".into()),
        None if is_https => 443,
        None => 80,
    };
    if authority.is_empty() || authority.contains('@') {
        return Err("write a host, as in http://www.example.org/".into());
    }
    let slash = if target.starts_with('/') { "" } else { "/" };
    let (authority, target) = (authority.into(), format!("{slash}{target}"));
    Ok(Url { text: text.into(), is_https, authority, port, target })
}

fn parse_field(text: &str) -> Result<String, String> {
    let (name, value) = text.split_once(':').ok_or("write it as \"Name: value\"")?;
    match name.eq_ignore_ascii_case("Host") || name.eq_ignore_ascii_case("Content-Length") {
        true => Err(format!("{name} follows from the URL and the method")),
        false => Ok(format!("{}: {}", field::token(name)?, field::parse_value(value)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (text, is_https, authority, port, target) in [
            ("http://a.example", false, "a.example", 80, "/"),
            ("a.example/x?y#z", false, "a.example", 80, "/x?y"),
            ("https://a.example:8443?q", true, "a.example:8443", 8443, "/?q"),
            ("https://[::1]/", true, "[::1]", 443, "/"),
            ("[::1]:8080/a", false, "[::1]:8080", 8080, "/a"),
        ] {
            let url = parse_url(text).unwrap();
            let found = (url.is_https, &*url.authority, url.port, &*url.target);
            assert_eq!(found, (is_https, authority, port, target), "{text}");
        }
        for wrong in
            ["", "/a", "ftp://a", "http://", "http://a:b/", "http://u@a/", "http://a/ b", "http://a/\r\n"]
        {
            assert!(parse_url(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(parse_field("Accept:  x "), Ok("Accept: x".into()));
        assert!(parse_field("Host: x").is_err() && parse_field("A B: c").is_err());
    }
}
