//! What administrators see of mp, and have its parent do.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::PathBuf;

use flash_process::{Supervisor, UpgradeRequest, child};
use rustix::process::Signal;

use crate::admin::history::{Sample, worker_name};
use crate::admin::slowest::slowest_of;
use crate::admin::snapshot::{
    CertificateSnapshot, ConfigurationSnapshot, EarlierServerSnapshot, SiteSnapshot, SlowRequest,
    WorkerSnapshot, Workers,
};
use crate::admin::{Administered, Snapshot, gather};
use crate::mp::generations::Generations;
use crate::service::reply::Reply;
use crate::service::upgrade::Upgrades;

const MINUTE_MS: u64 = 60_000;

/// The parent, as administrators see it.
pub(super) struct Parent<'a, 's> {
    pub(super) generations: &'a mut Generations,
    /// `None` once the workers end, and another server may have taken this one's place.
    pub(super) acts: Option<(&'a mut Supervisor<'s>, &'a mut Upgrades)>,
}

impl Administered for Parent<'_, '_> {
    fn snapshot(&self) -> Snapshot {
        let Generations { present, .. } = &*self.generations;
        let counted = gather::of_memory(&present.metrics_memory);
        let (mut configurations, mut list, mut devices) = (Vec::new(), Vec::new(), Vec::new());
        let mut slowest: Vec<SlowRequest> = Vec::new();
        for workers in self.generations.all() {
            let (number, first) = (workers.generation, list.len());
            for (worker, device) in workers.reports.all() {
                list.push(WorkerSnapshot { generation: number, ..worker });
                devices.extend(device);
            }
            slowest.extend(workers.reports.slowest());
            configurations.push(ConfigurationSnapshot {
                number,
                since_unix_ms: workers.since_unix_ms,
                requests: workers.scoreboard.busy() as u64,
                workers: list[first..].iter().map(|worker| worker.pid).collect(),
            });
        }
        // Earlier configurations may have sites that are no longer served.
        let (mut root_faults, mut drops_log_lines) = (BTreeSet::new(), false);
        for (roots, drops_lines) in present.reports.faults() {
            root_faults.extend(roots);
            drops_log_lines |= drops_lines;
        }
        // Those that have been at a job for longest come first, and then those that are busy.
        list.sort_by_key(|worker| {
            let job_us = worker.job.as_ref().map(|job| job.duration_us);
            (Reverse(job_us), !worker.busy, worker.generation, worker.number)
        });
        let ended_ms = |request: &SlowRequest| request.unix_ms + request.duration_us / 1000;
        slowest.retain(|request| ended_ms(request) + MINUTE_MS > counted.taken_unix_ms);
        let certificates = present.metrics_memory.certificates.all().into_iter();
        Snapshot {
            pid: std::process::id(),
            generation: present.generation,
            generations_in_use: configurations.iter().map(|of| of.number).collect(),
            draining: self.is_draining(),
            earlier_servers: self
                .acts
                .iter()
                .flat_map(|(_, upgrades)| EarlierServerSnapshot::all(upgrades.earlier()))
                .collect(),
            devices: gather::by_device(devices.into_iter()),
            root_faults: root_faults.into_iter().collect(),
            drops_log_lines,
            slowest: slowest_of(slowest),
            certificates: certificates
                .map(|(names, validity)| CertificateSnapshot::new(names, validity))
                .collect(),
            workers: Some(Workers {
                processes: self.generations.all().map(|workers| workers.scoreboard.workers() as u64).sum(),
                busy: self.generations.busy() as u64,
                list,
            }),
            configurations,
            ..counted
        }
    }

    fn sample(&self) -> Sample {
        let counted = gather::sample_of_memory(&self.generations.present.metrics_memory);
        let busy_us = self.generations.all().flat_map(|workers| workers.reports.busy_us());
        Sample { busy_us: busy_us.map(|(pid, busy_us)| (worker_name(pid), busy_us)).collect(), ..counted }
    }

    fn changed_sites(&self) -> Vec<SiteSnapshot> {
        gather::changed_sites(&self.generations.present.metrics_memory)
    }

    fn is_draining(&self) -> bool {
        self.acts.is_none()
    }

    fn reload(&mut self, reply: Reply) {
        if let Some((supervisor, _)) = &mut self.acts {
            self.generations.begin_reload(Some(reply), supervisor);
        }
    }

    /// Nobody asks mp beforehand: a reload says it.
    fn check(&mut self, _: PathBuf, reply: Reply) {
        reply.send(Ok(0));
    }

    /// The workers do it, and say in the log what they could not open.
    fn reopen_logs(&mut self, reply: Reply) {
        reply.send(Ok(0));
        self.acts.iter().for_each(|(supervisor, _)| supervisor.signal(|_| Signal::USR1));
    }

    fn log_counters(&mut self) {
        // One of them logs what all have counted.
        self.acts.iter().for_each(|(supervisor, _)| supervisor.signal_first(Signal::USR2));
    }

    fn upgrade(&mut self, request: UpgradeRequest, reply: Reply) {
        if let Some((_, upgrades)) = &mut self.acts {
            let listeners = self.generations.present.listeners.borrow();
            upgrades.begin(&request, listeners.iter(), &Vec::new, Some(reply), &|line| {
                child::log(format_args!("{line}"));
            });
        }
    }
}
