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
    // What is just below a round number is shown as that.
    let size = value.abs() * 1.0005;
    let fits = |(divisor, _): &&(f64, &str)| size >= *divisor && size < 1e6 * divisor;
    let (divisor, prefix) = prefixes(unit).iter().rfind(fits).copied().unwrap_or((1.0, ""));
    let number = significant(value / divisor);
    if has_prefixes(unit) {
        with_unit(&number, prefix, unit)
    } else {
        with_unit(&(number + prefix), "", unit)
    }
}

/// As [`quantity`], for places that name the unit themselves: only those that take prefixes stand with the number.
pub fn bare(value: f64, unit: &str) -> String {
    quantity(value, if has_prefixes(unit) { unit } else { "" })
}

/// A tick of an axis that goes in steps of `step` up to `most`: as many decimals and the same prefix for all.
pub(crate) fn tick(value: f64, step: f64, most: f64, unit: &str) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let mut prefixes = prefixes(unit).iter();
    let tells_apart =
        |(divisor, _): &&(f64, &str)| (*divisor..1e6 * divisor).contains(&most) && step >= divisor / 1000.0;
    let (divisor, prefix) = prefixes.rfind(tells_apart).copied().unwrap_or((1.0, ""));
    let least = step / divisor;
    let number = if most / divisor >= 1e9 || least < 1e-4 {
        let digits = value.abs().log10().floor() - step.log10().floor();
        minus(&format!("{value:.*e}", digits.max(0.0) as usize))
    } else {
        thousands(&format!("{:.*}", (-least.log10() - 1e-9).ceil().max(0.0) as usize, value / divisor))
    };
    if has_prefixes(unit) { with_unit(&number, prefix, unit) } else { number + prefix }
}

pub(crate) fn has_prefixes(unit: &str) -> bool {
    matches!(unit, "s" | "B" | "B/s" | "b/s")
}

/// Prefixes from the smallest on. Numbers without a unit that takes them have those of counts.
fn prefixes(unit: &str) -> &'static [(f64, &'static str)] {
    match unit {
        "s" => &[(1e-9, "n"), (1e-6, "µ"), (1e-3, "m"), (1.0, "")],
        _ if has_prefixes(unit) => &[(1.0, ""), (1e3, "K"), (1e6, "M"), (1e9, "G"), (1e12, "T")],
        _ => &[(1.0, ""), (1e6, "M"), (1e9, "G"), (1e12, "T")],
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
    if size != 0.0 && !(1e-4..1e6).contains(&size) {
        return minus(&format!("{value:.2e}").replace(".00e", "e"));
    }
    let decimals = if size == 0.0 { 0.0 } else { 2.0 - (size * 1.0005).log10().floor() };
    let text = format!("{value:.*}", decimals.max(0.0) as usize);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    thousands(text)
}

fn minus(text: &str) -> String {
    text.replacen('-', "−", usize::from(text.starts_with('-')))
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
            (999_700.0, "", "1M"),
            (1e300, "", "1e300"),
            (-2e-9, "s", "−2 ns"),
            (2e-13, "s", "2e-13 s"),
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
            (8e5, 2e5, 1.6e6, "", "0.8M"),
            (1_000_002.0, 2.0, 1_000_010.0, "", "1,000,002"),
            (-2.5e-6, 5e-7, 3e-6, "", "−2.5e-6"),
            (1500.0, 500.0, 2500.0, "", "1,500"),
            (2e6, 1e6, 5e6, "", "2M"),
            (64_000.0, 1_000.0, 64_000.0, "B", "64 KB"),
            (1e-7, 1e-7, 5e-7, "", "1e-7"),
            (3e20, 1e20, 5e20, "", "3e20"),
        ];
        for (value, step, most, unit, text) in cases {
            assert_eq!(tick(value, step, most, unit), text, "{value} in steps of {step}");
        }
    }
}
