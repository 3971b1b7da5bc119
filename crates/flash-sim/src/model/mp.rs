//! MP, PIPELINED §2: "a process pool and each process is assigned to execute the basic steps associated with servicing a
//! request". It has "the difficulty to share any global information, since each process has its own private address" space.

use super::{Cache, Kind, Model, Placement, ServiceMode, Work};
use crate::parameters::{Caches, Parameters};

pub(super) fn model(p: &Parameters) -> Model {
    let processes = p.server.processes_per_processor * p.machine.processors;
    let mut mp = Model::new(p, Caches::Replicated, processes);
    let process = mp.role("process", Kind::Process, ServiceMode::OneAtATime, Placement::Anywhere, processes);
    mp.runs(p, |request| {
        request
            .on(process)
            .spend(Work::Connection)
            .spend(Work::ReadRequest)
            .look(Cache::Path, |missed| missed.translate())
            .spend(Work::SendHeader)
            .look(Cache::Data, |missed| missed.read())
            .send()
    })
}
