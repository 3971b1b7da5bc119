//! MT, PIPELINED §2: "multiple kernel threads with a single shared address space. Each thread takes care of a client's
//! request and performs the request processing steps independently … the threads can share any global information".

use super::{Cache, Kind, Model, Placement, ServiceMode, Work};
use crate::parameters::{Caches, Parameters};

pub(super) fn model(p: &Parameters) -> Model {
    let threads = match p.server.thread_per_client {
        true => p.run.clients,
        false => p.server.threads_per_processor * p.machine.processors,
    };
    let mut mt = Model::new(p, Caches::Shared, 1);
    let thread = mt.role("thread", Kind::Thread, ServiceMode::OneAtATime, Placement::Anywhere, threads);
    mt.runs(p, |request| {
        request
            .on(thread)
            .spend(Work::Connection)
            .spend(Work::ReadRequest)
            .look(Cache::Path, |missed| missed.translate())
            .spend(Work::SendHeader)
            // §6.1: "during disk accesses, the threads in the MT model are blocked."
            .look(Cache::Data, |missed| missed.read())
            .send()
    })
}
