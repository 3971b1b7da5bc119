//! CGI upstreams: one script below a folder, for one request.
//!
//! Most scripts answer over a stream, which the request path reads. With `direct` the script has the client's socket itself.
//! Then this module only observes whether the script makes progress, and how many bytes it wrote in the end.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use flash_cgi::response::is_nph;
use flash_core::record::RecordBuilder;
use flash_core::record::counters::ProgramCount;
use flash_core::record::program_times::ProgramTimes;
use flash_core::upstream::{
    Direct, Lease, OnOpened, Open, OpenError, Opened, ReleaseMode, Upstream, UpstreamProtocol, Upstreams,
};
use flash_os::poller::ENDED;
use flash_os::tcp::{bytes_unacked, bytes_written};
use flash_process::{
    ExitStatus, ProcessHandle, ProcessMonitor, ProcessObserver, ProgramRef, SpawnRequest, Started, Stdio,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;

use self::progress::{Progress, Seen};
use crate::counts::{Counted, ProgramCounter, count_refusal, is_failure};
use crate::settings::DirectLimits;

mod progress;

pub struct Cgi {
    monitor: Arc<ProcessMonitor>,
    folders: Vec<ScriptFolder>,
    /// For programs that have their clients' sockets.
    direct: DirectLimits,
    /// Logs an exchange whose client's socket a script had, and how many bytes the client was sent.
    log_detached: LogDetached,
}

/// The folder of a route's scripts.
#[derive(Debug)]
pub struct ScriptFolder {
    pub route: usize,
    /// Its number in [`Setup::folders`](flash_process::Setup::folders).
    pub folder: u16,
    /// Where its scripts are counted.
    pub counter: Arc<dyn ProgramCounter>,
}

pub type LogDetached = Arc<dyn Fn(RecordBuilder, u64) + Send + Sync>;

impl Cgi {
    pub fn new(
        monitor: Arc<ProcessMonitor>,
        folders: Vec<ScriptFolder>,
        direct: DirectLimits,
        log_detached: LogDetached,
    ) -> Self {
        Self { monitor, folders, direct, log_detached }
    }
}

impl Upstreams for Cgi {
    fn begin(&self, begin: Open, reply: OnOpened) -> Option<Opened> {
        let Open { route, path, variables, name, direct, .. } = begin;
        let Some(ScriptFolder { folder, counter, .. }) = self.folders.iter().find(|of| of.route == route)
        else {
            return Some(Opened::Failed(OpenError::Broken));
        };
        let folder = *folder;
        let path: Arc<[u8]> = path.as_bytes().into();
        let what = ProgramRef::Script { folder, path: path.to_vec() };
        let (stdio, observer): (_, Box<dyn ProcessObserver>) = match direct {
            None => (
                Stdio::Stream,
                Box::new(StreamObserver { path, reply: Some(reply), counts: ScriptCounts::new(counter) }),
            ),
            Some(direct) => {
                let Direct { head, socket, record } = *direct;
                let socket = socket.and_then(|socket| Some((socket.try_clone().ok()?, socket)));
                let Some((ours, client)) = socket else { return Some(Opened::Failed(OpenError::Busy)) };
                let observer = DirectObserver {
                    written_before: bytes_written(&ours).unwrap_or_default(),
                    client: ours,
                    record: Some(record),
                    log_detached: Arc::clone(&self.log_detached),
                    limits: self.direct,
                    progress: None,
                    reply: Some(reply),
                    handle: None,
                    counts: ScriptCounts::new(counter),
                };
                (Stdio::Direct { client, head }, Box::new(observer))
            }
        };
        self.monitor.spawn(SpawnRequest { what, variables, stdio, name, observer });
        None
    }
}

impl fmt::Debug for Cgi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cgi").field("folders", &self.folders).finish_non_exhaustive()
    }
}

/// A script as it is counted: it waits, and then it runs.
struct ScriptCounts {
    counter: Arc<dyn ProgramCounter>,
    counted: Vec<Counted>,
}

impl ScriptCounts {
    fn new(counter: &Arc<dyn ProgramCounter>) -> Self {
        Self { counter: Arc::clone(counter), counted: vec![Counted::one(counter, ProgramCount::Waiting)] }
    }

