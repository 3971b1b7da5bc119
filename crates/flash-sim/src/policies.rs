//! `flash sim policies`: policies of caches on the same requests, as a table for each size of the cache.

use std::fmt::Write as _;

use flash_sim::Demand;
use flash_sim::policy::{PolicyName, Replayed, Score};
use flash_traffic::Part;
use rayon::prelude::*;
use serde::Serialize;

use crate::flags;
use crate::output;
use crate::runner::Runner;
use crate::scenario::Scenario;
use flash_cli::{Failure, print};

/// Linux reads ahead so much, unless the scenario says otherwise.
const READ_BYTES: u64 = 128 << 10;
const PAGE_BYTES: u64 = 4096;

#[derive(Serialize)]
struct Row {
    memory_mb: u32,
    policy: &'static str,
    hits: f64,
    byte_hits: f64,
    reads_per_request: f64,
}

pub(crate) fn run(flags: &flags::Policies) -> Result<(), Failure> {
    let scenario = flags.scenario.scenario()?;
    let runner = Runner::new(flags.jobs.jobs)?;
    let replayed = replayed(&scenario, &scenario.workload.demand(scenario.run.seed)?)?;
    let cases: Vec<(u32, PolicyName)> = (flags.memory_mb.iter())
        .flat_map(|&mb| PolicyName::ALL.into_iter().map(move |policy| (mb, policy)))
        .collect();
    let row = |&(memory_mb, policy): &(u32, PolicyName)| {
        let Score { hits, byte_hits, reads_per_request } =
            policy.score(&replayed, u64::from(memory_mb) * 1_000_000);
        Row { memory_mb, policy: policy.name(), hits, byte_hits, reads_per_request }
    };
    let rows: Vec<Row> = runner.on_all(|| cases.par_iter().map(row).collect());
    if let Some(path) = &flags.out {
        output::write(path, &(serde_json::to_string_pretty(&rows).expect("plain values") + "\n"))?;
    }
    print(table(&scenario, &replayed, &rows))
}

fn replayed(scenario: &Scenario, demand: &Demand) -> Result<Replayed, Failure> {
    let measured = scenario.run.measured_requests.get() as usize;
    let warm_up = scenario.run.settling_requests.map_or(measured, |requests| requests as usize);
    let mut sequence = demand.workload.sequence(Part::WHOLE, scenario.run.seed);
    let requests: Vec<u32> =
        std::iter::from_fn(|| sequence.next()).map(|ask| ask.file).take(warm_up + measured).collect();
    if requests.len() <= warm_up {
        return Err(Failure::Usage(format!(
            "the workload has {} requests: expected more than run.settling_requests, {warm_up}",
            requests.len()
        )));
    }
    let files = &demand.workload.catalogue().files;
    let block_kb = scenario.machine.disks.first().and_then(|disk| disk.block_kb);
    Ok(Replayed {
        requests,
        bytes: files.iter().map(|file| file.bytes.unwrap_or(0).next_multiple_of(PAGE_BYTES)).collect(),
        warm_up,
        read_bytes: block_kb.map_or(READ_BYTES, |kb| (kb * 1e3) as u64).max(1),
    })
}

fn table(scenario: &Scenario, replayed: &Replayed, rows: &[Row]) -> String {
    let measured = replayed.requests.len() - replayed.warm_up;
    let mut text = format!(
        "{}: {measured} requests after {}, {} bytes a read\n",
        scenario.workload, replayed.warm_up, replayed.read_bytes
    );
    for rows in rows.chunk_by(|one, other| one.memory_mb == other.memory_mb) {
        writeln!(text, "\n{} MB      hits  of bytes  reads a request", rows[0].memory_mb)
            .expect("a String takes everything");
        for Row { policy, hits, byte_hits, reads_per_request, .. } in rows {
            let [hits, byte_hits] = [hits, byte_hits].map(|part| format!("{:.2} %", 100.0 * part));
            writeln!(text, "  {policy:<10} {hits:>8} {byte_hits:>8}   {reads_per_request:.4}")
                .expect("a String takes everything");
        }
    }
    text
}
