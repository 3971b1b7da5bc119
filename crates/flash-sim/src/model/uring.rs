//! uring: one process, with an event loop on every processor, on one set of caches. A loop puts each call that would block into
//! a ring that it shares with the kernel, and the kernel waits. The completion reaches the loop like any other event. There are
//! no helpers, so no switch to them and back. An entry in the ring costs as much as a hand-off.

use super::{Cache, Kind, Model, Placement, ServiceMode, Work};
use crate::parameters::{Caches, Parameters};

pub(super) fn model(p: &Parameters) -> Model {
    let mut uring = Model::new(p, Caches::Shared, p.machine.processors);
    let server = uring.role("loop", Kind::Thread, ServiceMode::Multiplexed, Placement::EachProcessor, 1);
    uring.runs(p, |request| {
        request
            .on(server)
            .spend(Work::Connection)
            .spend(Work::ReadRequest)
            .look(Cache::Path, |missed| missed.translate_in_ring())
            .spend(Work::SendHeader)
            .look(Cache::Data, |missed| missed.read_in_ring())
            .send()
    })
}
