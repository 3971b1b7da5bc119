//! The clients of one measurement, and what is seen of the server meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use flash_load::{Arrivals, Crowd, Keep, Live, Load, Manner, Pace, Report, Server, Until, Url, Urls};
use flash_rig::{Running, Usage, interrupt};

use super::runnable::Runnable;
use super::site::{HOT_TARGET, Site};
use crate::plan::{self, Connections};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The hot file's clients, who are never so many that they disturb.
const HOT_CONNECTIONS: u32 = 16;
/// More threads of clients than this are never needed, and they share processors with nobody.
const THREADS_MAX: usize = 4;

/// Who asks, how many, and how often.
pub(super) struct Clients {
    pub(super) load: plan::Load,
    pub(super) count: u32,
    /// Requests a second; none is infinite demand.
    pub(super) rate: Option<f64>,
    pub(super) seed: u64,
}

/// What came of asking.
pub(super) struct Seen {
    pub(super) report: Report,
    /// What the server used after the warm-up, and the answers that it gave meanwhile.
    pub(super) used: Usage,
    pub(super) answers: u64,
    pub(super) runnable: Option<Runnable>,
}

impl Clients {
    /// Asks, on this thread's processors, until the time is up or somebody interrupts.
    pub(super) fn ask(&self, server: &Running, site: &Site, processors: usize, watch: bool) -> Result<Seen> {
        let load = self.load(server.port, site, processors)?;
        let stop = AtomicBool::new(false);
        let mut before: Option<(Usage, Live)> = None;
        let mut last = Live::default();
        let mut runnable = watch.then(Runnable::default);
        let report = flash_load::run(&load, &stop, |live| {
            if interrupt::check().is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            last = live;
            if live.elapsed >= load.warm_up {
                if before.is_none() {
                    before = server.process.usage().ok().map(|usage| (usage, live));
                }
                if let Some(runnable) = &mut runnable {
                    runnable.look(&server.process.pids());
                }
            }
        })?;
        let after = server.process.usage()?;
        let (usage, live) = before.unwrap_or_default();
        let answers = |live: Live| live.requests + live.errors;
        Ok(Seen { report, used: after.since(&usage), answers: answers(last) - answers(live), runnable })
    }

    fn load(&self, port: u16, site: &Site, processors: usize) -> Result<Load> {
        let pace = match self.rate {
            None => Pace::Closed { clients: self.count, think: Duration::ZERO },
            Some(per_second) => {
                Pace::Open { per_second, arrivals: Arrivals::Poisson, connections_max: self.count }
            }
        };
        let keep = match self.load.connections {
            Connections::Persistent => Keep::Open,
            Connections::Fresh => Keep::Requests(1),
            Connections::Requests(requests) => Keep::Requests(requests),
        };
        let manner = Manner { keep, ..Manner::default() };
        let mut crowds = vec![Crowd { workload: site.workload.clone(), pace, manner }];
        if let Some(per_second) = self.load.hot_per_second {
            let connections_max = HOT_CONNECTIONS;
            crowds.push(Crowd {
                workload: Arc::new(Urls::new(vec![HOT_TARGET.into()], "hot")),
                pace: Pace::Open { per_second, arrivals: Arrivals::Constant, connections_max },
                manner: Manner::default(),
            });
        }
        Ok(Load {
            server: Server::reach(&Url::parse(&format!("http://127.0.0.1:{port}/"))?)?,
            crowds,
            threads: processors.clamp(1, THREADS_MAX) as u32,
            warm_up: Duration::from_secs_f64(self.load.warm_up_seconds),
            until: Until::Time(Duration::from_secs_f64(self.load.seconds)),
            timeout: TIMEOUT,
            bits_per_second_min: None,
            seed: self.seed,
        })
    }
}
