//! The LRU-stack model: a client asks again for what was asked for a lognormal number of other files ago. Real requests
//! have such a memory; independent draws have none.

use rand::Rng;
use rand_distr::{Distribution, Exp1, LogNormal};

use super::{Recency, Zipf};

/// How far down in the stack the next file lies: 1 is the one that was asked for last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distances {
    /// The mean of ln(distance).
    pub ln_mean: f64,
    /// The standard deviation of ln(distance).
    pub ln_sd: f64,
}

/// All files, in the order of their last use.
///
/// It begins as if a great many independent draws of a Zipf law had gone before, so that popular files tend to lie on
/// top. From then on only distances decide, and which files are popular changes slowly, as it does on real sites.
#[derive(Clone, Debug)]
pub struct LruStack {
    order: Recency,
    distances: LogNormal<f64>,
}

impl LruStack {
    /// A stack of all the ranks of `popularity`, its order drawn. None where the distances' parameters are no numbers, or
    /// nearly all distances lie below or beyond the stack.
    pub fn new(popularity: &Zipf, distances: Distances, random: &mut impl Rng) -> Option<Self> {
        let Distances { ln_mean, ln_sd } = distances;
        let within = -3.0 * ln_sd..=f64::from(popularity.ranks()).ln() + 3.0 * ln_sd;
        if !ln_sd.is_sign_positive() || !within.contains(&ln_mean) {
            return None;
        }
        let distances = LogNormal::new(ln_mean, ln_sd).ok()?;
        // In a stream of draws seen backwards, the files appear in the order in which clocks ring that run at the speed of
        // their popularity: independent exponential times (Efraimidis and Spirakis, 2006).
        let mut rings: Vec<(f64, u32)> = (0..popularity.ranks())
            .map(|rank| {
                let time: f64 = Exp1.sample(random);
                (time / popularity.weight(rank), rank)
            })
            .collect();
        rings.sort_by(|one, other| other.0.total_cmp(&one.0));
        let mut order = Recency::new(popularity.ranks());
        for (_, rank) in rings {
            order.touch(rank);
        }
        Some(Self { order, distances })
    }

    /// The file at a distance that is drawn anew, which then lies on top. Distances beyond the stack are drawn again.
    pub fn draw(&mut self, random: &mut impl Rng) -> u32 {
        loop {
            // Nothing lies nearer than the top. The cast keeps what is too large too large.
            let distance = (self.distances.sample(random).round() as u32).max(1);
            if let Some(file) = self.order.at(distance) {
                self.order.touch(file);
                return file;
            }
        }
    }
}
