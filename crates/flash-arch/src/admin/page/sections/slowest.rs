//! The slowest requests of the last minute, and what took their time.

use super::super::number;
use super::super::section::{Cell, Section, UNKNOWN, of_rows};
use crate::admin::snapshot::{SlowRequest, Snapshot};

/// Longer request lines are cut.
const REQUEST_CHARS_MAX: usize = 160;

pub(super) fn section(snapshot: &Snapshot) -> Section {
    let row = |slow: &SlowRequest| {
        let mut request: String = slow.request.chars().take(REQUEST_CHARS_MAX).collect();
        if request.len() < slow.request.len() {
            request.push('…');
        }
        let ago_s = snapshot.taken_unix_ms.saturating_sub(slow.unix_ms) / 1000;
        let us = |us: u64| Cell::new(if us == 0 { UNKNOWN.into() } else { number::micros(us) });
        let status = slow.status.to_string();
        vec![
            Cell::new(request),
            Cell::new(&*slow.host),
            if slow.status >= 500 { Cell::sick(status) } else { Cell::new(status) },
            Cell::new(format!("{} ago", number::duration(ago_s))),
            us(slow.duration_us),
            us(slow.first_byte_us),
            us(slow.program_queue_us),
            us(slow.program_connect_us),
            us(slow.program_first_byte_us),
            us(slow.program_us),
            us(slow.walk_us),
            us(slow.open_us),
            us(slow.read_us),
            us(slow.queue_us),
            us(slow.help_us),
            us(slow.send_us),
        ]
    };
    let columns = [
        "Request",
        "Host",
        "#Status",
        "#Began",
        "#Took",
        "#First byte",
        "#Program queue",
        "#Connect",
        "#Program first byte",
        "#Program in all",
        "#Walk",
        "#Open",
        "#Read",
        "#Queue",
        "#Help",
        "#Send",
    ];
    let rows = snapshot.slowest.iter().map(row).collect();
    let caption = "Of the last minute. The parts may overlap: help is the time of a helper in all.";
    Section { id: "slowest", title: "Slowest requests", parts: of_rows(caption, &columns, rows) }
}
