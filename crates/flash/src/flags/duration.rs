//! Spans of time on the command line: `500ms`, `10s`, `2m`, `1h`, `7d`, `0`.

use std::time::Duration;

/// Parses a span of at most a year. Only 0 needs no unit: `--idle-timeout 60` might mean anything.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    match parse_long(text)? {
        time if time > YEAR => Err("that is longer than a year".into()),
        time => Ok(time),
    }
}

/// The same, of at most a hundred years.
pub(super) fn parse_long(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = match digits.parse() {
        Ok(number) if !digits.starts_with('+') => number,
        _ => return Err(SHAPE.into()),
    };
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" if number == 0 => 1,
        "" => return Err(format!("add the unit, as in {number}s or {number}ms")),
        _ => return Err(SHAPE.into()),
    };
    let time = number.checked_mul(unit_ms).map(Duration::from_millis).filter(|time| *time <= 100 * YEAR);
    time.ok_or_else(|| "that is longer than a year".into())
}

/// The same, but not 0: for limits, which there always must be.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("it must be longer than 0".into()),
        duration => Ok(duration),
    }
}

const SHAPE: &str = "write a time with its unit, such as 500ms, 10s, 2m, 1h or 7d";
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let good = [
            ("0", 0),
            ("0s", 0),
            ("500ms", 500),
            ("10s", 10_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
        ];
        for (text, ms) in good {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in
            ["", "s", "-1s", "+1s", "1.5s", "1 s", "5 parsecs", "9999999999999999999h", "9000h", "367d"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("60"), Err("add the unit, as in 60s or 60ms".into()));
        assert!(parse_positive("0ms").is_err());
    }
}
