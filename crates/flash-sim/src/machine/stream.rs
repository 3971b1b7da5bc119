//! The requests of all clients, in one order, without end.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use flash_traffic::{Part, Sequence};

use crate::{Demand, SimulationError};

/// A workload's sequence, which begins again where it ends.
pub(super) struct Stream<'a> {
    demand: &'a Demand,
    seed: u64,
    sequence: Box<dyn Sequence>,
    /// The first of the next turn, so that there always is one.
    next: u32,
}

impl<'a> Stream<'a> {
    pub(super) fn new(demand: &'a Demand, seed: u64) -> Result<Stream<'a>, SimulationError> {
        let mut sequence = demand.workload.sequence(Part::WHOLE, seed);
        let next = sequence.next().ok_or(SimulationError::Empty)?.file;
        Ok(Stream { demand, seed, sequence, next })
    }

    /// The file that is asked for next.
    pub(super) fn next(&mut self) -> u32 {
        let file = self.next;
        self.next = match self.sequence.next() {
            Some(ask) => ask.file,
            None => {
                self.sequence = self.demand.workload.sequence(Part::WHOLE, self.seed);
                self.sequence.next().expect("it had a first one before").file
            }
        };
        file
    }
}

/// All files, by the time of their last request, the latest first. Each time is drawn from an exponential distribution, by the
/// file's share of the requests. The share is the given `popularity`, or else follows from `seen`.
pub(super) fn ages(popularity: Option<&[f64]>, seen: &[u32], seed: u64) -> Vec<u32> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut ages: Vec<(f64, u32)> = (0..seen.len())
        .map(|file| {
            // Half a request for what was never seen, so that it is not taken for impossible.
            let share = popularity.map_or(f64::from(seen[file]) + 0.5, |shares| shares[file]);
            let draw: f64 = random.random();
            (-(1.0 - draw).ln() / share, file as u32)
        })
        .collect();
    ages.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    ages.into_iter().map(|(_, file)| file).collect()
}
