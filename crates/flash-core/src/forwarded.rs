//! Who a client is behind a proxy that the operator trusts: X-Forwarded-For and X-Forwarded-Proto.
//!
//! The fields count only on a connection from such a proxy, and only as far as trusted proxies wrote them. Each proxy appends
//! the address that it saw, so the client is the rightmost address that is no trusted proxy's. What stands left of it, the
//! client itself may have written. The access log and programs see the result; limits of connections see the proxy.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use flash_http::{Fields, Scheme};

use crate::record::Peer;
use crate::transport::TransportInfo;

/// A proxy, or a network of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedProxy {
    /// Addresses whose first bits are these.
    Network(IpAddr, u8),
    /// Whatever connects to a Unix socket.
    Unix,
}

/// The proxies that are believed. None by default.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<TrustedProxy>);

impl TrustedProxies {
    pub fn new(proxies: Vec<TrustedProxy>) -> Self {
        Self(proxies)
    }

    /// The client of a request, and how it asked: those of the connection, unless a trusted proxy says otherwise.
    #[inline]
    pub(crate) fn client(&self, transport: &TransportInfo, fields: Fields<'_>) -> TransportInfo {
        match self.0.is_empty() || !self.trust(transport.peer) {
            true => *transport,
            false => self.forwarded(transport, fields),
        }
    }

    fn trust(&self, peer: Peer) -> bool {
        match peer {
            Peer::Inet(address) => self.trust_ip(address.ip()),
            Peer::Unix => self.0.contains(&TrustedProxy::Unix),
        }
    }

    fn trust_ip(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|proxy| proxy.holds(ip))
    }

    #[cold]
    fn forwarded(&self, transport: &TransportInfo, fields: Fields<'_>) -> TransportInfo {
        let values = |wanted: &'static str| {
            let ours = fields.filter(move |(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()));
            ours.flat_map(|(_, value)| value.split(|&byte| byte == b','))
                .map(<[u8]>::trim_ascii)
                .collect::<Vec<_>>()
        };
        let addresses = values("x-forwarded-for");
        let mut client = *transport;
        // How many proxies before this one have been believed.
        let mut hops = 0;
        for text in addresses.iter().rev() {
            // A word that is no address ends what can be believed: the proxy that wrote it is the last one known.
            let Some(address) = address(text) else { break };
            client.peer = Peer::Inet(address);
            if !self.trust_ip(address.ip()) {
                break;
            }
            hops += 1;
        }
        let schemes = values("x-forwarded-proto");
        // The scheme that stands where the client's address does; else the word of the nearest proxy.
        let at = match schemes.len() == addresses.len() {
            true => schemes.len().checked_sub((hops + 1).min(schemes.len().max(1))),
            false => schemes.len().checked_sub(1),
        };
        match at.and_then(|at| schemes.get(at)) {
            Some(scheme) if scheme.eq_ignore_ascii_case(b"https") => client.scheme = Scheme::Https,
            Some(scheme) if scheme.eq_ignore_ascii_case(b"http") => client.scheme = Scheme::Http,
            _ => {}
        }
        client
    }
}

impl TrustedProxy {
    fn holds(self, ip: IpAddr) -> bool {
        let Self::Network(network, bits) = self else { return false };
        let same = |one: u128, other: u128, width: u32| {
            let shift = width.saturating_sub(bits.into());
            one.checked_shr(shift).unwrap_or(0) == other.checked_shr(shift).unwrap_or(0)
        };
        match (network, ip.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => same(network.to_bits().into(), ip.to_bits().into(), 32),
            (IpAddr::V6(network), IpAddr::V6(ip)) => same(network.to_bits(), ip.to_bits(), 128),
            _ => false,
        }
    }
}

/// `10.0.0.1`, `10.0.0.0/8`, `fd00::/8`, `unix`.
impl FromStr for TrustedProxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let (ip, bits) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
        let ip: IpAddr =
            ip.parse().map_err(|_| format!("'{ip}' is no address: write 10.0.0.1, 10.0.0.0/8 or unix"))?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => match bits.parse() {
                Ok(bits) if bits <= most => bits,
                _ => return Err(format!("'{bits}' is no number of bits: those are 0 to {most}")),
            },
        };
        Ok(Self::Network(ip, bits))
    }
}