    fn started(&mut self, begun: &Result<Started, OpenError>) {
        self.counted.clear();
        match begun {
            Ok(_) => {
                self.counter.add(ProgramCount::Started, 1);
                let one = |what| Counted::one(&self.counter, what);
                self.counted = vec![one(ProgramCount::Processes), one(ProgramCount::Busy)];
            }
            Err(why) => count_refusal(&self.counter, *why),
        }
    }

    fn exited(&mut self, how: ExitStatus) {
        self.counted.clear();
        self.counter.add(ProgramCount::Failed, is_failure(how).into());
    }
}

struct StreamObserver {
    path: Arc<[u8]>,
    reply: Option<OnOpened>,
    counts: ScriptCounts,
}

impl ProcessObserver for StreamObserver {
    fn started(&mut self, begun: Result<Started, OpenError>) {
        self.counts.started(&begun);
        let begun = match begun {
            Ok(Started { stream: Some(stream), name_bytes, queued, handle }) => {
                let name = self.path.get(..name_bytes).unwrap_or_default();
                let protocol = if is_nph(name) { UpstreamProtocol::Nph } else { UpstreamProtocol::Cgi };
                let counter = Arc::clone(&self.counts.counter);
                let lease = Box::new(ScriptLease { handle, counter });
                Opened::Running(stream, Upstream { queued, ..Upstream::new(protocol, lease) })
            }
            Ok(_) => Opened::Failed(OpenError::Broken),
            Err(refusal) => Opened::Failed(refusal),
        };
        if let Some(reply) = self.reply.take() {
            reply(begun);
        }
    }

    fn exited(&mut self, how: ExitStatus) {
        self.counts.exited(how);
    }
}

/// The lease of a script: it ends with its request.
#[derive(Debug)]
struct ScriptLease {
    handle: ProcessHandle,
    counter: Arc<dyn ProgramCounter>,
}

impl Lease for ScriptLease {
    // Its standard error is a pipe of its own.
    fn stderr(&mut self, _: &[u8]) {}

    fn took(&mut self, times: &ProgramTimes) {
        self.counter.took(times);
    }

    fn finish(self: Box<Self>, stream: OwnedFd, how: ReleaseMode) {
        match how {
            ReleaseMode::Reusable | ReleaseMode::Ended => self.handle.finish(),
            ReleaseMode::Aborted => self.handle.end_before(stream),
        }
    }
}

struct DirectObserver {
    client: OwnedFd,
    written_before: u64,
    record: Option<RecordBuilder>,
    log_detached: LogDetached,
    limits: DirectLimits,
    /// From the first look on.
    progress: Option<Progress>,
    reply: Option<OnOpened>,
    handle: Option<ProcessHandle>,
    counts: ScriptCounts,
}

impl DirectObserver {
    fn written(&self) -> u64 {
        bytes_written(&self.client).unwrap_or_default().saturating_sub(self.written_before)
    }
}

impl ProcessObserver for DirectObserver {
    fn started(&mut self, begun: Result<Started, OpenError>) {
        self.counts.started(&begun);
        let begun = match begun {
            Ok(started) => {
                self.handle = Some(started.handle);
                Opened::Detached
            }
            Err(refusal) => Opened::Failed(refusal),
        };
        if let Some(reply) = self.reply.take() {
            reply(begun);
        }
    }

    fn is_wanted(&mut self, now: Instant) -> bool {
        let Some(state) = state(&self.client) else { return true };
        let seen = Seen {
            written: self.written(),
            unacked: bytes_unacked(&self.client).unwrap_or_default(),
            is_full: !state.contains(PollFlags::OUT),
            // It may wait for its answer all the same.
            has_ended: state.intersects(ENDED),
        };
        let progress = self.progress.get_or_insert_with(|| Progress::new(now, seen));
        progress.goes_on(now, seen, &self.limits) && !state.intersects(PollFlags::HUP | PollFlags::ERR)
    }

    fn exited(&mut self, how: ExitStatus) {
        self.counts.exited(how);
        if let Some(record) = self.record.take() {
            (self.log_detached)(record, self.written());
        }
        // Processes that the script has left behind may not keep the client waiting.
        let _ = rustix::net::shutdown(&self.client, Shutdown::Write);
        if let Some(handle) = self.handle.take() {
            handle.finish();
        }
    }
}

/// Whether the socket has room, and what its peer has closed.
fn state(socket: &OwnedFd) -> Option<PollFlags> {
    let mut look = [PollFd::new(socket, PollFlags::OUT | ENDED)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut look, Some(&at_once)).ok().map(|_| look[0].revents())
}
