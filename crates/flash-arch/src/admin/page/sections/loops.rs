//! The event loops, or the stages of pipelined: how busy each is, and where it slept last.

use flash_core::record::counters::LoopCount;

use super::super::number;
use super::super::section::{Cell, Section, of_rows};
use crate::admin::history::History;
use crate::admin::snapshot::{BlockSnapshot, LoopSnapshot, Snapshot};

pub(super) fn section(snapshot: &Snapshot, history: &History) -> Section {
    let row = |one: &LoopSnapshot| {
        let last =
            one.last_block.as_ref().map_or("–".into(), |block| block_of(block, snapshot.taken_unix_ms));
        vec![
            Cell::new(&*one.name),
            Cell::new(history.busy(&one.name).map_or("–".into(), number::share)),
            Cell::new(number::count(one.counts.get(LoopCount::Turns))),
            Cell::new(number::micros(one.counts.get(LoopCount::LongestTurnNs))),
            Cell::new(number::count(one.counts.get(LoopCount::Blocks))),
            Cell::new(last),
        ]
    };
    let rows = snapshot.loops.iter().map(row).collect();
    let caption = "Busy is the share of the last second. The other figures are since the start.";
    let columns = ["Loop", "#Busy", "#Turns", "#Longest turn", "#Blocks", "Last block"];
    Section { id: "loops", title: "Loops", parts: of_rows(caption, &columns, rows) }
}

/// `1.20 ms in openat2 of /srv/a, 3 s ago: metadata read`.
pub(super) fn block_of(block: &BlockSnapshot, now_unix_ms: u64) -> String {
    let BlockSnapshot { unix_ms, duration_us, call, path, cause } = block;
    let of = if path.is_empty() { String::new() } else { format!(" of {path}") };
    let why = if cause.is_empty() { String::new() } else { format!(": {cause}") };
    let ago = number::duration(now_unix_ms.saturating_sub(*unix_ms) / 1000);
    format!("{} in {call}{of}, {ago} ago{why}", number::micros(*duration_us))
}
