//! uring: one process, an event loop on every processor, on one set of caches. What the loop would wait for goes into a ring
//! that it shares with the kernel, which waits; the loop learns of the end like of any other event. No helpers, so no turning
//! to them and back: an entry in the ring costs what a hand-off costs.

use super::{Cache, Kind, Manner, Model, Place, Work};
use crate::parameters::{Caches, Parameters};

pub(super) fn model(p: &Parameters) -> Model {
    let mut uring = Model::new(p, Caches::Shared, p.machine.processors);
    let server = uring.role("loop", Kind::Thread, Manner::Multiplexed, Place::EachProcessor, 1);
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
