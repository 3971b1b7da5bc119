//! The table of cached content, and the same as JSON.

use serde_json::{Map, Value, json};

use super::cached::{CELLS, Figures};
use super::report::{number, print_table};
use super::servers::Server;

/// The table of cached content: microseconds, and in parentheses how many times the floor.
pub(super) fn print(figures: &Figures, servers: &[Server]) {
    let cells: Vec<_> =
        CELLS.iter().filter(|cell| figures.median(cell.name, Server::Floor).is_some()).collect();
    let mut rows = vec![vec!["server".to_owned()]];
    rows[0].extend(cells.iter().map(|cell| cell.name.to_owned()));
    for &server in servers {
        let mut row = vec![server.name().to_owned()];
        for cell in &cells {
            let ratio = figures.ratio(cell.name, server, Server::Floor);
            row.push(match (figures.median(cell.name, server), ratio) {
                (Some(median), Some(ratio)) => format!("{} ({ratio:.2})", number(median)),
                _ => "–".to_owned(),
            });
        }
        if row[1..].iter().any(|cell| cell != "–") {
            rows.push(row);
        }
    }
    print_table("Processor time per request, µs (× floor), median of the rounds", &rows);
}

pub(super) fn json(figures: &Figures, servers: &[Server]) -> Value {
    let mut cells = Map::new();
    for cell in &CELLS {
        let mut of = Map::new();
        for &server in servers {
            let rounds = figures.rounds(cell.name, server);
            if !rounds.is_empty() {
                let ratio = figures.ratio(cell.name, server, Server::Floor);
                let median = figures.median(cell.name, server);
                of.insert(
                    server.name().into(),
                    json!({ "us": median, "to_floor": ratio, "rounds_us": rounds }),
                );
            }
        }
        if !of.is_empty() {
            cells.insert(cell.name.into(), of.into());
        }
    }
    cells.into()
}
