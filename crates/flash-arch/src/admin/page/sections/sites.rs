//! What the sites did in the last minute, the busiest first.

use std::time::Instant;

use super::super::number;
use super::super::section::{Cell, Section, of_rows};
use crate::admin::history::{History, SiteCounts};
use crate::admin::snapshot::Snapshot;

pub(super) fn section(snapshot: &Snapshot, history: &History, now: Instant) -> Section {
    let sites = snapshot.sites.iter().map(|site| (&*site.site, history.site(site, now)));
    let mut sites: Vec<(&str, (SiteCounts, f64))> = sites.collect();
    sites.sort_by_key(|(_, (counts, _))| std::cmp::Reverse(counts.responses));
    let row = |(name, (counts, seconds)): &(&str, (SiteCounts, f64))| {
        let rate = |count: u64| count as f64 / seconds;
        let percentile = |per_mille| counts.percentile_us(per_mille).map_or("–".into(), number::micros);
        let errors = number::count(counts.errors);
        vec![
            Cell::new(*name),
            Cell::new(number::small_rate(rate(counts.responses))),
            Cell::new(number::bytes_rate(rate(counts.bytes) as u64)),
            Cell::new(percentile(500)),
            Cell::new(percentile(990)),
            if counts.errors == 0 { Cell::new(errors) } else { Cell::sick(errors) },
        ]
    };
    let columns = ["Site", "#Requests", "#Bytes", "#p50", "#p99", "#5xx"];
    let caption = "The last minute. p50 and p99 are estimated from classes of durations.";
    Section {
        id: "sites",
        title: "Sites",
        parts: of_rows(caption, &columns, sites.iter().map(row).collect()),
    }
}
