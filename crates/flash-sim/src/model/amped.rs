//! AMPED, PIPELINED §2: "one main Web server process and multiple helper processes to mainly handle I/O operations". "If there
//! is a cache miss, the main process forwards the request to a helper process". The helper "fetches the data from the disk and
//! sends it back to the main process". §3.1: "two helper processes, read and path translation helpers".

use super::{Cache, Kind, Model, Placement, ServiceMode, Work};
use crate::parameters::{Caches, Parameters};

pub(super) fn model(p: &Parameters) -> Model {
    let mut amped = Model::new(p, Caches::Replicated, p.machine.processors);
    let server = amped.role("server", Kind::Process, ServiceMode::Multiplexed, Placement::EachProcessor, 1);
    let mut helper = |name| amped.helpers(p, name, Kind::HelperProcess);
    let (translator, reader) = (helper("path helper"), helper("read helper"));
    amped.runs(p, |request| {
        request
            .on(server)
            .spend(Work::Connection)
            .spend(Work::ReadRequest)
            .look(Cache::Path, |missed| missed.on(translator).translate().on(server))
            .spend(Work::SendHeader)
            .look(Cache::Data, |missed| missed.on(reader).read().on(server))
            .send()
    })
}
