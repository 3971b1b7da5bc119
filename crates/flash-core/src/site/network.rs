//! Networks that an operator names: those of trusted proxies, and those of clients that may or may not come.

use std::net::IpAddr;
use std::str::FromStr;

use crate::record::Peer;

/// A network of addresses, or what connects to Unix sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Addresses whose first bits are these.
    Ip(IpAddr, u8),
    Unix,
}

/// The bits in front of an IPv4 address in `::ffff:0:0/96` (RFC 4291 §2.5.5.2).
const MAPPED_BITS: u8 = 96;

impl Network {
    pub fn holds(self, peer: Peer) -> bool {
        match peer {
            Peer::Inet(address) => self.holds_ip(address.ip()),
            Peer::Unix => self == Self::Unix,
        }
    }

    /// How many bits of an address say that the network holds it.
    pub fn bits(self) -> u8 {
        match self {
            Self::Ip(_, bits) => bits,
            Self::Unix => u8::MAX,
        }
    }

    pub fn holds_ip(self, ip: IpAddr) -> bool {
        let Self::Ip(network, bits) = self else { return false };
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
impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let (ip, bits) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
        let ip: IpAddr =
            ip.parse().map_err(|_| format!("'{ip}' is no address: write 10.0.0.1, 10.0.0.0/8 or unix"))?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let bits: u8 = match bits {
            None => most,
            Some(bits) => match bits.parse() {
                Ok(bits) if bits <= most => bits,
                _ => return Err(format!("'{bits}' is no number of bits: those are 0 to {most}")),
            },
        };
        // Clients of IPv4 are known by their IPv4 addresses.
        match (ip.to_canonical(), bits.checked_sub(MAPPED_BITS)) {
            (IpAddr::V4(v4), Some(bits)) if ip.is_ipv6() => Ok(Self::Ip(v4.into(), bits)),
            (IpAddr::V4(v4), None) if ip.is_ipv6() => {
                Err(format!("'{text}' holds more than IPv4 addresses: write {v4} and its own number of bits"))
            }
            _ => Ok(Self::Ip(ip, bits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let holds =
            |network: &str, ip: &str| network.parse::<Network>().unwrap().holds_ip(ip.parse().unwrap());
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
        // Clients of IPv4 are known by their IPv4 addresses, in whatever way a network is written.
        for (network, within) in [
            ("::ffff:192.0.2.0/120", true),
            ("::ffff:192.0.2.7", true),
            ("::ffff:0:0/96", true),
            ("::ffff:192.0.2.0/126", false),
        ] {
            assert_eq!(holds(network, "192.0.2.7"), within, "{network}");
            assert_eq!(holds(network, "::ffff:192.0.2.7"), within, "{network}");
        }
        assert_eq!("::ffff:192.0.2.0/120".parse::<Network>(), "192.0.2.0/24".parse());
        for text in ["::ffff:0:0/95", "", "10.0.0.0/33", "10.0.0.0/", "localhost", "::/129", "10.0.0.1/-1"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        let inet = Peer::Inet("10.0.0.1:1".parse().unwrap());
        assert!(Network::Unix.holds(Peer::Unix) && !Network::Unix.holds(inet));
    }
}
