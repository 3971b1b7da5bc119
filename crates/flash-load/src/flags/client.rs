//! How clients use their connections, and the fields and bodies of their requests.

use std::path::PathBuf;

use clap::Args;
use flash_load::{Body, ClientOptions, Error, Keep, Link, Method, Protocol, Tls, Url, Verify};

use super::units::{bytes, part, some_bytes};

#[derive(Debug, Args)]
#[command(next_help_heading = "Clients")]
#[group(skip)]
pub(super) struct ClientFlags {
    /// Requests on a connection before it is closed [default: as many as the server allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_connection: Option<u32>,
    /// Requests that may wait for a response at the same time on a connection (pipelining)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pipeline: u32,
    /// Speak TLS, as with https:// in the URL; any certificate is accepted
    #[arg(long)]
    tls: bool,
    /// Speak TLS, and accept only certificates that an authority in this file has signed
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Whether a client brings its TLS session back when it connects again
    #[arg(long, value_name = "on|off", default_value = "off", value_parser = on_off, action = clap::ArgAction::Set)]
    tls_resume: bool,
    /// Groups for the key exchange of TLS, such as X25519 or X25519MLKEM768,secp256r1 [default: those of browsers]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tls_groups: Vec<String>,
    /// Speak HTTP/2: as the handshake agrees with TLS, by prior knowledge without
    #[arg(long, conflicts_with = "pipeline")]
    http2: bool,
    /// Requests that may wait for a response at the same time on a connection of HTTP/2 [default: 1]
    #[arg(long, value_name = "N", requires = "http2", value_parser = clap::value_parser!(u32).range(1..=1024))]
    streams: Option<u32>,
    /// Slow lines: bytes a second to each client, or DOWN/UP
    #[arg(long, value_name = "BYTES[/BYTES]", value_parser = link)]
    line: Option<Link>,
    /// Part of the requests, 0 to 1, that are conditional, if a client has the file already
    #[arg(long, value_name = "PART", default_value = "0", value_parser = part)]
    conditional: f64,
    /// Part of the requests, 0 to 1, that request a range, for files with a known size
    #[arg(long, value_name = "PART", default_value = "0", value_parser = part)]
    ranges: f64,
    /// Accept-Encoding of the requests, or of a part of them as in 'gzip, br=0.8'; may be repeated
    #[arg(long, value_name = "VALUE[=PART]", value_parser = encoding)]
    accept_encoding: Vec<(String, f64)>,
    /// A field of every request, as 'Name: value', in place of the one that it would have; may be repeated
    #[arg(long, short = 'H', value_name = "FIELD", value_parser = field)]
    header: Vec<String>,
    /// Send HEAD requests
    #[arg(long, conflicts_with = "method")]
    head: bool,
    /// GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS [default: GET, or POST with a body]
    #[arg(long, value_name = "METHOD")]
    method: Option<Method>,
    /// Send a body of this many bytes with every request
    #[arg(long, value_name = "BYTES", value_parser = bytes, conflicts_with = "head")]
    body_bytes: Option<u64>,
    /// Send this file as the body of every request
    #[arg(long, value_name = "FILE", conflicts_with_all = ["body_bytes", "head"])]
    body: Option<PathBuf>,
    /// Compare all bodies with the files that make-site wrote with this seed
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    verify: Option<u64>,
    /// Compare all bodies with the files below this folder
    #[arg(long, value_name = "DIR", conflicts_with = "verify")]
    verify_root: Option<PathBuf>,
}

impl ClientFlags {
    /// Reads the body.
    pub(super) fn options(&self) -> Result<ClientOptions, Error> {
        let body = match (&self.body, self.body_bytes) {
            (Some(path), _) => {
                let read = std::fs::read(path);
                let content = read.map_err(|error| {
                    Error::Run(format!("cannot read the body {}: {error}", path.display()))
                })?;
                Some(Body::new(content.into()))
            }
            (None, bytes) => bytes.map(Body::of_bytes),
        };
        let method = match self.method {
            Some(method) => method,
            None if self.head => Method::Head,
            None if body.is_some() => Method::Post,
            None => Method::Get,
        };
        if method == Method::Head && body.is_some() {
            return Err(Error::Usage(
                "a HEAD request brings nothing along: leave out --method or the body".into(),
            ));
        }
        Ok(ClientOptions {
            keep: self.requests_per_connection.map_or(Keep::Open, Keep::Requests),
            protocol: match self.http2 {
                true => Protocol::Http2 { streams: self.streams.unwrap_or(1) },
                false => Protocol::Http1,
            },
            pipeline: self.pipeline,
            link: self.line,
            method,
            body,
            conditional: self.conditional,
            ranges: self.ranges,
            encodings: self.accept_encoding.clone(),
            fields: self.header.clone(),
            verify: match (self.verify, &self.verify_root) {
                (Some(seed), _) => Verify::Made { seed },
                (None, Some(root)) => Verify::Root(root.clone()),
                (None, None) => Verify::Nothing,
            },
        })
    }

    /// How clients speak TLS with the URL's server, if they do.
    pub(super) fn tls(&self, url: &Url) -> Result<Option<Tls>, Error> {
        if !(url.tls || self.tls || self.tls_ca.is_some()) {
            if self.tls_resume || !self.tls_groups.is_empty() {
                return Err(Error::Usage("--tls-resume and --tls-groups need --tls, or https://".into()));
            }
            return Ok(None);
        }
        let mut tls = Tls::new(&url.host)?.with_resumption(self.tls_resume);
        if let Some(path) = &self.tls_ca {
            tls = tls.with_authorities(path)?;
        }
        if !self.tls_groups.is_empty() {
            tls = tls.with_groups(&self.tls_groups)?;
        }
        Ok(Some(tls))
    }

    /// Whether `https://` is meant by a URL without a scheme.
    pub(super) fn speaks_tls(&self) -> bool {
        self.tls || self.tls_ca.is_some()
    }
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off".into()),
    }
}

fn link(text: &str) -> Result<Link, String> {
    let (down, up) = text.split_once('/').unwrap_or((text, text));
    Ok(Link { down_bytes_per_second: some_bytes(down)?, up_bytes_per_second: some_bytes(up)? })
}

fn encoding(text: &str) -> Result<(String, f64), String> {
    let (value, share) = match text.rsplit_once('=') {
        // `gzip;q=0.5` has a weight and no part.
        Some((value, share)) if !value.trim_end().ends_with("q") => (value, part(share)?),
        _ => (text, 1.0),
    };
    if value.is_empty() || !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return Err("write codings and their part of the requests, such as 'gzip, br=0.8'".into());
    }
    Ok((value.to_owned(), share))
}

fn field(text: &str) -> Result<String, String> {
    let right = text.split_once(':').is_some_and(|(name, value)| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
            && !value.bytes().any(|byte| byte.is_ascii_control())
    });
    if right { Ok(text.to_owned()) } else { Err("write a field as in 'Name: value'".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(link("32K/8K"), Ok(Link { down_bytes_per_second: 32768, up_bytes_per_second: 8192 }));
        assert_eq!(encoding("gzip, br=0.8"), Ok(("gzip, br".into(), 0.8)));
        assert_eq!(encoding("gzip;q=0.5"), Ok(("gzip;q=0.5".into(), 1.0)));
        assert_eq!(field("Cookie: a=b"), Ok("Cookie: a=b".into()));
        for text in ["", "x", ": y", "a b: c", "a: b\r\nc: d"] {
            assert!(field(text).is_err(), "{text}");
        }
        assert!(link("0").is_err() && encoding("gzip=2").is_err());
    }
}
