//! The clients that got most bytes in the last minute.

use super::super::number;
use super::super::section::{Cell, Section, of_rows};
use crate::admin::snapshot::{ClientSnapshot, Snapshot};

pub(super) fn section(snapshot: &Snapshot) -> Section {
    let row = |of: &ClientSnapshot| {
        vec![
            Cell::new(&*of.client),
            Cell::new(number::bytes(of.bytes)),
            Cell::new(number::count(of.responses)),
            Cell::new(number::bytes(of.largest_bytes)),
            Cell::new(&*of.largest),
        ]
    };
    let rows = snapshot.clients.iter().map(row).collect();
    let caption = "Responses that ended in the last minute. The request is that of the largest one.";
    let columns = ["Client", "#Bytes", "#Responses", "#Largest", "Request"];
    Section { id: "clients", title: "Clients", parts: of_rows(caption, &columns, rows) }
}
