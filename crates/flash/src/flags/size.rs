//! Numbers of bytes on the command line: `4096`, `32K`, `128M`, `1G`.

pub(crate) use flash_core::size::parse;

/// The same, but not 0.
pub(crate) fn parse_positive(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err("it must not be 0".into()),
        bytes => Ok(bytes),
    }
}

/// The same number as a person would write it, rounded down.
pub(crate) fn shown(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let unit = units
        .into_iter()
        .find(|(bits, _)| bytes >> bits >= 10 || (bytes >> bits) << bits == bytes && bytes > 0);
    unit.map_or_else(|| bytes.to_string(), |(bits, name)| format!("{}{name}", bytes >> bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_as_they_are_written() {
        for text in ["0", "9", "32K", "16M", "128M", "1G", "1536M"] {
            assert_eq!(shown(parse(text).unwrap()), text);
        }
        assert_eq!(shown(25_000_001), "23M");
        assert_eq!(shown((12 << 30) + 1), "12G");
        assert_eq!(shown((3 << 20) + 1), "3072K");
    }
}
