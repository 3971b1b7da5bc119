//! The hosts of a certificate, as flags give them.

use std::net::IpAddr;

use flash_config::Host;

/// In the place of the hosts of a certificate: those of its site in the file.
pub(crate) const HOSTS_OF_SITE: &str = "*";

/// A host that an authority can issue a certificate for.
pub(super) fn parse(text: &str) -> Result<String, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let host = match text.parse::<Host>()? {
        Host::Any => return Ok(HOSTS_OF_SITE.into()),
        host => host.to_string(),
    };
    check_issuable(&host).map(|()| host)
}

/// Whether an authority can issue a certificate for this host. Sites may have names that are none of the Internet's.
pub(crate) fn check_issuable(host: &str) -> Result<(), String> {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_wrong = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    let mut labels = name.split('.');
    let why = if host.parse::<IpAddr>().is_ok() {
        return Ok(());
    } else if labels.clone().any(|label| label.is_empty() || label.contains(is_wrong)) {
        "its parts have letters, digits and hyphens"
    } else if labels.clone().any(|label| label.starts_with('-') || label.ends_with('-')) {
        "no part begins or ends with a hyphen"
    } else if labels.clone().any(|label| label.len() > LABEL_BYTES_MAX) {
        "a part has 63 bytes at most"
    } else if labels.next_back().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit())) {
        "it ends with a number, as addresses do"
    } else {
        return Ok(());
    };
    Err(format!("no authority issues a certificate for {host}: {why}"))
}

/// RFC 1035 §2.3.4.
const LABEL_BYTES_MAX: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses() {
        assert_eq!(parse("WWW.Example.org"), Ok("www.example.org".into()));
        assert_eq!(parse("*.example.org"), Ok("*.example.org".into()));
        assert_eq!(parse("2001:DB8::1"), Ok("2001:db8::1".into()));
        for right in ["localhost", "127.0.0.1", "b\u{fc}cher.example", "1.example", "*.a-b.example", "*"] {
            assert!(parse(right).is_ok(), "{right}");
        }
        for wrong in ["", "a b", "a/b", "https://example.org", "a..example", ".", &"a.".repeat(200)] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for (wrong, why) in [
            ("a_b.example", "letters, digits and hyphens"),
            ("*._tcp.example", "letters, digits and hyphens"),
            ("a-.example", "hyphen"),
            (&format!("{}.example", "a".repeat(64)), "63 bytes"),
            ("12345", "a number"),
            ("*.1.2.3", "a number"),
            ("127.0.0.256", "a number"),
        ] {
            let said = parse(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
