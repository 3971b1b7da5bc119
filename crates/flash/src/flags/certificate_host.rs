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
    match text.parse::<Host>()? {
        Host::Exact(name) => Ok(name),
        Host::Below(name) => Ok(format!("*.{name}")),
        Host::Any => Ok(HOSTS_OF_SITE.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses() {
        assert_eq!(parse("WWW.Example.org"), Ok("www.example.org".into()));
        assert_eq!(parse("*.example.org"), Ok("*.example.org".into()));
        assert_eq!(parse("2001:DB8::1"), Ok("2001:db8::1".into()));
        for wrong in ["", "a b", "a/b", "https://example.org"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
