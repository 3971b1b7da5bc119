//! Cached content: processor time per request, one case after the other. Each round measures all servers, so other work of the
//! machine affects all of them.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use flash_rig::fetch::fetch;
use flash_rig::{Running, interrupt, of_ended_children};

use super::report::Bar;
use super::servers::{self, Place, Server};
use super::wrk::{self, Load};

/// As many connections as mp has processes: each of them can keep one.
const CONNECTIONS: usize = 32;
const WARM_UP_SECONDS: u64 = 1;
/// Servers may send larger answers from a file.
const LARGE_BYTES: usize = 64 << 10;

/// One case: a file and how clients request it.
pub(crate) struct Cell {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) bytes: usize,
    kind: CaseKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CaseKind {
    KeepAlive,
    /// A connection per request.
    Close,
    /// With the entity tag of what the client has: the answer is 304.
    Unchanged,
    /// A new name each time, beside the other files: the answer is 404.
    Missing,
}

const fn cell(name: &'static str, file: &'static str, bytes: usize, kind: CaseKind) -> Cell {
    Cell { name, file, bytes, kind }
}

pub(crate) const CELLS: [Cell; 7] = [
    cell("1k", "1k.html", 1 << 10, CaseKind::KeepAlive),
    cell("10k", "10k.html", 10 << 10, CaseKind::KeepAlive),
    cell("100k", "100k.html", 100 << 10, CaseKind::KeepAlive),
    cell("1m", "1m.html", 1 << 20, CaseKind::KeepAlive),
    cell("close-1k", "1k.html", 1 << 10, CaseKind::Close),
    cell("304-1k", "1k.html", 1 << 10, CaseKind::Unchanged),
    cell("404-new", "1k.html", 1 << 10, CaseKind::Missing),
];

impl Cell {
    fn path(&self) -> String {
        match self.kind {
            CaseKind::Missing => "/missing".to_owned(),
            _ => format!("/{}", self.file),
        }
    }

    fn fields(&self, etag: &str) -> Vec<String> {
        match self.kind {
            CaseKind::KeepAlive | CaseKind::Missing => Vec::new(),
            CaseKind::Close => vec!["Connection: close".into()],
            CaseKind::Unchanged => vec![format!("If-None-Match: {etag}")],
        }
    }
}

/// Microseconds of processor time per request.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) server: f64,
    /// On loopback, whoever receives an acknowledgement does a part of the sending. So a large answer may be cheap for a server
    /// because its client pays.
    pub(crate) with_client: f64,
}

