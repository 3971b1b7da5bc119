//! What `--deny` names: paths that lead nowhere, or networks whose clients may not come.

use std::net::IpAddr;

use flash_core::site::network::Network;
use flash_core::site::path_rules::PathRule;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    Path(PathRule),
    Network(Network),
}

impl Denial {
    /// An address begins a network. Everything else is a rule about paths.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let ip = text.split_once('/').map_or(text, |(ip, _)| ip);
        match ip.parse::<IpAddr>() {
            Ok(_) => text.parse().map(Self::Network),
            Err(_) => PathRule::parse(text).map(Self::Path),
        }
    }

    pub(crate) fn path(&self) -> Option<&PathRule> {
        match self {
            Self::Path(rule) => Some(rule),
            Self::Network(_) => None,
        }
    }

    pub(crate) fn network(&self) -> Option<Network> {
        match self {
            Self::Path(_) => None,
            Self::Network(network) => Some(*network),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_or_a_network() {
        for text in ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32", "::1"] {
            assert_eq!(Denial::parse(text).unwrap().network(), text.parse().ok(), "{text}");
        }
        for text in ["*.sql", "/private", "secret", "unix", "1.2.3.4.txt", "/10.0.0.1"] {
            assert!(Denial::parse(text).unwrap().path().is_some(), "{text}");
        }
        for text in ["10.0.0.0/33", "a//b", ""] {
            assert!(Denial::parse(text).is_err(), "{text}");
        }
    }
}
