//! The processes of mp: what each is at, and where it slept last.

use super::super::number;
use super::super::section::{Cell, Section, of_rows};
use super::loops::block_of;
use crate::admin::history::{History, worker_name};
use crate::admin::snapshot::{JobSnapshot, Snapshot, WorkerSnapshot};

pub(super) fn section(snapshot: &Snapshot, history: &History) -> Section {
    let row = |one: &WorkerSnapshot| {
        let busy = history.busy(&worker_name(one.pid));
        let last =
            one.last_block.as_ref().map_or("–".into(), |block| block_of(block, snapshot.taken_unix_ms));
        vec![
            Cell::new(one.pid.to_string()),
            Cell::new(one.generation.to_string()),
            Cell::new(match (&one.job, one.busy) {
                (Some(job), _) => at_job(job),
                (None, true) => "serves".into(),
                (None, false) => "idle".into(),
            }),
            Cell::new(busy.map_or("–".into(), number::share)),
            Cell::new(number::count(one.connections)),
            Cell::new(number::count(one.blocks)),
            Cell::new(last),
        ]
    };
    let list = snapshot.workers.as_ref().map_or(&[][..], |workers| &workers.list);
    let rows = list.iter().map(row).collect();
    let caption =
        "Busy is the share of the last second with a connection. A block is a sleep in a job for the disk.";
    let columns = ["Process", "#Configuration", "State", "#Busy", "#Connections", "#Blocks", "Last block"];
    Section { id: "workers", title: "Workers", parts: of_rows(caption, &columns, rows) }
}

/// `7.00 s at /a.txt on /srv (ext4)`.
fn at_job(JobSnapshot { mount, path, duration_us, .. }: &JobSnapshot) -> String {
    format!("{} at {path} on {mount}", number::micros(*duration_us))
}