/// By case and server, one for each round.
#[derive(Default)]
pub(crate) struct Figures(BTreeMap<(&'static str, Server), Vec<Cost>>);

impl Figures {
    fn add(&mut self, cell: &Cell, server: Server, cost: Cost) {
        self.0.entry((cell.name, server)).or_default().push(cost);
    }

    fn costs(&self, cell: &str, server: Server) -> &[Cost] {
        self.0.iter().find(|((name, of), _)| *name == cell && *of == server).map_or(&[], |(_, rounds)| rounds)
    }

    pub(crate) fn rounds(&self, cell: &str, server: Server) -> Vec<f64> {
        self.costs(cell, server).iter().map(|cost| cost.server).collect()
    }

    pub(crate) fn rounds_with_client(&self, cell: &str, server: Server) -> Vec<f64> {
        self.costs(cell, server).iter().map(|cost| cost.with_client).collect()
    }

    pub(crate) fn median(&self, cell: &str, server: Server) -> Option<f64> {
        median(self.rounds(cell, server))
    }

    /// The median of each round's ratio: what slows a whole round down cancels out.
    pub(crate) fn ratio(&self, cell: &str, server: Server, to: Server) -> Option<f64> {
        let pairs = self.costs(cell, server).iter().zip(self.costs(cell, to));
        median(pairs.map(|(ours, theirs)| ours.server / theirs.server).collect())
    }
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        _ => Some((values[(n - 1) / 2] + values[n / 2]) / 2.0),
    }
}

/// Measures every case. A server that fails is said so and left out; the others go on.
pub(crate) fn run(
    place: &Place,
    servers: &[Server],
    cells: &[&Cell],
    rounds: usize,
    seconds: u64,
) -> Result<Figures> {
    let mut running = start(place, servers);
    let floors = start_floors(place, &running, servers, cells)?;
    let mut figures = Figures::default();
    for round in 0..rounds {
        for cell in cells {
            eprint!("round {} of {rounds}, {:8}", round + 1, cell.name);
            let floors = floors.iter().filter(|(name, ..)| *name == cell.name);
            let mut all: Vec<(Server, &Running)> =
                floors.map(|(_, server, running)| (*server, running)).collect();
            all.extend(running.iter().map(|(server, running)| (*server, running)));
            // Nobody is always the one after the pause, or after the heaviest.
            let first = round % all.len().max(1);
            all.rotate_left(first);
            let mut failed = Vec::new();
            for (server, running) in all {
                interrupt::check()?;
                match measure(place, running, cell, seconds) {
                    Ok(cost) => {
                        eprint!("  {} {:.2} ({:.1})", server.name(), cost.server, cost.with_client);
                        figures.add(cell, server, cost);
                    }
                    Err(error) => {
                        interrupt::check()?;
                        eprint!("  {} FAILED ({error:#})", server.name());
                        failed.push(server);
                    }
                }
            }
            eprintln!();
            running.retain(|(server, _)| !failed.contains(server));
        }
    }
    Ok(figures)
}

fn start(place: &Place, servers: &[Server]) -> Vec<(Server, Running)> {
    let mut all = Vec::new();
    for &server in servers.iter().filter(|server| !server.is_floor() && **server != Server::NginxThreads) {
        let started = servers::start(server, place, &[]).and_then(|running| {
            for cell in &CELLS {
                running.verify(&format!("/{}", cell.file), &fs::read(place.root.join(cell.file))?)?;
            }
            Ok(running)
        });
        match started {
            Ok(running) => all.push((server, running)),
            Err(error) => eprintln!("{}: left out: {error:#}", server.name()),
        }
    }
    all
}

/// Floors for each case, with Flash's own answer to send, or the first peer's where Flash does not run. Small answers have one floor:
/// no server sends them from a file.
fn start_floors(
    place: &Place,
    running: &[(Server, Running)],
    servers: &[Server],
    cells: &[&Cell],
) -> Result<Vec<(&'static str, Server, Running)>> {
    let (_, like) = running.first().context("no server runs, so there is nothing to measure")?;
    let mut floors = Vec::new();
    for cell in cells {
        let etag = etag(like, cell)?;
        let answer = fetch(like.port, &cell.path(), &cell.fields(&etag))?;
        let is_large = answer.body.len() > LARGE_BYTES;
        for &floor in
            servers.iter().filter(|&&server| server == Server::Floor || (server.is_floor() && is_large))
        {
            floors.push((cell.name, floor, servers::start(floor, place, &answer.bytes())?));
        }
    }
    Ok(floors)
}

fn etag(running: &Running, cell: &Cell) -> Result<String> {
    let answer = fetch(running.port, &cell.path(), &[])?;
    Ok(answer.header("etag").unwrap_or("\"none\"").to_owned())
}

pub(super) fn measure(place: &Place, running: &Running, cell: &Cell, seconds: u64) -> Result<Cost> {
    let etag = etag(running, cell)?;
    let (path, fields) = (cell.path(), cell.fields(&etag));
    let missing = (cell.kind == CaseKind::Missing).then_some(place.work);
    let mut load =
        Load { port: running.port, path: &path, fields: &fields, connections: CONNECTIONS, seconds, missing };
    load.seconds = WARM_UP_SECONDS;
    wrk::run(&load)?;
    load.seconds = seconds;
    let (before, clients_before) = (running.process.usage()?, of_ended_children()?);
    let requests = wrk::run(&load)?;
    let used_ns = running.process.usage()?.since(&before).cpu_ns;
    let clients_ns = of_ended_children()? - clients_before;
    let for_each = |ns: u64| ns as f64 / requests as f64 / 1000.0;
    Ok(Cost { server: for_each(used_ns), with_client: for_each(used_ns + clients_ns) })
}

/// What must hold on cached content.
pub(crate) fn bars(figures: &Figures, cells: &[&Cell]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for cell in cells.iter().filter(|cell| cell.kind != CaseKind::Unchanged) {
        if matches!(cell.name, "1k" | "10k") {
            let ratio = figures.ratio(cell.name, Server::Amped, Server::Floor);
            bars.push(Bar::at_most(format!("{}: amped ÷ floor", cell.name), 1.12, ratio));
        }
        for (name, variants) in Server::RIVALS {
            if cell.kind == CaseKind::Missing && name != "nginx" {
                continue;
            }
            let ratios =
                variants.iter().filter_map(|&variant| figures.ratio(cell.name, Server::Amped, variant));
            bars.push(Bar::below(
                format!("{}: amped ÷ {name}", cell.name),
                1.0,
                ratios.max_by(f64::total_cmp),
            ));
        }
        if cell.kind == CaseKind::Missing {
            // sped looks each name up, which amped need not.
            continue;
        }
        let apart = figures.ratio(cell.name, Server::Sped, Server::Amped).map(|ratio| (ratio - 1.0).abs());
        bars.push(Bar::at_most(format!("{}: sped and amped apart", cell.name), 0.03, apart));
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_paired_ratios() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        let mut figures = Figures::default();
        // The second round was slow for both: the ratio does not notice.
        for (ours, floor) in [(2.2, 2.0), (4.4, 4.0), (2.2, 2.0)] {
            figures.add(&CELLS[0], Server::Amped, Cost { server: ours, with_client: 9.0 });
            figures.add(&CELLS[0], Server::Floor, Cost { server: floor, with_client: 7.0 });
        }
        let ratio = figures.ratio("1k", Server::Amped, Server::Floor).expect("three rounds");
        assert!((ratio - 1.1).abs() < 1e-9);
        assert!(figures.median("10k", Server::Amped).is_none());
    }
}
