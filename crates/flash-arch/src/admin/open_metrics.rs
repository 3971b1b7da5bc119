//! `/metrics`: a [`Snapshot`] as OpenMetrics text 1.0.
//!
//! Labels come from the configuration alone: names of sites, loops and mounts. So no request can add a series.

mod families;
mod writer;

use flash_core::record::counters::Section;

use self::families::FAMILIES;
use self::writer::{Counted, Text};
use super::snapshot::Snapshot;

pub(super) const MEDIA: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The whole text.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let mut text = Text::default();
    let server = vec![(Vec::new(), &snapshot.totals.counts)];
    let loops: Counted<'_, _> =
        snapshot.loops.iter().map(|of| (vec![("loop", &*of.name)], &of.counts)).collect();
    let programs: Counted<'_, _> = snapshot.programs.iter().map(|of| (of.labels(), &of.counts)).collect();
    for section in Section::ALL {
        text.counters(section, &loops);
        text.counters(section, &programs);
        text.counters(section, &server);
        for (row, write) in FAMILIES.iter().filter(|(row, _)| row.section == section) {
            text.family(row, |series| write(snapshot, series));
        }
    }
    text.end()
}

#[cfg(test)]
mod tests;
