//! What administrators see of mp, and have its parent do.

use std::rc::Rc;

use flash_process::{Supervisor, UpgradeRequest, child};
use rustix::process::Signal;

use crate::admin::history::Sample;
use crate::admin::snapshot::{
    CertificateSnapshot, ConfigurationSnapshot, SiteSnapshot, Workers as WorkersSnapshot,
};
use crate::admin::{Administered, Snapshot, gather};
use crate::mp::generations::Generations;
use crate::mp::worker::Workers;
use crate::reply::Reply;
use crate::upgrade::Upgrades;

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
        let list = present.board.workers();
        let configuration = |workers: &Rc<Workers>| ConfigurationSnapshot {
            number: workers.generation,
            since_unix_ms: workers.since_unix_ms,
            requests: workers.scoreboard.busy() as u64,
            workers: list
                .iter()
                .filter(|worker| worker.generation == workers.generation)
                .map(|worker| worker.pid)
                .collect(),
        };
        let configurations: Vec<_> = self.generations.all().map(configuration).collect();
        let certificates = present.metrics_memory.certificates.all().into_iter();
        Snapshot {
            pid: std::process::id(),
            generation: present.generation,
            generations_in_use: configurations.iter().map(|of| of.number).collect(),
            draining: self.is_draining(),
            devices: present.board.devices(&list),
            slowest: present.board.slowest(counted.taken_unix_ms),
            certificates: certificates
                .map(|(names, not_after_unix_s)| CertificateSnapshot { names, not_after_unix_s })
                .collect(),
            workers: Some(WorkersSnapshot {
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
        Sample { busy_us: self.generations.present.board.busy_us().collect(), ..counted }
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

    fn reopen_logs(&mut self) {
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
