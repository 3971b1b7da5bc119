//! A claim as a rule, and the runs that it is asked of.

use flash_sim::Architecture::{self, Mt, Pipelined};
use flash_sim::Outcome;

use super::super::exhibit::Exhibit;
use super::super::results::Results;

/// One claim, or a part of one that can be true or false on its own.
pub(super) struct Claim {
    pub(super) id: &'static str,
    /// The exhibits that it is about: it is looked at where all of them are there.
    pub(super) about: &'static [Exhibit],
    pub(super) claimed: &'static str,
    /// What the number is, and its unit.
    pub(super) measure: &'static str,
    pub(super) unit: &'static str,
    /// When the claim is taken to hold.
    pub(super) rule: &'static str,
    /// The number, and whether it follows the rule.
    pub(super) check: fn(&One) -> (f64, bool),
    /// What stands against it, where it does not hold: an analysis of a full run with the default settings.
    pub(super) otherwise: &'static str,
    /// Whether what the analysis says of the run is so in these runs too.
    pub(super) is_borne_out: fn(&One) -> bool,
}

/// All runs with one seed.
pub(super) struct One<'a> {
    pub(super) results: &'a Results,
    pub(super) seed: usize,
}

impl One<'_> {
    /// A quantity of a point; NaN, which follows no rule, where there is none.
    pub(super) fn at(
        &self,
        panel: &str,
        architecture: Architecture,
        x: u32,
        quantity: fn(&Outcome) -> f64,
    ) -> f64 {
        let seeds = self.results.at(panel, architecture, x, quantity);
        seeds.0.get(self.seed).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn throughput(&self, panel: &str, architecture: Architecture, x: u32) -> f64 {
        self.at(panel, architecture, x, |outcome| outcome.requests_per_s)
    }

    pub(super) fn xs(&self, panel: &str, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        self.results.xs(panel).into_iter().filter(|x| wanted(*x)).collect()
    }

    /// By how much one is ahead of the best of others at a point, in per cent.
    pub(super) fn lead(&self, panel: &str, of: Architecture, over: &[Architecture], x: u32) -> f64 {
        let others = over.iter().map(|other| self.throughput(panel, *other, x));
        percent_more(self.throughput(panel, of, x), others.fold(f64::NAN, f64::max))
    }
}

pub(super) fn percent_more(one: f64, other: f64) -> f64 {
    100.0 * (one / other - 1.0)
}

pub(super) fn least(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().fold(f64::NAN, f64::min)
}

pub(super) fn most(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().fold(f64::NAN, f64::max)
}

/// From the number of processors `from` to `to`, in per cent.
pub(super) fn growth(one: &One, panel: &str, architecture: Architecture, from: u32, to: u32) -> f64 {
    percent_more(one.throughput(panel, architecture, to), one.throughput(panel, architecture, from))
}

/// PIPELINED's, in per cent.
pub(super) fn largest_lead_over_mt(one: &One, panel: &str) -> f64 {
    most(one.xs(panel, |_| true).into_iter().map(|x| one.lead(panel, Pipelined, &[Mt], x)))
}
