//! The devices with their helpers, those that are down first.

use super::super::number;
use super::super::section::{Cell, Section, of_rows};
use crate::admin::snapshot::{DeviceSnapshot, Snapshot};

pub(super) fn section(snapshot: &Snapshot) -> Section {
    let mut devices: Vec<&DeviceSnapshot> = snapshot.devices.iter().collect();
    devices.sort_by_key(|device| device.healthy);
    let row = |device: &&DeviceSnapshot| {
        let is_working = device.in_flight > 0;
        vec![
            Cell::new(&*device.mount),
            if device.healthy { Cell::well("well") } else { Cell::sick("down") },
            Cell::new(&*device.kind),
            Cell::new(format!("{} of {}", device.helpers, device.helpers_max)),
            Cell::new(number::count(device.in_flight)),
            Cell::new(format!("{} of {}", number::count(device.queued), number::count(device.queue_max))),
            Cell::new(if is_working { number::micros(device.oldest_us) } else { "–".into() }),
        ]
    };
    let columns = ["Mount", "State", "Jobs", "#Helpers", "#At work", "#Queued", "#Oldest job"];
    let rows = devices.iter().map(row).collect();
    let caption = "A device that is down does not answer. Requests for it get 503 until it does.";
    Section { id: "devices", title: "Devices", parts: of_rows(caption, &columns, rows) }
}
