//! Many runs on all processors, with progress. Workloads that several runs share are made once.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flash_sim::{Demand, Outcome, simulate};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;

use crate::scenario::Scenario;
use crate::workload::Source;
use flash_cli::Failure;

/// Runs scenarios.
pub(crate) struct Runner {
    pool: rayon::ThreadPool,
    demands: Mutex<Vec<(Source, u64, Made)>>,
}

type Made = Arc<OnceLock<Result<Demand, Failure>>>;

impl Runner {
    /// Of so many runs at a time; None is one for each processor.
    pub(crate) fn new(jobs: Option<u16>) -> Result<Runner, Failure> {
        let threads = jobs.map_or(0, usize::from);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| Failure::Run(format!("cannot start threads: {error}")))?;
        Ok(Runner { pool, demands: Mutex::default() })
    }

    /// Does something else on all threads.
    pub(crate) fn on_all<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// Runs one.
    pub(crate) fn run(&self, scenario: &Scenario, follow: Option<u64>) -> Result<Outcome, Failure> {
        let demand = Demand { follow, ..self.demand(&scenario.workload, scenario.run.seed)? };
        simulate(&scenario.parameters(), &demand).map_err(|error| Failure::Usage(error.to_string()))
    }

    /// Runs all of them, each outcome handed to `done` as soon as it is there; the first failure ends it.
    pub(crate) fn run_all<T: Send>(
        &self,
        what: &str,
        scenarios: &[Scenario],
        done: impl Fn(usize, Outcome) -> Result<T, Failure> + Sync,
    ) -> Result<Vec<T>, Failure> {
        // Runs are of different lengths; the time that is left follows from the requests that are.
        let weight = |scenario: &Scenario| u64::from(scenario.run.measured_requests.get());
        let progress = progress(what, scenarios.iter().map(weight).sum());
        let run = |(index, scenario): (usize, &Scenario)| {
            let result = self.run(scenario, None).and_then(|outcome| done(index, outcome));
            progress.inc(weight(scenario));
            result
        };
        // Dealt out one by one, since some take a hundred times as long as others.
        let runs = || scenarios.par_iter().enumerate().with_max_len(1).map(run).collect();
        let results = self.pool.install(runs);
        progress.finish_and_clear();
        results
    }

    fn demand(&self, source: &Source, seed: u64) -> Result<Demand, Failure> {
        let made = {
            let mut demands = self.demands.lock().unwrap_or_else(PoisonError::into_inner);
            match demands.iter().find(|(s, n, _)| s == source && *n == seed) {
                Some((_, _, made)) => Arc::clone(made),
                None => {
                    let made = Made::default();
                    demands.push((source.clone(), seed, Arc::clone(&made)));
                    made
                }
            }
        };
        // Made without the lock: others wait for this one only.
        made.get_or_init(|| source.demand(seed)).clone()
    }
}

fn progress(what: &str, requests: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template("{msg} {bar:30} {percent} %, {elapsed} so far, {eta} left");
    let bar = ProgressBar::with_draw_target(Some(requests), target);
    bar.with_style(style.expect("the template is well-formed")).with_message(what.to_owned())
}