/// An address as proxies write it: alone, with a port, and IPv6 in brackets or not. Its port is 0 where none is written.
fn address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = match bare.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, 0),
        Err(_) => text.parse().ok()?,
    };
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: Peer, fields: &str) -> (String, &'static str) {
        let trusted = ["127.0.0.1", "10.0.0.0/8", "fd00::/8", "unix"].map(|proxy| proxy.parse().unwrap());
        let trusted = TrustedProxies::new(trusted.into());
        let lines = format!("{fields}\r\n");
        let client = trusted.client(&TransportInfo::plain(peer), Fields::of_checked(lines.as_bytes()));
        let peer = match client.peer {
            Peer::Inet(address) => address.to_string(),
            Peer::Unix => "unix".into(),
        };
        (peer, client.scheme.name())
    }

    fn behind(proxy: &str, fields: &str) -> (String, &'static str) {
        client(Peer::Inet(proxy.parse().unwrap()), fields)
    }

    #[test]
    fn the_rightmost_address_that_is_no_trusted_proxys() {
        for (fields, who, scheme) in [
            ("", "127.0.0.1:4", "http"),
            ("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n", "192.0.2.1:0", "https"),
            ("x-forwarded-for: 6.6.6.6, 192.0.2.1:77\r\n", "192.0.2.1:77", "http"),
            ("X-Forwarded-For: 6.6.6.6, 192.0.2.1 , 10.1.2.3\r\n", "192.0.2.1:0", "http"),
            ("X-Forwarded-For: 6.6.6.6\r\nA: b\r\nX-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1:0", "http"),
            ("X-Forwarded-For: 10.9.9.9, 10.1.2.3\r\n", "10.9.9.9:0", "http"),
            ("X-Forwarded-For: 6.6.6.6, unknown, 10.1.2.3\r\n", "10.1.2.3:0", "http"),
            ("X-Forwarded-For: nonsense\r\n", "127.0.0.1:4", "http"),
            ("X-Forwarded-For: [2001:db8::1]:8\r\n", "[2001:db8::1]:8", "http"),
            ("X-Forwarded-For: 2001:db8::1, fd00::7\r\n", "[2001:db8::1]:0", "http"),
            ("X-Forwarded-For: ::ffff:192.0.2.1\r\n", "192.0.2.1:0", "http"),
            // Two proxies append both fields; the client has forged a third.
            (
                "X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.1.2.3\r\nX-Forwarded-Proto: https, http, https\r\n",
                "192.0.2.1:0",
                "http",
            ),
            (
                "X-Forwarded-For: 192.0.2.1, 10.1.2.3\r\nX-Forwarded-Proto: https, http\r\n",
                "192.0.2.1:0",
                "https",
            ),
            ("X-Forwarded-Proto: http, HTTPS\r\n", "127.0.0.1:4", "https"),
            ("X-Forwarded-Proto: gopher\r\n", "127.0.0.1:4", "http"),
        ] {
            assert_eq!(behind("127.0.0.1:4", fields), (who.to_owned(), scheme), "{fields}");
        }
        let fields = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n";
        assert_eq!(client(Peer::Unix, fields), ("192.0.2.1:0".into(), "https"));
        assert_eq!(behind("[fd12::1]:4", fields), ("192.0.2.1:0".into(), "https"));
    }

    #[test]
    fn a_peer_that_is_not_trusted_forges_in_vain() {
        let fields = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: https\r\n";
        for peer in ["192.0.2.9:5", "11.0.0.1:5", "[fc00::1]:5"] {
            assert_eq!(behind(peer, fields), (peer.to_owned(), "http"));
        }
        let none = TrustedProxies::default();
        let plain = TransportInfo::plain(Peer::Unix);
        assert_eq!(none.client(&plain, Fields::of_checked(b"X-Forwarded-For: 1.2.3.4\r\n\r\n")), plain);
    }

    #[test]
    fn networks() {
        let holds = |proxy: &str, ip: &str| proxy.parse::<TrustedProxy>().unwrap().holds(ip.parse().unwrap());
        assert!(
            holds("0.0.0.0/0", "1.2.3.4")
                && holds("10.0.0.0/9", "10.127.255.255")
                && holds("::/0", "fd00::1")
        );
        assert!(
            !holds("10.0.0.0/9", "10.128.0.0")
                && !holds("0.0.0.0/0", "::1")
                && !holds("10.0.0.1", "10.0.0.2")
        );
        for text in ["", "10.0.0.0/33", "10.0.0.0/", "localhost", "::/129", "10.0.0.1/-1"] {
            assert!(text.parse::<TrustedProxy>().is_err(), "{text}");
        }
    }
}
