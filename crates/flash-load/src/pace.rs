//! When requests are sent. A closed loop waits for responses, like a client that needs one page to request the next. An open
//! loop does not wait, like many independent people. An open loop's waits count from the time when a request was due. So a
//! server that stalls cannot hide its stalls by slowing the clients.

use std::fmt;
use std::time::Duration;

/// Connections of an open loop at most, where nothing else is said. So many are busy at once if a server that is asked 10,000
/// times a second needs a tenth of a second. They are opened as they are needed.
pub const CONNECTIONS_MAX: u32 = 1024;

/// When the clients of a group ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each client asks, waits for the answer, thinks, and asks again.
    Closed { clients: u32, think: Duration },
    /// Requests are due at a rate, whatever has come back. A connection is opened where none is free; with all of
    /// `connections_max` busy, requests wait, and their time runs.
    Open { per_second: f64, arrivals: Arrivals, connections_max: u32 },
    /// Requests are due when the log says so, `speed_up` times as fast.
    Recorded { speed_up: f64, connections_max: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// At distances drawn from an exponential distribution, as independent people arrive.
    Poisson,
}

impl Pace {
    /// Whether requests are due at their times, with or without responses.
    pub fn is_open(&self) -> bool {
        !matches!(self, Pace::Closed { .. })
    }

    /// How many connections it may hold at once.
    pub fn connections_max(&self) -> u32 {
        match *self {
            Pace::Closed { clients, .. } => clients,
            Pace::Open { connections_max, .. } | Pace::Recorded { connections_max, .. } => connections_max,
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Closed { clients, think } if think.is_zero() => write!(f, "closed loop of {clients}"),
            Pace::Closed { clients, think } => write!(f, "closed loop of {clients}, who think for {think:?}"),
            Pace::Open { per_second, arrivals, connections_max } => {
                let arrivals = if *arrivals == Arrivals::Poisson { ", Poisson" } else { "" };
                write!(
                    f,
                    "open loop at {per_second:.0} a second{arrivals}, on up to {connections_max} connections"
                )
            }
            Pace::Recorded { speed_up, connections_max } => {
                write!(f, "as recorded, {speed_up} times as fast, on up to {connections_max} connections")
            }
        }
    }
}

/// The moments at which one thread's requests are due, counted from the start.
pub(crate) struct Due {
    next: Duration,
    /// Between this thread's requests, in the mean.
    gap_seconds: f64,
    arrivals: Arrivals,
    /// How many came before; constant gaps are multiplied and not added up, so that no rounding accumulates.
    count: u64,
    first_seconds: f64,
}

impl Due {
    /// The `index`th of `of` threads takes its turns between those of the others.
    pub(crate) fn new(
        per_second: f64,
        arrivals: Arrivals,
        index: u32,
        of: u32,
        random: &mut fastrand::Rng,
    ) -> Due {
        let gap_seconds = f64::from(of) / per_second;
        let first_seconds = f64::from(index) / per_second;
        let mut due = Due {
            next: Duration::from_secs_f64(first_seconds),
            gap_seconds,
            arrivals,
            count: 0,
            first_seconds,
        };
        if arrivals == Arrivals::Poisson {
            due.next = Duration::ZERO;
            due.advance(random);
        }
        due
    }

    pub(crate) fn next(&self) -> Duration {
        self.next
    }

    pub(crate) fn advance(&mut self, random: &mut fastrand::Rng) {
        self.count += 1;
        self.next = match self.arrivals {
            Arrivals::Constant => {
                Duration::from_secs_f64(self.first_seconds + self.count as f64 * self.gap_seconds)
            }
            // 1 - u, because u may be 0 and never is 1.
            Arrivals::Poisson => {
                self.next + Duration::from_secs_f64(-(1.0 - random.f64()).ln() * self.gap_seconds)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns_at_a_constant_rate() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut dues: Vec<Due> =
            (0..3).map(|index| Due::new(1000.0, Arrivals::Constant, index, 3, &mut random)).collect();
        for n in 0..3000_u32 {
            let due = &mut dues[n as usize % 3];
            let off = due.next().as_secs_f64() - f64::from(n) / 1000.0;
            assert!(off.abs() < 1e-8, "{n}: {off}");
            due.advance(&mut random);
        }
    }

    #[test]
    fn poisson_gaps_have_their_mean_and_their_spread() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut due = Due::new(500.0, Arrivals::Poisson, 0, 1, &mut random);
        let mut gaps = Vec::new();
        for _ in 0..200_000 {
            let before = due.next();
            due.advance(&mut random);
            gaps.push((due.next() - before).as_secs_f64());
        }
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 500.0 - 1.0).abs() < 0.01, "{mean}");
        // An exponential distribution's deviation is its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt());
    }
}
