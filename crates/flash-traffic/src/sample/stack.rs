//! The LRU-stack model: a client requests a file again after requests for a lognormal number of other files. Real requests have
//! such a memory, and also popular files (Jin and Bestavros, 2000). Independent draws have no memory. A stack alone forgets in
//! time which files are popular.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1, LogNormal};

use super::{Recency, Zipf};

/// How far down in the stack the next file lies: 1 is the one that was asked for last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distances {
    /// The mean of ln(distance).
    pub ln_mean: f64,
    /// The standard deviation of ln(distance).
    pub ln_sd: f64,
    /// Which share of the requests is by distance, from 0 to 1; the rest is by popularity.
    pub share: f64,
}

/// All files, in the order of their last use.
///
/// It begins as if a great many independent draws of a Zipf law had gone before, so that popular files tend to lie on
/// top.
#[derive(Clone, Debug)]
pub struct LruStack {
    order: Recency,
    popularity: Zipf,
    distances: LogNormal<f64>,
    share: f64,
}

impl LruStack {
    /// A stack of all the ranks of `popularity`, its order drawn. None where the distances' parameters are no numbers, or
    /// nearly all distances lie below or beyond the stack.
    pub fn new(popularity: &Zipf, distances: Distances, random: &mut impl Rng) -> Option<Self> {
        let Distances { ln_mean, ln_sd, share } = distances;
        let within = -3.0 * ln_sd..=f64::from(popularity.ranks()).ln() + 3.0 * ln_sd;
        if !ln_sd.is_sign_positive() || !within.contains(&ln_mean) || !(0.0..=1.0).contains(&share) {
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
        Some(Self { order, popularity: popularity.clone(), distances, share })
    }

    /// The next file, which then lies on top.
    pub fn draw(&mut self, random: &mut impl Rng) -> u32 {
        let file = if random.random_bool(self.share) {
            self.at_distance(random)
        } else {
            self.popularity.draw(random)
        };
        self.order.touch(file);
        file
    }

    /// The file at a distance that is drawn anew until it lies within the stack.
    fn at_distance(&self, random: &mut impl Rng) -> u32 {
        loop {
            // Nothing lies nearer than the top. The cast keeps what is too large too large.
            let distance = (self.distances.sample(random).round() as u32).max(1);
            if let Some(file) = self.order.at(distance) {
                return file;
            }
        }
    }
}
