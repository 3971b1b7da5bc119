//! Zipf's law: the file of rank k is asked for in proportion to 1 / k^exponent.

use std::fmt;
use std::sync::Arc;

use rand::Rng;
use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;

/// Ranks from 0, the most popular first. Clones share one table of 12 bytes a rank.
#[derive(Clone)]
pub struct Zipf {
    ranks: u32,
    exponent: f64,
    table: Arc<WeightedAliasIndex<f64>>,
}

impl Zipf {
    /// An exponent of 0 makes all ranks alike. None where there are no ranks, or the exponent is no number from 0 to 100.
    pub fn new(ranks: u32, exponent: f64) -> Option<Self> {
        if !(0.0..=100.0).contains(&exponent) {
            return None;
        }
        let weights = (0..ranks).map(|rank| weight(rank, exponent)).collect();
        let table = Arc::new(WeightedAliasIndex::new(weights).ok()?);
        Some(Self { ranks, exponent, table })
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How steep the law is.
    pub fn exponent(&self) -> f64 {
        self.exponent
    }

    /// Which share of all draws a rank has, in proportion to the first one's.
    pub fn weight(&self, rank: u32) -> f64 {
        weight(rank, self.exponent)
    }

    /// A rank.
    pub fn draw(&self, random: &mut impl Rng) -> u32 {
        u32::try_from(self.table.sample(random)).expect("the table has as many places as there are ranks")
    }
}

impl fmt::Debug for Zipf {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Zipf").field("ranks", &self.ranks).field("exponent", &self.exponent).finish()
    }
}

fn weight(rank: u32, exponent: f64) -> f64 {
    (f64::from(rank) + 1.0).powf(-exponent)
}
