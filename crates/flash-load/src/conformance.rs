//! Simultaneous connections that keep a minimum bit rate: SPECweb99's measure, and that of New-Flash. A client conforms if its
//! responses came at that rate on average over the measured time, with pauses of the server counted. Also, fewer than one in a
//! hundred of its requests may fail.

use serde::{Deserialize, Serialize};

/// Failed requests, in parts of all, from which on a client does not conform (SPECweb99's run rules).
const FAILED_PART: f64 = 0.01;
/// Of all clients, the part that must conform where the greatest number is searched that do. Not all: one that began a
/// large file at the wrong moment shall not decide.
const CONFORMING_PART: f64 = 0.99;

/// What one client of a closed loop has got in the measured time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientTally {
    /// Heads and frames too.
    pub(crate) received_bytes: u64,
    pub(crate) answers: u64,
    pub(crate) failed: u64,
}

/// How many clients kept a rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conformance {
    pub bits_per_second_min: u64,
    pub clients: u64,
    pub conforming: u64,
    /// What the slowest, the one in the middle and the quickest client got.
    pub bits_per_second_slowest: f64,
    pub bits_per_second_median: f64,
    pub bits_per_second_quickest: f64,
}

impl Conformance {
    pub(crate) fn of(clients: &[ClientTally], seconds: f64, bits_per_second_min: u64) -> Conformance {
        let rate = |client: &ClientTally| client.received_bytes as f64 * 8.0 / seconds.max(f64::MIN_POSITIVE);
        let conforms = |client: &&ClientTally| {
            let asked = client.answers + client.failed;
            // One in the middle of its only file counts no request yet, and none has failed.
            let is_served = client.failed == 0 || (client.failed as f64) < FAILED_PART * asked as f64;
            rate(client) >= bits_per_second_min as f64 && is_served
        };
        let mut rates: Vec<f64> = clients.iter().map(rate).collect();
        rates.sort_by(f64::total_cmp);
        let nth = |place: usize| rates.get(place).copied().unwrap_or_default();
        Conformance {
            bits_per_second_min,
            clients: clients.len() as u64,
            conforming: clients.iter().filter(conforms).count() as u64,
            bits_per_second_slowest: nth(0),
            bits_per_second_median: nth(rates.len() / 2),
            bits_per_second_quickest: rates.last().copied().unwrap_or_default(),
        }
    }

    /// Whether so many clients are not too many.
    pub fn holds(&self) -> bool {
        self.conforming as f64 >= CONFORMING_PART * self.clients as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_and_the_unlucky_do_not_conform() {
        let client = |received_bytes, answers, failed| ClientTally { received_bytes, answers, failed };
        let of = |clients: &[ClientTally]| Conformance::of(clients, 10.0, 320_000);
        let kept = of(&[
            client(400_000, 30, 0),
            client(399_999, 30, 0),
            client(500_000, 99, 1),
            client(500_000, 100, 1),
            client(500_000, 0, 0),
        ]);
        assert_eq!((kept.clients, kept.conforming, kept.holds()), (5, 3, false));
        assert_eq!((kept.bits_per_second_slowest, kept.bits_per_second_quickest), (319_999.2, 400_000.0));
        // Whoever got nothing was not even unlucky.
        assert_eq!(of(&[client(0, 0, 0)]).conforming, 0);
        let mut many = vec![client(400_000, 30, 0); 99];
        many.push(client(0, 0, 0));
        assert!(of(&many).holds());
        many.push(client(0, 0, 0));
        assert!(!of(&many).holds());
    }
}
