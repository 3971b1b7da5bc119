//! New-Flash (Ruan and Pai, 2004) is AMPED whose helpers "pass back open descriptors". It has no mapped-file cache, and one
//! entry for a file's name and its descriptor. It sends a file by a `sendfile` that reports when it would block, so it needs no
//! residency check. The kernel holds the content, in one copy for all processes. A helper that translates a name loads the file
//! too.

use super::{Cache, Kind, Model, Placement, ServiceMode, Work};
use crate::parameters::{Caches, Parameters};

pub(super) fn model(p: &Parameters) -> Model {
    let mut new_flash = Model::new(p, Caches::Replicated, p.machine.processors);
    let server =
        new_flash.role("server", Kind::Process, ServiceMode::Multiplexed, Placement::EachProcessor, 1);
    let helper = new_flash.helpers(p, "helper", Kind::HelperProcess);
    new_flash.runs(p, |request| {
        request
            .on(server)
            .spend(Work::Connection)
            .spend(Work::ReadRequest)
            .look(Cache::Path, |missed| missed.on(helper).translate().read().on(server))
            .spend(Work::SendHeader)
            .would_block(|missed| missed.on(helper).read().on(server))
            .send()
    })
}
