//! Numbers for people: at most four digits that matter, with their unit.

/// `1,234,567`.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `3.1 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let bytes_f = bytes as f64;
    match units.into_iter().find(|(_, size)| bytes_f >= 0.9995 * size) {
        Some((unit, size)) => format!("{} {unit}", three_digits(bytes_f / size)),
        None => format!("{bytes} B"),
    }
}

/// `3.1 MB/s`.
pub(super) fn bytes_rate(rate: u64) -> String {
    format!("{}/s", bytes(rate))
}

/// `1,234/s`.
pub(super) fn rate(rate: u64) -> String {
    format!("{}/s", count(rate))
}

/// `0.3/s`, `12/s`.
pub(super) fn small_rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 9.95 {
        format!("{per_second:.1}/s")
    } else {
        rate(per_second.round() as u64)
    }
}

/// `820 µs`, `1.25 ms`, `3.4 s`.
pub(super) fn micros(us: u64) -> String {
    match us {
        0..1000 => format!("{us} µs"),
        1000..999_500 => format!("{} ms", three_digits(us as f64 / 1e3)),
        _ if us < 120_000_000 => format!("{} s", three_digits(us as f64 / 1e6)),
        _ => duration(us / 1_000_000),
    }
}

/// `41 s`, `5 min 12 s`, `3 h 7 min`, `12 d 4 h`.
pub(super) fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if minutes == 0 => format!("{seconds} s"),
        () if hours == 0 => format!("{minutes} min {} s", seconds % 60),
        () if days == 0 => format!("{hours} h {} min", minutes % 60),
        () => format!("{days} d {} h", hours % 24),
    }
}

/// `12.5 %` of a whole.
pub(super) fn share(part: f64) -> String {
    let percent = (part * 100.0).clamp(0.0, 100.0);
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

fn three_digits(value: f64) -> String {
    match value {
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_units() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([999, 1000, 3_100_000, 99_990_000].map(bytes), ["999 B", "1.00 kB", "3.10 MB", "100 MB"]);
        assert_eq!([820, 1250, 999_499, 3_400_000].map(micros), ["820 µs", "1.25 ms", "999 ms", "3.40 s"]);
        assert_eq!(micros(999_600), "1.00 s");
        assert_eq!(micros(200_000_000), "3 min 20 s");
        assert_eq!(
            [41, 312, 11_220, 1_051_200].map(duration),
            ["41 s", "5 min 12 s", "3 h 7 min", "12 d 4 h"]
        );
        assert_eq!([0.0, 0.0123, 0.0996, 1.2].map(share), ["0.0 %", "1.2 %", "10 %", "100 %"]);
    }
}
