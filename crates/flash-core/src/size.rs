//! Numbers of bytes as operators write them: `4096`, `32K`, `128M`, `1G`.

/// Parses a number of bytes; K, M and G are powers of 1024.
///
/// # Errors
/// It is no such number.
pub fn parse(text: &str) -> Result<u64, String> {
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
    }
}
