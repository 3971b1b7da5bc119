//! Reasons that several claims share, and what a run must show to bear a reason out.

use flash_sim::Architecture::{self, Amped, Mt, Pipelined, Sped};

use super::claim::{One, growth, largest_lead_over_mt, most};

/// How far an architecture is from PIPELINED at most, with Penn State and up to 8 processors.
pub(super) fn farthest(one: &One, architecture: Architecture) -> f64 {
    let xs = one.xs("figure6c", |x| x <= 8).into_iter();
    most(xs.map(|x| one.lead("figure6c", architecture, &[Pipelined], x).abs()))
}

/// MT and PIPELINED hit as often, and locks and switches cost both next to nothing.
pub(super) fn are_alike(one: &One, panel: &str) -> bool {
    let at = |a, quantity| one.at(panel, a, 16, quantity);
    let hits = |a| at(a, |outcome| outcome.data_hit_rate);
    let spent = |a| at(a, |outcome| outcome.processors.switching + outcome.processors.spinning);
    (hits(Mt) - hits(Pipelined)).abs() < 0.01 && most([Mt, Pipelined].map(spent)) < 0.01
}

pub(super) fn is_as_with_blocks(one: &One) -> bool {
    let change = |a| growth(one, "figure7a", a, 5, 16);
    change(Amped) < 0.0 && change(Sped) > 0.0 && most([Mt, Pipelined].map(|a| change(a).abs())) <= 10.0
}

pub(super) fn leads_grow(one: &One) -> bool {
    let [few, more, most] =
        ["figure8a", "figure8c", "figure8d"].map(|panel| largest_lead_over_mt(one, panel));
    few < more && more < most
}

pub(super) const LOG: &str = "The synthesised beginning of ClarkNet misses little at 150 MB. One processor at 24 us for 512 B hides that. \
    The real NASA log, truncated to 120 MB, misses 3 %. With it all models drop by a third, AMPED least.";

pub(super) const ALIKE: &str = "MT and PIPELINED have the same cache and the same disk, and locks and switches are less than 1 % of the \
    processors' time. A switch for each packet of 512 B (5 us to 24) would put MT a fifth behind. But then MT would also be \
    behind with WorldCup98, where the paper has it level (C8).";

pub(super) const BLOCKS: &str = "AMPED falls after 5 processors, and MT and PIPELINED are flat, but SPED continues to rise a little. With an \
    access for each 4 KB instead of 8 it falls too. UC Berkeley would then reach half of what Figure 6(b) shows. Short runs \
    differ by 20 %, because a few very large files among the misses decide.";

pub(super) const BALANCED: &str = "The lead grows with clients as claimed, but not for the paper's reason. In PIPELINED every client can wait \
    for the disk while others get hits; MT has only as many threads. The size of the lead depends on how far the disk's queue \
    has settled.";

pub(super) const MEASURED: &str = "The paper measured these sizes; it did not compute them. Its parameters (850 B for each 15 KB file, 0.7 MB \
    of paths and 3 MB of helpers for each server) give less. Entries of 1.5 KB and 5 MB for each server would give both numbers. \
    But then one server would have 15 MB of overhead with 100 MB, and its figure shows 5.";
