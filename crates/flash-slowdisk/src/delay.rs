//! How long an operation takes: a distribution, and the draws from it. It reads no clock and sleeps nowhere; that
//! is the [queue](crate::queue)'s.

use std::time::Duration;

/// A distribution of service times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Delay {
    Fixed(Duration),
    Uniform { least: Duration, most: Duration },
    Exponential { mean: Duration },
}

impl Delay {
    /// Reads `fixed:5ms`, `uniform:1ms-20ms` or `exp:8ms`.
    pub(crate) fn parse(word: &str) -> Result<Delay, String> {
        let wrong = || format!("{word:?} is no delay: fixed:5ms, uniform:1ms-20ms or exp:8ms");
        let (shape, times) = word.split_once(':').ok_or_else(wrong)?;
        match shape {
            "fixed" => Ok(Delay::Fixed(duration(times)?)),
            "exp" => Ok(Delay::Exponential { mean: duration(times)? }),
            "uniform" => {
                let (least, most) = times.split_once('-').ok_or_else(wrong)?;
                let (least, most) = (duration(least)?, duration(most)?);
                if least <= most { Ok(Delay::Uniform { least, most }) } else { Err(wrong()) }
            }
            _ => Err(wrong()),
        }
    }

    /// The service time that belongs to a draw from 0 up to, but not including, 1.
    pub(crate) fn at(self, draw: f64) -> Duration {
        match self {
            Delay::Fixed(time) => time,
            Delay::Uniform { least, most } => least + (most - least).mul_f64(draw),
            Delay::Exponential { mean } => mean.mul_f64(-(1.0 - draw).ln()),
        }
    }
}

/// Reads `5ms`, `0.5s`, `200us`; nothing longer than a day, so that no sum of times can overflow.
pub(crate) fn duration(word: &str) -> Result<Duration, String> {
    let wrong = || format!("{word:?} is no time: 200us, 5ms, 1.5s, up to a day");
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(wrong()),
    };
    let number: f64 = word[..word.len() - unit.len()].parse().map_err(|_| wrong())?;
    let seconds = number * seconds;
    if seconds <= 86_400.0 { Ok(Duration::from_secs_f64(seconds)) } else { Err(wrong()) }
}

/// The `number`th draw of a seed, from 0 up to 1: SplitMix64, which needs no state but a count.
pub(crate) fn draw(seed: u64, number: u64) -> f64 {
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    (z >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(word: &str) -> Delay {
        Delay::parse(word).expect(word)
    }

    /// Mean, least and most of ten thousand draws, in milliseconds.
    fn shape(delay: Delay) -> (f64, f64, f64) {
        let times = (0..10_000).map(|number| delay.at(draw(7, number)).as_secs_f64() * 1e3);
        let times: Vec<f64> = times.collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let least = times.iter().copied().fold(f64::MAX, f64::min);
        (mean, least, times.iter().copied().fold(0.0, f64::max))
    }

    #[test]
    fn distributions_have_their_shapes() {
        let (mean, least, most) = shape(parse("fixed:5ms"));
        assert!((mean - 5.0).abs() < 1e-6 && least == most);
        let (mean, least, most) = shape(parse("uniform:1ms-20ms"));
        assert!((mean - 10.5).abs() < 0.3, "{mean}");
        assert!((1.0..1.1).contains(&least) && (19.9..20.0).contains(&most), "{least} {most}");
        let (mean, least, most) = shape(parse("exp:8ms"));
        assert!((mean - 8.0).abs() < 0.3, "{mean}");
        assert!(least < 0.01 && (50.0..300.0).contains(&most), "{least} {most}");
    }

    #[test]
    fn a_seed_draws_the_same_again() {
        let draws = |seed| (0..100).map(|number| draw(seed, number)).collect::<Vec<_>>();
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
        assert!(draws(7).iter().all(|draw| (0.0..1.0).contains(draw)));
    }

    #[test]
    fn nonsense_is_no_delay() {
        for word in ["", "fixed", "fixed:", "fixed:5", "fixed:ms", "fixed:1.2.3s", "fixed:-1ms", "fixed:inf"]
        {
            assert!(Delay::parse(word).is_err(), "{word}");
        }
        for word in ["uniform:5ms", "uniform:5ms-1ms", "exp:1h", "exp:100000s", "norm:5ms", "fixed:99999999s"]
        {
            assert!(Delay::parse(word).is_err(), "{word}");
        }
        assert_eq!(parse("fixed:0.5ms"), Delay::Fixed(Duration::from_micros(500)));
    }
}
