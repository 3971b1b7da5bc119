//! Tables 4 and 5: the paper's traces beside those that stand in for them here.

use std::num::NonZeroU32;

use flash_sim::Architecture;

use super::made::Made;
use super::overhead::{KB, MB};
use super::panel::Effort;
use super::results::Seeds;
use super::table::Table;
use crate::runner::Runner;
use crate::scenario::Scenario;
use crate::workload::{PAPER_TRACES, PaperTrace, Source};
use flash_cli::Failure;

/// Requests and files are the paper's; sizes are synthesised.
pub(super) fn table4(made: String) -> Table {
    let columns: &'static [&'static str] = &[
        "trace",
        "files",
        "mean file in the paper (KB)",
        "mean file here (KB)",
        "requests",
        "data set (MB)",
        "zipf exponent",
    ];
    let mut table = Table::new("table4", "Table 4. Main characteristics of the traces", columns, made);
    for trace in &PAPER_TRACES {
        table.row([
            trace.title.to_owned(),
            trace.files.to_string(),
            trace.mean_file_kb.to_string(),
            format!("{:.2}", trace.dataset_bytes as f64 / f64::from(trace.files) / KB),
            trace.requests.to_string(),
            format!("{:.1}", trace.dataset_bytes as f64 / MB),
            trace.zipf_exponent.to_string(),
        ]);
    }
    table
}

/// Hit rates of a warm data cache of the given size, counted in the simulator.
pub(super) fn table5(runner: &Runner, effort: Effort, made: &Made) -> Result<Table, Failure> {
    let seeds = 1..=effort.seeds();
    let scenarios: Vec<Scenario> =
        PAPER_TRACES.iter().flat_map(|trace| seeds.clone().map(|seed| locality(trace, seed))).collect();
    let rates = runner.run_all("Table 5", &scenarios, |_, outcome| Ok(100.0 * outcome.data_hit_rate))?;
    let columns: &'static [&'static str] =
        &["trace", "data cache (MB)", "locality in the paper (%)", "here (%)", "least", "most"];
    let made = made.said_of_all_seeds(LOCALITY_REQUESTS.get());
    let mut table = Table::new("table5", "Table 5. Locality of the traces", columns, made);
    for (trace, rates) in PAPER_TRACES.iter().zip(rates.chunks(effort.seeds() as usize)) {
        let rates = Seeds(rates.to_vec());
        let percent = |rate: f64| format!("{rate:.2}");
        table.row([
            trace.title.to_owned(),
            format!("{:.0}", trace.cache_bytes as f64 / MB),
            trace.hit_percent.to_string(),
            percent(rates.median()),
            percent(rates.low()),
            percent(rates.high()),
        ]);
    }
    Ok(table)
}

const LOCALITY_REQUESTS: NonZeroU32 = NonZeroU32::new(200_000).expect("it is not 0");

/// One shared cache of the size of Table 5.
fn locality(trace: &'static PaperTrace, seed: u64) -> Scenario {
    let mut scenario = Scenario { architecture: Architecture::Mt, ..Scenario::default() };
    scenario.machine.data_cache_mb = Some(trace.cache_bytes as f64 / 1e6);
    scenario.machine.memory_mb = 2.0 * trace.dataset_bytes as f64 / 1e6;
    scenario.run.clients = 32;
    scenario.run.seed = seed;
    scenario.run.measured_requests = LOCALITY_REQUESTS;
    scenario.workload = Source::Trace(trace);
    scenario
}
