//! PIPELINED §4: "an accept connection thread takes care of a connection from a user, and forwards this request to a read
//! request thread. The read request thread parses the request". Then "the find file request thread checks whether the request
//! is in a path translation cache". "Otherwise, it forwards the request to a path translation helper thread. Next, the send
//! header thread sends the response header to the client. Finally, the read file and send data threads send the requested
//! data". "a pipelined thread pool can be launched on each CPU and the threads can share the global information." §3.4's 7 × N
//! counts reading and sending as one thread, like its Figure 4.

use super::{Cache, Kind, Model, Placement, ServiceMode, Work};
use crate::parameters::{Caches, Parameters};

pub(super) fn model(p: &Parameters) -> Model {
    let mut pipelined = Model::new(p, Caches::Shared, p.machine.processors);
    let mut stage =
        |name| pipelined.role(name, Kind::Thread, ServiceMode::Multiplexed, Placement::EachProcessor, 1);
    let accept = stage("accept connection");
    let read_request = stage("read request");
    let find_file = stage("find file");
    let send_header = stage("send header");
    let send_data = stage("read file and send data");
    let translator = pipelined.helpers(p, "path translation helper", Kind::Thread);
    let reader = pipelined.helpers(p, "read helper", Kind::Thread);
    pipelined.runs(p, |request| {
        request
            .on(accept)
            .spend(Work::Connection)
            .on(read_request)
            .spend(Work::ReadRequest)
            .on(find_file)
            .look(Cache::Path, |missed| missed.on(translator).translate().on(find_file))
            .on(send_header)
            .spend(Work::SendHeader)
            .on(send_data)
            .look(Cache::Data, |missed| missed.on(reader).read().on(send_data))
            .send()
    })
}
