//! Numbers as people read them: thousands apart, three digits that mean something, prefixes where a unit has them.

/// A value with its unit: `1.26 ms`, `2,455 /s`, `64 KB`; a dash for what is not a number.
///
/// ```
/// assert_eq!(flash_figure::quantity(0.00126, "s"), "1.26 ms");
/// assert_eq!(flash_figure::quantity(2455.4, "Mb/s"), "2,455 Mb/s");
/// ```
pub fn quantity(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let (divisor, prefix) = prefix(value, unit);
    with_unit(&significant(value / divisor), prefix, unit)
}

/// A value on an axis that goes in steps of `step` up to `most`. Only units with prefixes are shown with the number; the
/// others are in the axis's title.
pub(crate) fn tick(value: f64, step: f64, most: f64, unit: &str) -> String {
    let (divisor, prefix) = prefix(most, unit);
    if value == 0.0 {
        return "0".to_owned();
    }
    let (value, step) = (value / divisor, step / divisor);
    let decimals = (-step.log10() - 1e-9).ceil();
    let number = match decimals {
        _ if most.abs() / divisor >= 1e6 || decimals > 4.0 => significant(value),
        _ => thousands(&format!("{value:.*}", decimals.max(0.0) as usize)),
    };
    if has_prefixes(unit) { with_unit(&number, prefix, unit) } else { number }
}

pub(crate) fn has_prefixes(unit: &str) -> bool {
    matches!(unit, "s" | "B" | "B/s" | "b/s")
}

fn prefix(value: f64, unit: &str) -> (f64, &'static str) {
    let value = value.abs();
    match unit {
        // Just below a round number, it would be shown as 1,000 of the smaller unit.
        "s" if value >= 0.9995 || value == 0.0 => (1.0, ""),
        "s" if value >= 0.9995e-3 => (1e-3, "m"),
        "s" if value >= 0.9995e-6 => (1e-6, "µ"),
        "s" => (1e-9, "n"),
        _ if !has_prefixes(unit) || value < 999.5 => (1.0, ""),
        _ if value < 999.5e3 => (1e3, "K"),
        _ if value < 999.5e6 => (1e6, "M"),
        _ if value < 999.5e9 => (1e9, "G"),
        _ => (1e12, "T"),
    }
}

fn with_unit(number: &str, prefix: &str, unit: &str) -> String {
    match unit {
        "" => number.to_owned(),
        "%" => format!("{number} %"),
        _ => format!("{number} {prefix}{unit}"),
    }
}

/// Three digits that mean something, without zeros at the end.
fn significant(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        _ if size < 9.995e-5 || size >= 9.995e14 => format!("{value:.2e}").replace(".00e", "e"),
        _ if size >= 999.5e9 => short(value / 1e12) + "T",
        _ if size >= 999.5e6 => short(value / 1e9) + "G",
        _ if size >= 999.5e3 => short(value / 1e6) + "M",
        _ => short(value),
    }
}

fn short(value: f64) -> String {
    let decimals = (2.0 - value.abs().log10().floor()).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    thousands(text)
}

/// A comma before each three digits of the whole part.
fn thousands(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("−", digits));
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_and_a_prefix() {
        let cases = [
            (0.0, "s", "0 s"),
            (0.999_96, "s", "1 s"),
            (0.000_15, "s", "150 µs"),
            (9.2e-3, "s", "9.2 ms"),
            (15.843, "s", "15.8 s"),
            (1234.0, "B", "1.23 KB"),
            (65_536.0, "B", "65.5 KB"),
            (2455.0, "/s", "2,455 /s"),
            (12.5, "%", "12.5 %"),
            (1.0, "", "1"),
            (-1234.6, "", "−1,235"),
            (1.2e6, "", "1.2M"),
            (1e300, "", "1e300"),
            (1.234e-7, "", "1.23e-7"),
            (f64::NAN, "ms", "–"),
            (f64::NEG_INFINITY, "ms", "–"),
        ];
        for (value, unit, text) in cases {
            assert_eq!(quantity(value, unit), text, "{value} {unit}");
        }
    }

    #[test]
    fn ticks_agree_about_decimals_and_prefix() {
        let cases = [
            (0.0, 0.5, 2.0, "ms", "0"),
            (1.0, 0.5, 2.0, "ms", "1.0"),
            (5e-4, 5e-4, 2e-3, "s", "0.5 ms"),
            (1500.0, 500.0, 2500.0, "", "1,500"),
            (2e6, 1e6, 5e6, "", "2M"),
            (64_000.0, 1_000.0, 64_000.0, "B", "64 KB"),
            (1e-7, 1e-7, 5e-7, "", "1e-7"),
        ];
        for (value, step, most, unit, text) in cases {
            assert_eq!(tick(value, step, most, unit), text, "{value} in steps of {step}");
        }
    }
}
