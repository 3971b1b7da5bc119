//! Whether a name of a certificate is that of a host.

/// Whether a name of a certificate is for this host. `*` stands for one label (RFC 9525 §6.3).
pub(crate) fn covers(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(parent) => host
            .split_once('.')
            .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(parent)),
        None => pattern.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
