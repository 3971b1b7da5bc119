//! Whether what an open loop measured is the server's doing. If the clients could not ask when they should have, a run is not a
//! result, whatever its figures are.

use std::fmt;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::tally::Tally;

/// Requests, in parts of all, that may be asked otherwise than they should without a run losing its worth.
const ASTRAY_PART: f64 = 0.01;
/// A thread that has this part of the time something to do is at its end.
const BUSY_PART: f64 = 0.9;
/// A delay of the clients that disturbs no measurement.
const DELAY_MAX_NS: u64 = 1_000_000;

/// Why a run is not a result. Only open loops can fail so: the clients of a closed one ask when they can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Invalid {
    /// Requests were sent late, or found no connection, because a thread of clients was busy all the time.
    Late,
    /// One request in a hundred found all connections busy.
    Full,
    /// Requests were sent late although a thread and a connection were free: the thread did not get a processor.
    Starved,
}

impl Invalid {
    /// `open` are the waits of all open loops.
    pub(crate) fn of(tally: &Tally, open: &Histogram<u64>) -> Option<Invalid> {
        let is_full = tally.queued as f64 > ASTRAY_PART * tally.due as f64;
        // What is sent late has waited for the clients, and not for the server.
        let is_late = [0.5, 1.0 - ASTRAY_PART].into_iter().any(|part| {
            let late = tally.lateness.value_at_quantile(part);
            late > DELAY_MAX_NS.max(open.value_at_quantile(part) / 2)
        });
        match (is_full || is_late, tally.busy >= BUSY_PART) {
            (false, _) => None,
            (true, true) => Some(Invalid::Late),
            (true, false) => Some(if is_full { Invalid::Full } else { Invalid::Starved }),
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Invalid::Late => "late",
            Invalid::Full => "full",
            Invalid::Starved => "starved",
        }
    }
}

/// With what helps.
impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        f.write_str(match self {
            Invalid::Late => ": the clients were too slow for this rate; try more --threads",
            Invalid::Full => ": requests found all connections busy; try more --connections, or a lower rate",
            Invalid::Starved => {
                ": requests were sent late, because other programs had the clients' processor"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::tally::histogram;

    /// A thousand requests of an open loop: so many were queued, so many were sent this late, and all waited this long.
    fn of(queued: u64, (late, by_us): (u64, u64), wait_us: u64, busy: f64) -> Option<Invalid> {
        let mut tally = Tally::new(&[true], Instant::now());
        (tally.due, tally.queued, tally.busy) = (1000, queued, busy);
        (0..1000 - late).for_each(|_| tally.late(Duration::from_micros(20)));
        (0..late).for_each(|_| tally.late(Duration::from_micros(by_us)));
        let mut waits = histogram();
        waits.record_n(wait_us * 1000, 1000).expect("it is within the bounds");
        Invalid::of(&tally, &waits)
    }

    #[test]
    fn clients_that_do_not_ask_in_time_measure_nothing() {
        assert_eq!(of(0, (0, 0), 100, 0.5), None);
        assert_eq!(of(0, (0, 0), 100, 1.0), None, "busy, but in time");
        assert_eq!(of(10, (10, 50_000), 100, 0.5), None, "one in a hundred");
        assert_eq!(of(11, (11, 50_000), 100_000, 0.5), Some(Invalid::Full));
        assert_eq!(of(11, (11, 50_000), 100_000, 0.95), Some(Invalid::Late));
        assert_eq!(of(0, (20, 5_000), 5_100, 0.5), Some(Invalid::Starved));
        assert_eq!(of(0, (20, 5_000), 5_100, 0.95), Some(Invalid::Late));
        assert_eq!(of(0, (20, 5_000), 70_000, 0.5), None, "little beside the server's wait");
        assert_eq!(of(0, (20, 900), 950, 0.5), None, "below a millisecond");
        assert_eq!(of(0, (600, 5_000), 5_100, 0.5), Some(Invalid::Starved));
    }
}
