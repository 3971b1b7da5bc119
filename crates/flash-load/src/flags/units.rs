//! Quantities on the command line: times, bytes, parts of a whole.

use std::time::Duration;

/// A time with its unit: `500us`, `100ms`, `10s`, `2m`, `1h`; only 0 needs none.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
    let shape = || "write a time with its unit, such as 500ms, 10s, 2m or 1h".to_owned();
    let (number, unit) = split(text).ok_or_else(shape)?;
    let unit_us = match unit {
        "us" | "µs" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "" if number == 0 => 1,
        "" => return Err(format!("add the unit, as in {number}s or {number}ms")),
        _ => return Err(shape()),
    };
    let time = number.checked_mul(unit_us).map(Duration::from_micros);
    time.filter(|time| *time <= LONGEST).ok_or_else(|| "that is longer than a year".into())
}

/// `4096`, `32K`, `1G` by powers of 1024; `90MB` by powers of 1000, as the papers and disks count.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let shape = || "write a number of bytes, such as 4096, 32K, 1G, or 90MB for 90 million".to_owned();
    let (number, unit) = split(text).ok_or_else(shape)?;
    let unit = match unit {
        "" | "B" => 1,
        "K" | "k" | "KiB" => 1 << 10,
        "M" | "m" | "MiB" => 1 << 20,
        "G" | "g" | "GiB" => 1 << 30,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(shape()),
    };
    number
        .checked_mul(unit)
        .filter(|bytes| *bytes <= 1 << 50)
        .ok_or_else(|| "that is more than a server has".into())
}

/// The same, but at least one.
pub(super) fn some_bytes(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        0 => Err("it must not be 0".into()),
        bytes => Ok(bytes),
    }
}

/// Bits a second: `320000`, `320k`, `1M` by powers of 1000, as lines are sold.
pub(super) fn bits(text: &str) -> Result<u64, String> {
    let shape = || "write bits a second, such as 320k or 1M".to_owned();
    let (number, unit) = split(text).ok_or_else(shape)?;
    let unit = match unit {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(shape()),
    };
    number.checked_mul(unit).filter(|bits| (1..=1 << 50).contains(bits)).ok_or_else(shape)
}

/// A part of a whole, 0 to 1.
pub(super) fn part(text: &str) -> Result<f64, String> {
    let part: f64 = text.parse().map_err(|_| "write a number from 0 to 1".to_owned())?;
    if (0.0..=1.0).contains(&part) { Ok(part) } else { Err("write a number from 0 to 1".into()) }
}

/// A number above 0: a rate, a factor.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "write a number above 0".to_owned())?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("write a number above 0".into()) }
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse().ok().map(|number| (number, &text[digits.len()..])))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        assert_eq!(span("150us"), Ok(Duration::from_micros(150)));
        assert_eq!(span("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(span("0"), Ok(Duration::ZERO));
        assert_eq!(span("60"), Err("add the unit, as in 60s or 60ms".into()));
        assert_eq!(bytes("32K"), Ok(32768));
        assert_eq!(bytes("90MB"), Ok(90_000_000));
        assert_eq!(bits("320k"), Ok(320_000));
        assert_eq!(part("0.25"), Ok(0.25));
        for text in ["", "s", "+1s", "-1s", "1.5s", "1 s", "99999999999999999999s", "9000h"] {
            assert!(span(text).is_err(), "{text}");
            assert!(bytes(text).is_err() && bits(text).is_err(), "{text}");
        }
        for text in ["", "-0.1", "1.1", "NaN", "inf"] {
            assert!(part(text).is_err(), "{text}");
        }
        assert!(positive("0").is_err() && positive("NaN").is_err() && some_bytes("0").is_err());
    }
}
