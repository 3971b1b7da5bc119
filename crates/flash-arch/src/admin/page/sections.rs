//! The sections of the page, made from a snapshot and the history.
//!
//! A section that the server has no figures for is hidden. What the figures mean is explained in `docs/status.md`.

mod clients;
mod devices;
mod loops;
mod server;
mod sites;
mod slowest;
mod workers;

use std::time::Instant;

use super::section::Section;
use crate::admin::history::History;
use crate::admin::snapshot::Snapshot;

/// All sections, the most urgent first.
pub(super) fn all(snapshot: &Snapshot, history: &History, now: Instant) -> Vec<Section> {
    vec![
        server::summary(snapshot, history),
        server::traffic(history),
        devices::section(snapshot),
        sites::section(snapshot, history, now),
        clients::section(snapshot),
        loops::section(snapshot, history),
        workers::section(snapshot, history),
        slowest::section(snapshot),
        server::caches(snapshot),
        server::programs(snapshot),
        server::servers(snapshot),
        server::certificates(snapshot),
        server::configurations(snapshot),
    ]
}
