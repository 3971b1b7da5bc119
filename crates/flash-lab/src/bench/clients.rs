//! The clients of one measurement, and what is seen of the server meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use flash_load::{
    Arrivals, CONNECTIONS_MAX, ClientGroup, ClientOptions, Keep, Link, Live, Load, Pace, Report, Server, Tls,
    Until, Url, Urls,
};
use flash_rig::{Cgroup, Cpus, Php, Running, Steal, Usage, interrupt};

use super::blocked::{Blocked, Sleeps};
use super::runnable::Runnable;
use super::site::{HOT_TARGET, Site};
use crate::plan::{self, Connections, Protocol, SETTLE};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// More threads of clients than this are never needed. They share processors with no other thread.
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
    /// Reads of the disk meanwhile, if the server is in a cgroup that limits them.
    pub(super) disk_reads: Option<u64>,
    /// What php-fpm used meanwhile, where there is one.
    pub(super) used_by_php: Option<Usage>,
    pub(super) runnable: Option<Runnable>,
    pub(super) blocked: Option<Sleeps>,
    /// The processor time that the hypervisor took from the server and the clients meanwhile.
    pub(super) stolen_percent: f64,
}

/// What is to be seen that costs the machine something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watching {
    pub(super) runnable: bool,
    pub(super) blocked: bool,
}

impl Clients {
    /// How many connections they open at most.
    pub(super) fn connections_max(&self) -> u32 {
        let open_loops = self.rate.iter().chain(&self.load.hot_per_second).count() as u32;
        self.count + open_loops * CONNECTIONS_MAX
    }

    /// Sends requests, on this thread's processors, until the time is up or the run is interrupted. `slow_down` ends the
    /// warm-up.
    pub(super) fn ask(
        &self,
        server: &Running,
        php: Option<&Php>,
        site: &Site,
        (group, cpus): (Option<&Cgroup>, &Cpus),
        watch: Watching,
        mut slow_down: Option<impl FnOnce()>,
    ) -> Result<Seen> {
        let stop = AtomicBool::new(false);
        let mut load = self.load(server.port, site, cpus.client.len())?;
        if self.rate.is_some() {
            self.warm_up(&mut load, &stop)?;
        }
        let warmed = load.warm_up;
        if self.rate.is_some() || slow_down.is_some() {
            load.warm_up += SETTLE;
        }
        type Used = (Usage, Option<Usage>, Option<u64>);
        let usage = || -> Result<Used> {
            let of_php = php.map(|php| php.process.usage()).transpose()?;
            Ok((server.process.usage()?, of_php, group.and_then(Cgroup::reads)))
        };
        let mut before: Option<(Used, Steal)> = None;
        let mut answers = 0;
        let mut last = Live::default();
        let mut runnable = watch.runnable.then(Runnable::default);
        let mut blocked = watch.blocked.then(Blocked::default);
        let look = |live: Live| {
            if interrupt::check().is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            if live.elapsed < last.elapsed {
                // The next step of a search.
                last = Live::default();
            }
            if before.is_some() {
                answers += (live.requests + live.errors) - (last.requests + last.errors);
            }
            last = live;
            if live.elapsed >= warmed
                && let Some(slow_down) = slow_down.take()
            {
                slow_down();
            }
            if live.is_measuring {
                if before.is_none() {
                    before = usage().ok().zip(cpus.steal().ok());
                }
                if let Some(runnable) = &mut runnable {
                    runnable.look(&server.process.pids());
                }
                if let Some(blocked) = &mut blocked {
                    blocked.look(server.process.pid().as_raw_nonzero().get() as u32);
                }
            }
        };
        let report = match self.load.conform {
            Some(_) => flash_load::conforming(&load, self.count, &stop, look),
            None => flash_load::run(&load, &stop, look),
        }?;
        let blocked = blocked.map(Blocked::end).transpose()?;
        let (after, php_after, reads_after) = usage()?;
        let stolen_percent = before.as_ref().map_or(Ok(0.0), |(_, steal)| steal.percent())?;
        let (before, php_before, reads_before) = before.map(|(used, _)| used).unwrap_or_default();
        let disk_reads = reads_after.zip(reads_before).map(|(after, before)| after - before);
        let used_by_php = php_after.zip(php_before).map(|(after, before)| after.since(&before));
        let used = after.since(&before);
        Ok(Seen { report, used, answers, disk_reads, used_by_php, runnable, blocked, stolen_percent })
    }

    /// Asks without pause for the time of the warm-up. At a rate, a cold server would have a backlog that it does not get rid of.
    fn warm_up(&self, load: &mut Load, stop: &AtomicBool) -> Result<()> {
        let time = std::mem::take(&mut load.warm_up);
        if !time.is_zero() {
            let mut first = load.clone();
            first.until = Until::Time(time);
            first.groups[0].pace = Pace::Closed { clients: self.count, think: Duration::ZERO };
            // Other requests than those that are measured.
            first.seed = !load.seed;
            flash_load::run(&first, stop, |_| stop.store(interrupt::check().is_err(), Ordering::Relaxed))?;
        }
        interrupt::check()
    }

    fn load(&self, port: u16, site: &Site, processors: usize) -> Result<Load> {
        let pace = match self.rate {
            None => Pace::Closed { clients: self.count, think: Duration::ZERO },
            Some(per_second) => {
                Pace::Open { per_second, arrivals: Arrivals::Poisson, connections_max: CONNECTIONS_MAX }
            }
        };
        let keep = match self.load.connections {
            Connections::Persistent => Keep::Open,
            Connections::Fresh => Keep::Requests(1),
            Connections::Requests(requests) => Keep::Requests(requests),
        };
        let link = self.load.conform.map(|conform| {
            let bytes_per_second = conform.line_bits_per_second / 8;
            Link { down_bytes_per_second: bytes_per_second, up_bytes_per_second: bytes_per_second }
        });
        let (scheme, protocol) = match self.load.protocol {
            Protocol::Http1 => ("http", flash_load::Protocol::Http1),
            Protocol::Http1Tls => ("https", flash_load::Protocol::Http1),
            Protocol::Http2Tls => ("https", flash_load::Protocol::Http2 { streams: 1 }),
        };
        let options = ClientOptions { keep, link, protocol, ..ClientOptions::default() };
        let mut groups = vec![ClientGroup { workload: site.workload.clone(), pace, options }];
        if let Some(per_second) = self.load.hot_per_second {
            groups.push(ClientGroup {
                workload: Arc::new(Urls::new(vec![HOT_TARGET.into()], "hot")),
                pace: Pace::Open {
                    per_second,
                    arrivals: Arrivals::Constant,
                    connections_max: CONNECTIONS_MAX,
                },
                options: ClientOptions { protocol, ..ClientOptions::default() },
            });
        }
        let url = Url::parse(&format!("{scheme}://127.0.0.1:{port}/"))?;
        let tls = url.tls.then(|| Tls::new(&url.host)).transpose()?;
        Ok(Load {
            server: Server::reach(&url)?.with_tls(tls),
            groups,
            threads: processors.clamp(1, THREADS_MAX) as u32,
            warm_up: Duration::from_secs_f64(self.load.warm_up_seconds),
            until: Until::Time(Duration::from_secs_f64(self.load.seconds)),
            timeout: TIMEOUT,
            bits_per_second_min: self.load.conform.map(|conform| conform.bits_per_second_min),
            seed: self.seed,
        })
    }
}
