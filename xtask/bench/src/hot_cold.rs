//! Measures Flash's promise: a hot file's wait while requests for cold files saturate the disk. The server has 256 MB of memory
//! and 3,000 reads a second. Clients request the hot file 2,000 times a second, on a fixed schedule, first alone and then
//! beside 64 clients of cold files.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use flash_rig::{Disk, Limits, empty_caches, interrupt};
use serde_json::{Map, Value, json};

use super::cached::median;
use super::client::{self, Plan};
use super::dataset;
use super::report::{self, Bar, number};
use super::servers::{self, Place, Server};

const MEMORY_BYTES: u64 = 256 << 20;
const READS_PER_SECOND: u64 = 3_000;
const READ_AHEAD_KILOBYTES: u32 = 128;
const HOT_PER_SECOND: u32 = 2_000;
const COLD_CLIENTS: usize = 64;
const HOT_PATH: &str = "/hot.html";
/// mt and mp as they come: fewer threads and processes than clients, so that the hot file waits for one of them.
const SERVERS: [Server; 12] = [
    Server::Amped,
    Server::Uring,
    Server::Sped,
    Server::Pipelined,
    Server::Mt,
    Server::Mp,
    Server::Nginx,
    Server::NginxThreads,
    Server::H2o,
    Server::Lighttpd,
    Server::Caddy,
    Server::Apache,
];

/// One server's figures, one for each round.
pub(crate) struct Outcome {
    server: Server,
    rounds: Vec<Round>,
}

struct Round {
    alone: Waits,
    cold: Waits,
    cold_per_second: f64,
    errors: u64,
    /// Flash's own count of the times its loops slept for something else than events.
    loop_blocks: Option<u64>,
}

/// Milliseconds.
struct Waits {
    p50: f64,
    p99: f64,
}

/// Runs every server in turn, `rounds` times.
pub(crate) fn run(
    place: &Place,
    folder: &Path,
    servers: &[Server],
    rounds: usize,
    quick: bool,
) -> Result<Vec<Outcome>> {
    let cold_paths = dataset::cold(folder)?;
    let disk = Disk::below(folder)?;
    let limits = Limits {
        memory_bytes: Some(MEMORY_BYTES),
        reads_per_second: Some(READS_PER_SECOND),
        ..Limits::default()
    };
    // Tried before anything is measured, so that one line says what is missing.
    let possible = place.machine.group(&limits, &disk).map(drop);
    let read_ahead = possible.and_then(|()| place.machine.read_ahead(&disk, READ_AHEAD_KILOBYTES));
    let _read_ahead = match read_ahead {
        Ok(guard) => guard,
        Err(error) => {
            println!("MISSING: hot-cold needs the superuser and cgroups: {error:#}");
            return Ok(Vec::new());
        }
    };
    let mut outcomes: Vec<Outcome> = Vec::new();
    for server in SERVERS.into_iter().filter(|server| servers.contains(server)) {
        outcomes.push(Outcome { server, rounds: Vec::new() });
    }
    for round in 0..rounds {
        for outcome in &mut outcomes {
            eprint!("hot-cold, round {} of {rounds}: {:14}", round + 1, outcome.server.name());
            match measure(outcome.server, place, folder, &cold_paths, &limits, &disk, quick) {
                Ok(round) => {
                    eprintln!("p50 {} ms, p99 {} ms", number(round.cold.p50), number(round.cold.p99));
                    outcome.rounds.push(round);
                }
                Err(error) => {
                    interrupt::check()?;
                    eprintln!("FAILED: {error:#}");
                }
            }
        }
    }
    outcomes.retain(|outcome| !outcome.rounds.is_empty());
    Ok(outcomes)
}

