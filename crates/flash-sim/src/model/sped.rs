//! SPED, PIPELINED §2: "a single Web server process" that "can avoid context switching and synchronization overheads".
//! "However, the non-blocking I/O operations in this model are actually blocked when it performs disk related operations".
//! §3.3: "we may launch one Web server process per CPU."

use super::{Cache, Kind, Model, Placement, ServiceMode, Work};
use crate::parameters::{Caches, Parameters};

pub(super) fn model(p: &Parameters) -> Model {
    let mut sped = Model::new(p, Caches::Replicated, p.machine.processors);
    let server = sped.role("server", Kind::Process, ServiceMode::Multiplexed, Placement::EachProcessor, 1);
    sped.runs(p, |request| {
        request
            .on(server)
            .spend(Work::Connection)
            .spend(Work::ReadRequest)
            .look(Cache::Path, |missed| missed.translate())
            .spend(Work::SendHeader)
            // The loop itself waits, and with it every other request of this process.
            .look(Cache::Data, |missed| missed.read())
            .send()
    })
}
