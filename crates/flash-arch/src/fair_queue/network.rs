//! Whose jobs count as one client's.

use std::net::{IpAddr, Ipv4Addr};

use flash_core::record::Peer;

/// The client that a job is done for: an IPv4 address, or an IPv6 network of 64 bits. All clients of Unix sockets are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClientNetwork {
    Numbered(u64),
    V4(u32),
    V6(u64),
}

impl ClientNetwork {
    pub(crate) fn of(peer: Peer) -> Self {
        match peer {
            Peer::Unix => Self::default(),
            Peer::Inet(address) => match address.ip() {
                IpAddr::V4(ip) => Self::V4(ip.to_bits()),
                IpAddr::V6(ip) => Self::V6((ip.to_bits() >> 64) as u64),
            },
        }
    }

    /// Of a driver that numbers its clients itself.
    pub(crate) fn numbered(number: u64) -> Self {
        Self::Numbered(number)
    }

    /// What one owner may well have as a whole: of the internet, an IPv4 network of 24 bits or an IPv6 network of 48. Within a
    /// private network, each client is one.
    pub(crate) fn widened(self) -> Self {
        match self {
            Self::V4(address) if !is_private(Ipv4Addr::from_bits(address)) => Self::V4(address & !0xff),
            // All but unique local addresses, and those of a link.
            Self::V6(network) if network >> 57 != 0xfc >> 1 && network >> 54 != 0xfe80 >> 6 => {
                Self::V6(network & !0xffff)
            }
            _ => self,
        }
    }
}

fn is_private(address: Ipv4Addr) -> bool {
    address.is_private() || address.is_loopback() || address.is_link_local()
}

impl Default for ClientNetwork {
    fn default() -> Self {
        Self::Numbered(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> ClientNetwork {
        ClientNetwork::of(Peer::Inet(text.parse().unwrap()))
    }

    #[test]
    fn clients_are_networks() {
        assert_eq!(client("192.0.2.1:1"), client("192.0.2.1:2"));
        assert_ne!(client("192.0.2.1:1"), client("192.0.2.2:1"));
        assert_eq!(client("[2001:db8::1]:1"), client("[2001:db8::2]:1"));
        assert_ne!(client("[2001:db8::1]:1"), client("[2001:db8:0:1::1]:1"));
        assert_ne!(client("192.0.2.1:1"), ClientNetwork::of(Peer::Unix));
    }

    #[test]
    fn an_owner_may_have_many_of_them() {
        let is_one = |one, other| client(one).widened() == client(other).widened();
        assert!(is_one("192.0.2.1:1", "192.0.2.255:1") && !is_one("192.0.2.1:1", "192.0.3.1:1"));
        assert!(is_one("[2001:db8:7:1::]:1", "[2001:db8:7:ffff::]:1"));
        assert!(!is_one("[2001:db8:7::]:1", "[2001:db8:8::]:1"));
        assert!(!is_one("10.0.0.1:1", "10.0.0.2:1") && !is_one("127.0.0.1:1", "127.0.0.2:1"));
        assert!(!is_one("[fd00:1:2:3::]:1", "[fd00:1:2:4::]:1"));
        assert!(!is_one("[fe80:0:0:3::]:1", "[fe80:0:0:4::]:1"));
        assert_ne!(ClientNetwork::numbered(1).widened(), ClientNetwork::numbered(2).widened());
    }
}
