//! Under which names administrators reach a listener. A browser asks under any name that leads there, also for a page of that name: the
//! page could read the answers (DNS rebinding). So only names answer that no such page can have.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::site::hosts::{self, HostName};

/// What a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Full,
    /// At an address.
    ReadOnly,
}

/// What is answered at a listener, and for which hosts.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) access: Access,
    /// Those that the configuration names.
    pub(super) hosts: Arc<[HostName]>,
    /// The place of the upgrader's own socket, for those who may ask for everything.
    pub(super) upgrader: Option<Arc<OwnedFd>>,
}

impl Policy {
    /// Whether the listener answers to this host, as a request names it.
    pub(super) fn covers(&self, host: &[u8]) -> bool {
        let Ok(name) = std::str::from_utf8(hosts::bare(host)) else { return false };
        let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_address = || match bracketed {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => name.parse::<Ipv4Addr>().is_ok(),
        };
        // RFC 6761 §6.3: all names below localhost are this machine.
        let is_local = || name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"));
        // `curl --unix-socket` needs some name. A browser comes by a forwarded port, for a page whose name has a dot.
        let is_word = || self.access == Access::Full && !name.contains('.');
        is_address() || is_local() || is_word() || self.hosts.iter().any(|given| given.covers(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_page_of_another_name_reads_here() {
        let covers = |host: &str, access, given: &[HostName]| {
            Policy { access, hosts: given.into(), upgrader: None }.covers(host.as_bytes())
        };
        let given = [HostName::Exact((*b"flash.example").into()), HostName::Below((*b"svc.example").into())];
        for host in [
            "localhost",
            "LocalHost:9180",
            "flash.localhost",
            "127.0.0.1:9180",
            "10.1.2.3",
            "[::1]:9180",
            "[2001:db8::1]",
            "flash.example:80",
            "FLASH.example.",
            "a.svc.example",
        ] {
            assert!(covers(host, Access::ReadOnly, &given), "{host}");
        }
        for host in [
            "evil.example",
            "flash.example.evil",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "notlocalhost",
            "1.2.3",
            "127.0.0.1x",
            "[::1",
            "[evil]",
            "",
            "flash",
            "\u{ff4c}ocalhost",
        ] {
            assert!(!covers(host, Access::ReadOnly, &given), "{host}");
        }
        assert!(covers("flash", Access::Full, &[]) && !covers("evil.example", Access::Full, &[]));
        assert!(covers("evil.example", Access::ReadOnly, &[HostName::Any]));
    }
}
