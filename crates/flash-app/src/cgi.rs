//! CGI programs, as the request path has them begun: a script below a folder, for one request.
//!
//! Most answer over a stream, which the request path reads. With `direct` the program has the client's socket itself,
//! and all that is left here is to see whether it gets on, and how much it wrote in the end.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_cgi::response::is_nph;
use flash_core::program::{Backend, Begin, Begun, Direct, Finish, Lease, Programs, Refusal, Reply, Talk};
use flash_core::record::Unfinished;
use flash_os::tcp::{bytes_unacked, bytes_written};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;

use crate::keeper::{Keeper, Order, Running, Started, Stdio, Watcher};
use crate::wire::{Ended, What};

pub struct Cgi {
    keeper: Arc<Keeper>,
    /// For each route its folder's number in [`Setup::folders`](crate::Setup::folders).
    folders: Vec<(usize, u16)>,
    /// How long a program may write nothing to a client whose socket it has.
    silence_max: Duration,
    /// Takes what is known of an exchange that went on without us, and how many bytes the client was sent.
    account: Account,
}

pub type Account = Arc<dyn Fn(Unfinished, u64) + Send + Sync>;

impl Cgi {
    pub fn new(
        keeper: Arc<Keeper>,
        folders: Vec<(usize, u16)>,
        silence_max: Duration,
        account: Account,
    ) -> Self {
        Self { keeper, folders, silence_max, account }
    }
}

impl Programs for Cgi {
    fn begin(&self, begin: Begin, reply: Reply) -> Option<Begun> {
        let Begin { route, path, variables, name, direct, .. } = begin;
        let Some(&(_, folder)) = self.folders.iter().find(|(number, _)| *number == route) else {
            return Some(Begun::Failed(Refusal::Broken));
        };
        let path: Arc<[u8]> = path.as_bytes().into();
        let what = What::Script { folder, path: path.to_vec() };
        let (stdio, watcher): (_, Box<dyn Watcher>) = match direct {
            None => (Stdio::Stream, Box::new(OverStream { path, reply: Some(reply) })),
            Some(direct) => {
                let Direct { head, socket, record } = *direct;
                let socket = socket.and_then(|socket| Some((socket.try_clone().ok()?, socket)));
                let Some((ours, client)) = socket else { return Some(Begun::Failed(Refusal::Busy)) };
                let watcher = StraightToClient {
                    written_before: bytes_written(&ours).unwrap_or_default(),
                    client: ours,
                    record,
                    account: Arc::clone(&self.account),
                    silence_max: self.silence_max,
                    progress: None,
                    reply: Some(reply),
                    running: None,
                };
                (Stdio::Direct { client, head }, Box::new(watcher))
            }
        };
        self.keeper.begin(Order { what, variables, stdio, name, watcher });
        None
    }
}

impl fmt::Debug for Cgi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cgi").field("folders", &self.folders).finish_non_exhaustive()
    }
}

struct OverStream {
    path: Arc<[u8]>,
    reply: Option<Reply>,
}

impl Watcher for OverStream {
    fn begun(&mut self, begun: Result<Started, Refusal>) {
        let begun = match begun {
            Ok(Started { stream: Some(stream), name_bytes, running }) => {
                let name = self.path.get(..name_bytes).unwrap_or_default();
                let talk = if is_nph(name) { Talk::Nph } else { Talk::Cgi };
                Begun::Running(stream, Backend { talk, lease: Box::new(running), used: false })
            }
            Ok(_) => Begun::Failed(Refusal::Broken),
            Err(refusal) => Begun::Failed(refusal),
        };
        if let Some(reply) = self.reply.take() {
            reply(begun);
        }
    }
}

impl Lease for Running {
    // Its complaints come through a pipe of their own.
    fn stderr(&mut self, _: &[u8]) {}

    fn finish(self: Box<Self>, stream: OwnedFd, how: Finish) {
        match how {
            Finish::Reusable | Finish::Ended => (*self).finish(),
            Finish::Aborted => (*self).end_before(stream),
        }
    }
}

/// How long a client may take nothing of what its program has written. Its kernel may hold megabytes that it reads slowly.
const CLIENT_PATIENCE: Duration = Duration::from_secs(15 * 60);

struct StraightToClient {
    client: OwnedFd,
    written_before: u64,
    record: Option<Unfinished>,
    account: Account,
    silence_max: Duration,
    /// When it was last seen that more had been written, and how much.
    progress: Option<(Instant, u64)>,
    reply: Option<Reply>,
    running: Option<Running>,
}

impl StraightToClient {
    fn written(&self) -> u64 {
        bytes_written(&self.client).unwrap_or_default().saturating_sub(self.written_before)
    }
}

impl Watcher for StraightToClient {
    fn begun(&mut self, begun: Result<Started, Refusal>) {
        let begun = match begun {
            Ok(started) => {
                self.running = Some(started.running);
                Begun::HandedOver
            }
            Err(refusal) => Begun::Failed(refusal),
        };
        if let Some(reply) = self.reply.take() {
            reply(begun);
        }
    }

    fn is_wanted(&mut self, now: Instant) -> bool {
        let written = self.written();
        match self.progress {
            Some((since, before)) if before == written => {
                // While the client has something to take, it is the client that is waited for.
                let patience = match bytes_unacked(&self.client) {
                    Ok(1..) => self.silence_max.max(CLIENT_PATIENCE),
                    _ => self.silence_max,
                };
                if now.saturating_duration_since(since) > patience {
                    return false;
                }
            }
            _ => self.progress = Some((now, written)),
        }
        // A client that has closed its side (`RDHUP`) may wait for its answer all the same.
        !is_gone(&self.client)
    }

    fn ended(&mut self, _: Ended) {
        if let Some(record) = self.record.take() {
            (self.account)(record, self.written());
        }
        // Whatever it has left behind may not keep the client waiting.
        let _ = rustix::net::shutdown(&self.client, Shutdown::Write);
        if let Some(running) = self.running.take() {
            running.finish();
        }
    }
}

/// Whether nobody is left at the other side.
fn is_gone(socket: &OwnedFd) -> bool {
    let mut look = [PollFd::new(socket, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::HUP | PollFlags::ERR;
    poll(&mut look, Some(&at_once)).is_ok() && look[0].revents().intersects(gone)
}
