//! The devices with their helpers, those that are down first.

use super::super::number;
use super::super::section::{Cell, Section, of_rows};
use crate::admin::snapshot::{DeviceSnapshot, Snapshot};

/// With mp no device is marked down, and each process waits for it. A job that lasts longer needs an operator.
const SLOW_US: u64 = 1_000_000;

pub(super) fn section(snapshot: &Snapshot) -> Section {
    let mut devices: Vec<&DeviceSnapshot> = snapshot.devices.iter().collect();
    devices.sort_by_key(|device| (device.healthy != Some(false), !device.fails));
    let row = |device: &&DeviceSnapshot| {
        let is_working = device.in_flight > 0;
        vec![
            Cell::new(&*device.mount),
            match device.healthy {
                Some(false) => Cell::sick("down"),
                _ if device.fails => Cell::sick("fails"),
                Some(true) => Cell::well("well"),
                None if device.oldest_us > SLOW_US => Cell::sick("slow"),
                None => Cell::new("–"),
            },
            Cell::new(&*device.kind),
            of_max(device.helpers, device.helpers_max),
            Cell::new(number::count(device.in_flight)),
            of_max(device.queued, device.queue_max),
            Cell::new(if is_working { number::micros(device.oldest_us) } else { "–".into() }),
        ]
    };
    let columns = ["Mount", "State", "Jobs", "#Helpers", "#At work", "#Queued", "#Oldest job"];
    let rows = devices.iter().map(row).collect();
    let caption = "A device that is down does not answer. Requests for it get 503 until it does. A device \
                   that fails has had an error within a minute, and the error log says which. Without helpers, it is slow \
                   if a process has waited for it for more than a second.";
    Section { id: "devices", title: "Devices", parts: of_rows(caption, &columns, rows) }
}

fn of_max(count: u64, max: u64) -> Cell {
    Cell::new(match max {
        0 => "–".into(),
        _ => format!("{} of {}", number::count(count), number::count(max)),
    })
}
