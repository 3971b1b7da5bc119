//! Who a client is behind a proxy that the operator trusts: X-Forwarded-For and X-Forwarded-Proto, or Forwarded (RFC 7239).
//!
//! The fields count only on a connection from such a proxy, and only as far as trusted proxies wrote them. Each proxy appends
//! the address that it saw, so the client is the rightmost address that is no trusted proxy's. What stands left of it, the
//! client itself may have written. The operator says which of the two fields counts. A proxy that writes one of them may pass
//! the other on as its client forged it. Logs, limits, rules and programs see the result.

use std::net::{IpAddr, SocketAddr};

use flash_http::{Fields, Scheme};

use crate::connection::transport::TransportInfo;
use crate::record::Peer;
use crate::site::network::Network;

mod element;

/// The proxies that are believed. None by default.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies {
    networks: Vec<Network>,
    field: ForwardedField,
}

/// The field in which trusted proxies name their clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedField {
    #[default]
    XForwardedFor,
    Forwarded,
}

impl TrustedProxies {
    pub fn new(networks: Vec<Network>, field: ForwardedField) -> Self {
        Self { networks, field }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// The field that is believed, if the peer is one of them.
    pub(crate) fn believed_of(&self, peer: Peer) -> Option<ForwardedField> {
        self.trust(peer).then_some(self.field)
    }

    pub(crate) fn trust(&self, peer: Peer) -> bool {
        self.networks.iter().any(|network| network.holds(peer))
    }

    fn trust_ip(&self, ip: IpAddr) -> bool {
        self.networks.iter().any(|network| network.holds_ip(ip))
    }

    /// The client of a request, and how it asked: those of the connection, unless a trusted proxy says otherwise.
    #[inline]
    pub(crate) fn client(&self, transport: &TransportInfo, fields: Fields<'_>) -> TransportInfo {
        if self.is_empty() || !self.trust(transport.peer) {
            return *transport;
        }
        match self.field {
            ForwardedField::XForwardedFor => self.x_forwarded(transport, fields),
            ForwardedField::Forwarded => self.forwarded(transport, fields),
        }
    }

    #[cold]
    fn x_forwarded(&self, transport: &TransportInfo, fields: Fields<'_>) -> TransportInfo {
        let values = |wanted| {
            let ours = values(fields, wanted);
            ours.flat_map(|value| value.split(|&byte| byte == b','))
                .map(<[u8]>::trim_ascii)
                // RFC 9110 §5.6.1.2
                .filter(|value| !value.is_empty())
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
        let scheme = at.and_then(|at| scheme(schemes.get(at)?));
        TransportInfo { scheme: scheme.unwrap_or(client.scheme), ..client }
    }

    #[cold]
    fn forwarded(&self, transport: &TransportInfo, fields: Fields<'_>) -> TransportInfo {
        let mut client = *transport;
        let values: Vec<_> = values(fields, "forwarded").collect();
        for element in values.iter().rev().flat_map(|value| element::from_the_right(value)) {
            // A trusted proxy wrote this element, whatever it says of its client.
            let element = element::parse(element);
            if let Some(scheme) = element.proto.and_then(scheme) {
                client.scheme = scheme;
            }
            let Some(address) = element.client.and_then(address) else { break };
            client.peer = Peer::Inet(address);
            if !self.trust_ip(address.ip()) {
                break;
            }
        }
        client
    }
}

fn values<'f>(fields: Fields<'f>, wanted: &'static str) -> impl Iterator<Item = &'f [u8]> {
    fields.filter(move |(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes())).map(|(_, value)| value)
}

fn scheme(text: &[u8]) -> Option<Scheme> {
    match text {
        _ if text.eq_ignore_ascii_case(b"https") => Some(Scheme::Https),
        _ if text.eq_ignore_ascii_case(b"http") => Some(Scheme::Http),
        _ => None,
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

    fn client(field: ForwardedField, peer: Peer, fields: &str) -> (String, &'static str) {
        let trusted = ["127.0.0.1", "10.0.0.0/8", "fd00::/8", "unix"].map(|proxy| proxy.parse().unwrap());
        let trusted = TrustedProxies::new(trusted.into(), field);
        let lines = format!("{fields}\r\n");
        let client = trusted.client(&TransportInfo::plain(peer), Fields::of_checked(lines.as_bytes()));
        let peer = match client.peer {
            Peer::Inet(address) => address.to_string(),
            Peer::Unix => "unix".into(),
        };
        (peer, client.scheme.name())
    }

    fn behind(proxy: &str, fields: &str) -> (String, &'static str) {
        client(ForwardedField::XForwardedFor, Peer::Inet(proxy.parse().unwrap()), fields)
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
            ("X-Forwarded-For: 192.0.2.1,, \r\nX-Forwarded-Proto: https\r\n", "192.0.2.1:0", "https"),
            ("X-Forwarded-For: 6.6.6.6, 192.0.2.1\r\nX-Forwarded-For: \r\n", "192.0.2.1:0", "http"),
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
            // The other field may be forged.
            ("Forwarded: for=6.6.6.6;proto=https\r\n", "127.0.0.1:4", "http"),
            ("Forwarded: for=6.6.6.6\r\nX-Forwarded-For: 192.0.2.1\r\n", "192.0.2.1:0", "http"),
        ] {
            assert_eq!(behind("127.0.0.1:4", fields), (who.to_owned(), scheme), "{fields}");
        }
        let fields = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n";
        let of_unix = client(ForwardedField::XForwardedFor, Peer::Unix, fields);
        assert_eq!(of_unix, ("192.0.2.1:0".into(), "https"));
        assert_eq!(behind("[fd12::1]:4", fields), ("192.0.2.1:0".into(), "https"));
    }

    #[test]
    fn the_same_in_forwarded() {
        let behind = |fields: &str| {
            let fields = format!("{}\r\n", fields.trim_end());
            client(ForwardedField::Forwarded, Peer::Inet("127.0.0.1:4".parse().unwrap()), &fields)
        };
        for (fields, who, scheme) in [
            ("A: b", "127.0.0.1:4", "http"),
            ("Forwarded: for=192.0.2.1;proto=https;by=10.0.0.1\r\n", "192.0.2.1:0", "https"),
            ("forwarded: For=\"[2001:db8::1]:77\" ; Proto=HTTPS\r\n", "[2001:db8::1]:77", "https"),
            ("Forwarded: for=6.6.6.6, for=192.0.2.1, for=10.1.2.3\r\n", "192.0.2.1:0", "http"),
            ("Forwarded: for=6.6.6.6\r\nForwarded: for=192.0.2.1\r\n", "192.0.2.1:0", "http"),
            ("Forwarded: for=6.6.6.6, for=unknown;proto=https, for=10.1.2.3\r\n", "10.1.2.3:0", "https"),
            ("Forwarded: for=6.6.6.6, for=_hidden\r\n", "127.0.0.1:4", "http"),
            ("Forwarded: proto=https\r\n", "127.0.0.1:4", "https"),
            ("Forwarded: for=6.6.6.6;proto=https, for=192.0.2.1\r\n", "192.0.2.1:0", "http"),
            // What the client left open ends where the proxy's own element begins.
            (r#"Forwarded: for=", for=192.0.2.1"#, "192.0.2.1:0", "http"),
            (r#"Forwarded: for="\, for="192.0.2.1""#, "192.0.2.1:0", "http"),
            (r#"Forwarded: for=192.0.2.1;host="a\", for=6.6.6.6;b=\"""#, "192.0.2.1:0", "http"),
            (r#"Forwarded: for=192.0.2.1;host="a\";for=6.6.6.6;b=\"""#, "192.0.2.1:0", "http"),
            // The other field may be forged.
            ("X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n", "127.0.0.1:4", "http"),
        ] {
            assert_eq!(behind(fields), (who.to_owned(), scheme), "{fields}");
        }
    }

    #[test]
    fn a_peer_that_is_not_trusted_forges_in_vain() {
        for (field, fields) in [
            (ForwardedField::XForwardedFor, "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: https\r\n"),
            (ForwardedField::Forwarded, "Forwarded: for=127.0.0.1;proto=https\r\n"),
        ] {
            for peer in ["192.0.2.9:5", "11.0.0.1:5", "[fc00::1]:5"] {
                let seen = client(field, Peer::Inet(peer.parse().unwrap()), fields);
                assert_eq!(seen, (peer.to_owned(), "http"));
            }
        }
        let none = TrustedProxies::default();
        let plain = TransportInfo::plain(Peer::Unix);
        assert_eq!(none.client(&plain, Fields::of_checked(b"X-Forwarded-For: 1.2.3.4\r\n\r\n")), plain);
    }
}