fn measure(
    server: Server,
    place: &Place,
    folder: &Path,
    cold_paths: &[String],
    limits: &Limits,
    disk: &Disk,
    quick: bool,
) -> Result<Round> {
    let group = place.machine.group(limits, disk)?;
    let place = Place { root: folder, group: Some(&group), ..*place };
    empty_caches()?;
    let running = servers::start(server, &place, &[])?;
    let seconds = |long: u64, short: u64| Duration::from_secs(if quick { short } else { long });
    let mut plan = Plan {
        port: running.port,
        hot_path: HOT_PATH,
        hot_per_second: HOT_PER_SECOND,
        cold_paths,
        cold_clients: 0,
        warm_up: Duration::from_secs(1),
        measured: seconds(5, 2),
    };
    let alone = client::run(&plan, 0)?;
    // Long enough that the files outgrow the memory: the second half also throws pages out.
    (plan.cold_clients, plan.warm_up, plan.measured) = (COLD_CLIENTS, Duration::from_secs(2), seconds(16, 4));
    let cold = client::run(&plan, 0)?;
    let metrics = running.stop();
    Ok(Round {
        alone: waits(&alone),
        cold: waits(&cold),
        cold_per_second: cold.cold_done as f64 / cold.seconds,
        errors: alone.errors + cold.errors,
        loop_blocks: metrics.and_then(|metrics| metrics.count("loop_blocks")),
    })
}

fn waits(outcome: &client::Outcome) -> Waits {
    let at = |quantile| outcome.hot.value_at_quantile(quantile) as f64 / 1000.0;
    Waits { p50: at(0.50), p99: at(0.99) }
}

impl Outcome {
    fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect()).unwrap_or(f64::NAN)
    }

    fn loop_blocks(&self) -> Option<u64> {
        self.rounds.iter().map(|round| round.loop_blocks).sum()
    }
}

pub(crate) fn print(outcomes: &[Outcome]) {
    if outcomes.is_empty() {
        return;
    }
    let heading = [
        "server",
        "alone p50",
        "p99",
        "cold p50",
        "p99",
        "× p50",
        "× p99",
        "cold/s",
        "errors",
        "loop blocks",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for of in outcomes {
        rows.push(vec![
            of.server.name().to_owned(),
            number(of.median(|round| round.alone.p50)),
            number(of.median(|round| round.alone.p99)),
            number(of.median(|round| round.cold.p50)),
            number(of.median(|round| round.cold.p99)),
            number(of.median(|round| round.cold.p50 / round.alone.p50)),
            number(of.median(|round| round.cold.p99 / round.alone.p99)),
            number(of.median(|round| round.cold_per_second)),
            number(of.rounds.iter().map(|round| round.errors as f64).sum()),
            of.loop_blocks().map_or("–".into(), |blocks| blocks.to_string()),
        ]);
    }
    report::print_table("Wait for the hot file, ms, alone and under cold load; cold files per second", &rows);
}

pub(crate) fn bars(outcomes: &[Outcome]) -> Vec<Bar> {
    let amped = outcomes.iter().find(|of| of.server == Server::Amped);
    let peers = outcomes.iter().filter(|of| !of.server.is_flash());
    let best = peers.map(|of| of.median(|round| round.cold_per_second)).max_by(f64::total_cmp);
    let against_best =
        amped.zip(best).map(|(amped, best)| amped.median(|round| round.cold_per_second) / best);
    let blocks = amped.and_then(|of| of.loop_blocks().context("no count").ok()).map(|blocks| blocks as f64);
    let ratio = |figure: fn(&Round) -> f64| amped.map(|of| of.median(figure));
    vec![
        Bar::at_most(
            "hot-cold: p50 under load ÷ alone".into(),
            1.3,
            ratio(|round| round.cold.p50 / round.alone.p50),
        ),
        Bar::at_most(
            "hot-cold: p99 under load ÷ alone".into(),
            2.0,
            ratio(|round| round.cold.p99 / round.alone.p99),
        ),
        Bar::at_least("hot-cold: cold throughput ÷ best peer".into(), 0.97, against_best),
        Bar::at_most("hot-cold: errors".into(), 0.0, ratio(|round| round.errors as f64)),
        Bar::at_most("hot-cold: loop blocks".into(), 0.0, blocks),
    ]
}

pub(crate) fn json(outcomes: &[Outcome]) -> Value {
    let mut all = Map::new();
    for of in outcomes {
        let rounds = of.rounds.iter().map(|round| {
            json!({
                "alone_p50_ms": round.alone.p50, "alone_p99_ms": round.alone.p99,
                "cold_p50_ms": round.cold.p50, "cold_p99_ms": round.cold.p99,
                "cold_per_second": round.cold_per_second, "errors": round.errors,
                "loop_blocks": round.loop_blocks,
            })
        });
        all.insert(of.server.name().into(), rounds.collect());
    }
    all.into()
}
