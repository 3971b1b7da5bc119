//! A limit of bytes by time, as an operator writes it: `2M/s burst 20M`.

use std::str::FromStr;

use crate::size;

/// So many bytes in a second, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteRate {
    bytes_per_s: u64,
    burst_us: u64,
}

/// A client that has used up its burst has all of it again after this time.
pub(super) const RECOVERY_US_MAX: u64 = 3600 * 1_000_000;
const PER_SECOND_MAX: u64 = 1 << 40;
/// A quantum is what a client may send in this part of a second.
const QUANTA_PER_S: u64 = 20;
/// A smaller quantum costs more calls, as far as it takes no second. A larger one is no better for the wire.
const QUANTUM_MIN: u64 = 16 << 10;
const QUANTUM_MAX: u64 = 256 << 10;
/// However fast, a loop does not wake up more often than this for a connection.
const WAKES_PER_S: u64 = 50;
/// The burst without a word about it, and the least: a loop that wakes up late takes nothing of the rate.
const BURST_US: u64 = 250_000;
const BURST_US_MIN: u64 = 100_000;

const SHAPE: &str = "write it as \"2M/s\" or \"2M/s burst 20M\"";

impl ByteRate {
    /// # Errors
    /// The rate is 0, or too large, or the burst is more than what an hour has.
    pub fn new(bytes_per_s: u64, burst: Option<u64>) -> Result<Self, String> {
        if !(1..=PER_SECOND_MAX).contains(&bytes_per_s) {
            return Err(format!("a rate has 1 byte per second at least, and 1024G at most: {SHAPE}"));
        }
        let rate = Self { bytes_per_s, burst_us: BURST_US };
        let burst_us = burst.map_or(BURST_US, |burst| rate.us(burst));
        match burst_us {
            0 => Err(format!("a burst has 1 byte at least: {SHAPE}")),
            _ if burst_us > RECOVERY_US_MAX => Err("a burst is what comes in an hour at most".into()),
            _ => Ok(Self { burst_us: burst_us.max(BURST_US_MIN).max(rate.us(rate.quantum())), ..rate }),
        }
    }

    /// How many bytes are sent at a time.
    pub(super) fn quantum(&self) -> u64 {
        let rate = self.bytes_per_s;
        (rate / QUANTA_PER_S).clamp(QUANTUM_MIN.min(rate), QUANTUM_MAX).max(rate / WAKES_PER_S)
    }

    /// How long the rate takes for so many bytes.
    pub(super) fn us(&self, bytes: u64) -> u64 {
        let us = (u128::from(bytes) * 1_000_000).div_ceil(self.bytes_per_s.into());
        u64::try_from(us).unwrap_or(u64::MAX)
    }

    pub(super) fn burst_us(&self) -> u64 {
        self.burst_us
    }
}

impl FromStr for ByteRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (rate, burst) = match words[..] {
            [rate] => (rate, None),
            [rate, "burst", burst] => (rate, Some(size::parse(burst)?)),
            _ => return Err(SHAPE.into()),
        };
        Self::new(size::parse(rate.strip_suffix("/s").ok_or(SHAPE)?)?, burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let rate = |text: &str| text.parse::<ByteRate>().map(|rate| (rate.bytes_per_s, rate.burst_us));
        assert_eq!(rate("2M/s burst 20M"), Ok((2 << 20, 10_000_000)));
        assert_eq!(rate(" 64k/s"), Ok((64 << 10, 250_000)));
        assert_eq!(rate("1024/s burst 1"), Ok((1024, 1_000_000)), "a quantum is the least");
        assert_eq!(rate("1G/s burst 1K"), Ok((1 << 30, 100_000)));
        assert_eq!(rate("2MB/s burst 4MiB"), Ok((2 << 20, 2_000_000)));
        for text in [
            "",
            "2M",
            "2M/",
            "2M/m",
            "0/s",
            "0M/s",
            "-1/s",
            "+1M/s",
            "2M/s 4M",
            "2M/s burst",
            "2M/s burst 0",
            "2T/s",
            "2 M/s",
            "M/s",
            "1.5M/s",
            "2M/s burst 4M x",
            "99999999999G/s",
            "1025G/s",
            "1/s burst 1M",
            "2M/s burst 2MX",
        ] {
            assert!(text.parse::<ByteRate>().is_err(), "{text}");
        }
    }

    #[test]
    fn quanta() {
        let quantum = |text: &str| text.parse::<ByteRate>().unwrap().quantum();
        assert_eq!(
            ["100/s", "16K/s", "100K/s", "2M/s", "1G/s"].map(quantum),
            [100, 16 << 10, 16 << 10, (2 << 20) / 20, (1 << 30) / 50]
        );
    }
}
