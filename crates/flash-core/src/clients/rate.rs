//! A limit of requests by time, as an operator writes it: `20/s burst 40`.

use std::str::FromStr;

/// So many requests in a second, a minute or an hour, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    /// The time that one request takes of the limit.
    pub(super) interval_us: u64,
    /// How many requests a client may send at once after a pause.
    pub(super) burst: u64,
}

/// After this time, a client that has used up its limit has all of it again.
pub(super) const RECOVERY_US_MAX: u64 = 24 * 3600 * 1_000_000;
/// A thousand times more than a person needs, and as much as the table can tell apart.
const PER_SECOND_MAX: u64 = 5000;

const SHAPE: &str = "write it as \"20/s\", \"20/s burst 40\" or \"600/m\"";

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (rate, burst) = match words[..] {
            [rate] => (rate, None),
            [rate, "burst", burst] => (rate, Some(burst)),
            _ => return Err(SHAPE.into()),
        };
        let (count, unit) = rate.split_once('/').ok_or(SHAPE)?;
        let number = |text: &str| match text.parse::<u64>() {
            Ok(number) if number > 0 && !text.starts_with('+') => Ok(number),
            _ => Err(format!("'{text}' is no number of requests: {SHAPE}")),
        };
        let unit_us = match unit {
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            _ => return Err(format!("'{unit}' is no unit: those are s, m and h")),
        };
        let count = number(count)?;
        let interval_us = unit_us / count;
        if interval_us < 1_000_000 / PER_SECOND_MAX {
            return Err(format!("{PER_SECOND_MAX}/s is the largest limit"));
        }
        // Without a word about it, those of one unit of time may come at once.
        let burst = burst.map_or(Ok(count), number)?;
        match burst.checked_mul(interval_us) {
            Some(recovery_us) if recovery_us <= RECOVERY_US_MAX => Ok(Self { interval_us, burst }),
            _ => Err(format!("a burst of {burst} would take more than a day to recover from")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let rate = |text: &str| text.parse::<Rate>().map(|rate| (rate.interval_us, rate.burst));
        assert_eq!(rate("20/s burst 40"), Ok((50_000, 40)));
        assert_eq!(rate("20/s"), Ok((50_000, 20)));
        assert_eq!(rate(" 600/m  burst 1 "), Ok((100_000, 1)));
        assert_eq!(rate("1/h"), Ok((3_600_000_000, 1)));
        assert_eq!(rate("5000/s"), Ok((200, 5000)));
        for text in [
            "",
            "20",
            "20/",
            "20/d",
            "0/s",
            "-1/s",
            "+1/s",
            "20/s 40",
            "20/s burst",
            "20/s burst 0",
            "6000/s",
            "20/s burst 40 x",
            "1/h burst 25",
            "1/s burst 99999999999999999999",
            "20 / s",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}
