//! The header of the PROXY protocol, versions 1 and 2: the proxy says first which client a connection is from.
//!
//! A listener requires the header or knows nothing of it. If it were optional, each client could forge one. This module
//! decodes bytes. The [connection](crate::connection) reads them and decides whom it believes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use flash_http::Scheme;

/// A whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client's address. `None` if the proxy speaks for itself, or names no Internet address.
    pub client: Option<SocketAddr>,
    /// How the client connected to the proxy, if the header says so.
    pub scheme: Option<Scheme>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The header goes on, and all bytes so far belong to it.
    Incomplete,
    /// The header, and its length.
    Complete(ProxyHeader, usize),
}

/// The bytes are not a header of the PROXY protocol, or the header is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoProxyHeader;

/// The longest header of version 1, with its CRLF.
const V1_BYTES_MAX: usize = 107;
const V1_START: &[u8] = b"PROXY ";
const V2_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// What every header of version 2 has: its start, its command, its family and its length.
const V2_BYTES_MIN: usize = 16;
/// The longest header of version 2. Proxies of clouds append some hundred bytes of their own.
pub const HEADER_BYTES_MAX: usize = 4096;

/// Collects the bytes of a header that arrives in pieces.
#[derive(Debug, Default)]
pub(crate) struct Reader(Vec<u8>);

impl Reader {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next bytes. Returns the header when it is complete, and how many of these bytes belong to it.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, NoProxyHeader> {
        let before = self.0.len();
        let room = HEADER_BYTES_MAX.saturating_sub(before);
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        match decode(&self.0)? {
            Decoded::Complete(header, count) => Ok(Some((header, count - before))),
            Decoded::Incomplete => Ok(None),
        }
    }
}

/// Decodes the header at the beginning of a connection's bytes.
///
/// # Errors
/// If the bytes cannot become a header. It is noticed with the first wrong byte.
pub fn decode(bytes: &[u8]) -> Result<Decoded, NoProxyHeader> {
    let begins_with = |start: &[u8]| {
        let count = bytes.len().min(start.len());
        bytes[..count] == start[..count]
    };
    match () {
        () if begins_with(V1_START) => v1(bytes),
        () if begins_with(V2_START) => v2(bytes),
        () => Err(NoProxyHeader),
    }
}

/// `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443`, and CRLF.
fn v1(bytes: &[u8]) -> Result<Decoded, NoProxyHeader> {
    let read = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = read.iter().position(|&byte| byte == b'\n') else {
        return if read.len() < V1_BYTES_MAX { Ok(Decoded::Incomplete) } else { Err(NoProxyHeader) };
    };
    let line = read[..end].strip_suffix(b"\r").ok_or(NoProxyHeader)?;
    let line = std::str::from_utf8(line).map_err(|_| NoProxyHeader)?;
    let mut words = line.split(' ').skip(1);
    let family = words.next().ok_or(NoProxyHeader)?;
    let client = match family {
        // What follows is of no meaning.
        "UNKNOWN" => None,
        "TCP4" | "TCP6" => {
            let mut word = || words.next().ok_or(NoProxyHeader);
            let (client, server) = (word()?, word()?);
            let (client_port, server_port) = (word()?, word()?);
            if words.next().is_some() {
                return Err(NoProxyHeader);
            }
            address(family, server, server_port)?;
            Some(address(family, client, client_port)?)
        }
        _ => return Err(NoProxyHeader),
    };
    Ok(Decoded::Complete(ProxyHeader { client, scheme: None }, end + 1))
}

fn address(family: &str, ip: &str, port: &str) -> Result<SocketAddr, NoProxyHeader> {
    let ip: IpAddr = match family {
        "TCP4" => ip.parse::<Ipv4Addr>().map_err(|_| NoProxyHeader)?.into(),
        _ => ip.parse::<Ipv6Addr>().map_err(|_| NoProxyHeader)?.into(),
    };
    // `parse` would take a sign, too.
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|_| digits).ok_or(NoProxyHeader)?;
    Ok(of_client(ip, port))
}

fn v2(bytes: &[u8]) -> Result<Decoded, NoProxyHeader> {
    // Version 2, and LOCAL or PROXY.
    if bytes.get(12).is_some_and(|command| !matches!(command, 0x20 | 0x21)) {
        return Err(NoProxyHeader);
    }
    let Some((start, rest)) = bytes.split_first_chunk::<V2_BYTES_MIN>() else {
        return Ok(Decoded::Incomplete);
    };
    let length = usize::from(u16::from_be_bytes([start[14], start[15]]));
    if V2_BYTES_MIN + length > HEADER_BYTES_MAX {
        return Err(NoProxyHeader);
    }
    let Some(body) = rest.get(..length) else { return Ok(Decoded::Incomplete) };
    let header = match (start[12], start[13]) {
        // LOCAL: the proxy itself connects, as for a health check.
        (0x20, _) => ProxyHeader { client: None, scheme: None },
        // TCP over IPv4: two addresses, two ports.
        (_, 0x11) => {
            let (client, rest) = body.split_first_chunk::<4>().ok_or(NoProxyHeader)?;
            of_v2(Ipv4Addr::from(*client).into(), rest, 4)?
        }
        // TCP over IPv6.
        (_, 0x21) => {
            let (client, rest) = body.split_first_chunk::<16>().ok_or(NoProxyHeader)?;
            of_v2(Ipv6Addr::from(*client).into(), rest, 16)?
        }
        // A Unix socket, or a family that the proxy does not say.
        (_, 0x00 | 0x31) => ProxyHeader { client: None, scheme: None },
        _ => return Err(NoProxyHeader),
    };
    Ok(Decoded::Complete(header, V2_BYTES_MIN + length))
}

/// `rest` follows the client's address: the server's address of so many bytes, both ports, and fields with their types.
fn of_v2(client: IpAddr, rest: &[u8], address_bytes: usize) -> Result<ProxyHeader, NoProxyHeader> {
    let ports = rest.get(address_bytes..).ok_or(NoProxyHeader)?;
    let (port, rest) = ports.split_first_chunk().ok_or(NoProxyHeader)?;
    let fields = rest.get(2..).ok_or(NoProxyHeader)?;
    let scheme = is_encrypted(fields).map(|is| if is { Scheme::Https } else { Scheme::Http });
    Ok(ProxyHeader { client: Some(of_client(client, u16::from_be_bytes(*port))), scheme })
}

/// Whether the client's connection to the proxy is encrypted, if a field of the header says so. A field has a type, two bytes
/// of its length, and a value.
fn is_encrypted(mut fields: &[u8]) -> Option<bool> {
    /// The field about TLS, and the bit of its first byte that says so.
    const SSL: u8 = 0x20;
    const CLIENT_SSL: u8 = 1;
    while let [kind, high, low, rest @ ..] = fields {
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        if *kind == SSL {
            return Some(value.first()? & CLIENT_SSL != 0);
        }
        fields = rest;
    }
    None
}

/// An IPv4 client of an IPv6 socket counts as an IPv4 client.
fn of_client(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip.to_canonical(), port)
}

#[cfg(test)]
mod tests;
