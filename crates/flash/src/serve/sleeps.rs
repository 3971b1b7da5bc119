//! The recorder of loops' sleeps: a thread of the server, or a process where the server gives up its rights.
//!
//! Kernel stacks take a right that `--user` and the sandbox take away. So the process is forked before, while the server has one
//! thread. It is there only if the right is, and only if there are loops.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use flash_observe::{ConnectRecorder, record_sleeps, recorder_thread};
use flash_os::perf_event::{Begin, SleepRecorder, THIS_THREAD};
use flash_process::{OnEnd, Role, SupervisorProcess, SupervisorSetup};

use crate::flags::Arch;

const NAME: &str = "the sleep recorder";
/// Each has the rights of the start, so a server that was taken over gets no more of them.
const AT_ONCE_MAX: usize = 64;

/// What the server asks why a loop slept. A failure costs explanations, and no request.
pub(super) fn recorder(arch: Arch, keeps_rights: bool) -> ConnectRecorder {
    let has_loops = !matches!(arch, Arch::Mt | Arch::Mp);
    let is_allowed = || SleepRecorder::open(THIS_THREAD, 1, Begin::Disabled).is_ok();
    if !has_loops || keeps_rights || !is_allowed() {
        return recorder_thread();
    }
    match process() {
        Ok(process) => Arc::new(move || process.request(&[])),
        Err(error) => {
            let error = error.to_string();
            Arc::new(move || Err(io::Error::other(error.clone())))
        }
    }
}

/// A supervisor process of its own, because no other may have the rights of the start.
fn process() -> io::Result<SupervisorProcess> {
    let server = std::process::id();
    SupervisorProcess::start(SupervisorSetup {
        title: c"flash-sleeps",
        name: NAME,
        requested: &|_, socket: Rc<OwnedFd>| {
            let to = Rc::clone(&socket);
            let main = Rc::new(move || record_sleeps(&to, server));
            Some(Role { name: NAME.into(), on_end: OnEnd::Forget, socket: Some(socket), main })
        },
        requested_max: AT_ONCE_MAX,
        ..SupervisorSetup::default()
    })
}
