//! Whether a name of a certificate is that of a host, and which address a reverse name is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a name of a certificate is for this host. `*` stands for one label (RFC 9525 §6.3).
pub(crate) fn covers(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(parent) => host
            .split_once('.')
            .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(parent)),
        None => pattern.eq_ignore_ascii_case(host),
    }
}

/// The address of a name by which an authority asks for it in a handshake (RFC 8738 §6), as DNS has it for look-ups of addresses.
pub fn reversed(name: &str) -> Option<IpAddr> {
    let name = name.to_ascii_lowercase();
    if let Some(octets) = name.strip_suffix(".in-addr.arpa") {
        let forward: Vec<&str> = octets.rsplit('.').collect();
        return forward.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    }
    let digits: Vec<&str> = name.strip_suffix(".ip6.arpa")?.rsplit('.').collect();
    let is_whole = digits.len() == 32 && digits.iter().all(|digit| digit.len() == 1);
    let bits = u128::from_str_radix(&digits.concat(), 16).ok().filter(|_| is_whole)?;
    Some(IpAddr::V6(Ipv6Addr::from_bits(bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_asked_for_by_its_reverse_name() {
        let six = |digit: &str| format!("{digit}{}8.b.d.0.1.0.0.2.ip6.arpa", "0.".repeat(23));
        for (name, address) in [
            ("1.2.0.192.in-addr.arpa", Some("192.0.2.1")),
            ("1.2.0.192.IN-ADDR.ARPA", Some("192.0.2.1")),
            (&six("1."), Some("2001:db8::1")),
            (&six("F."), Some("2001:db8::f")),
            (&six("+."), None),
            (&six(""), None),
            (&six("0.1."), None),
            ("2.0.192.in-addr.arpa", None),
            ("256.2.0.192.in-addr.arpa", None),
            ("a.example", None),
            ("in-addr.arpa", None),
        ] {
            assert_eq!(reversed(name), address.map(|address| address.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn a_star_stands_for_one_label() {
        for (pattern, host) in [
            ("example.org", "Example.org"),
            ("*.example.org", "www.example.org"),
            // The site of all hosts below another one.
            ("*.example.org", "*.example.org"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            assert!(covers(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("example.org", "www.example.org"),
            ("*.example.org", "example.org"),
            ("*.example.org", ".example.org"),
            ("*.example.org", "a.b.example.org"),
            ("www.example.org", "*.example.org"),
        ] {
            assert!(!covers(pattern, host), "{pattern} {host}");
        }
    }
}
