//! Numbers of bytes on the command line: `4096`, `32K`, `128M`, `1G`.

/// Parses a number of bytes; K, M and G are powers of 1024.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "K" | "k" | "KB" | "KiB" => 1 << 10,
        "M" | "m" | "MB" | "MiB" => 1 << 20,
        "G" | "g" | "GB" | "GiB" => 1 << 30,
        _ => return Err(SHAPE.into()),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(SHAPE.into());
    }
    let number: u64 = match digits.parse() {
        Ok(number) => number,
        Err(_) if digits.is_empty() => return Err(SHAPE.into()),
        Err(_) => return Err(TOO_MANY.into()),
    };
    number.checked_mul(unit).filter(|bytes| *bytes <= i64::MAX as u64).ok_or_else(|| TOO_MANY.into())
}

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

const SHAPE: &str = "write a number of bytes, such as 4096, 32K, 128M or 1G";
const TOO_MANY: &str = "that is more bytes than there are";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let good = [
            ("0", 0),
            ("4096", 4096),
            ("32K", 32 << 10),
            ("64M", 64 << 20),
            ("1G", 1 << 30),
            ("2MiB", 2 << 20),
        ];
        for (text, bytes) in good {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "1 M", "64MM", "0x10", "+3", "１", "18446744073709551615G"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("99999999999999999999"), Err(TOO_MANY.into()));
        assert!(parse_positive("0K").is_err());
    }

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
