//! The table of cached content, and the same as JSON.

use serde_json::{Map, Value, json};

use super::cached::{CELLS, Figures, median};
use super::report::{number, print_table};
use super::servers::Server;

/// The tables of cached content: of servers, with how many times the floor in parentheses, and of servers and clients together.
pub(super) fn print(figures: &Figures, servers: &[Server]) {
    let of_server = |cell: &str, server: Server| {
        let ratio = figures.ratio(cell, server, Server::Floor)?;
        Some(format!("{} ({ratio:.2})", number(figures.median(cell, server)?)))
    };
    print_costs(
        "Processor time per request, µs (× floor), median of the rounds",
        figures,
        servers,
        of_server,
    );
    let of_both = |cell: &str, server: Server| median(figures.rounds_with_client(cell, server)).map(number);
    print_costs("The same with the client's processor time, µs", figures, servers, of_both);
}

fn print_costs(
    title: &str,
    figures: &Figures,
    servers: &[Server],
    cost: impl Fn(&str, Server) -> Option<String>,
) {
    let cells: Vec<_> =
        CELLS.iter().filter(|cell| figures.median(cell.name, Server::Floor).is_some()).collect();
    let mut rows = vec![vec!["server".to_owned()]];
    rows[0].extend(cells.iter().map(|cell| cell.name.to_owned()));
    for &server in servers {
        let mut row = vec![server.name().to_owned()];
        row.extend(cells.iter().map(|cell| cost(cell.name, server).unwrap_or_else(|| "–".to_owned())));
        if row[1..].iter().any(|cell| cell != "–") {
            rows.push(row);
        }
    }
    print_table(title, &rows);
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
                    json!({
                        "us": median, "to_floor": ratio, "rounds_us": rounds,
                        "rounds_with_client_us": figures.rounds_with_client(cell.name, server),
                    }),
                );
            }
        }
        if !of.is_empty() {
            cells.insert(cell.name.into(), of.into());
        }
    }
    cells.into()
}
