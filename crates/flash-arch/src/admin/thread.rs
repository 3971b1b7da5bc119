//! The thread of the admin socket, in servers that have threads.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flash_os::waker::Waker;
use flash_process::UpgradeRequest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::admin::history::Sample;
use crate::admin::listeners::AdminListeners;
use crate::admin::snapshot::SiteSnapshot;
use crate::admin::{AdminServer, Administered, Snapshot, gather};
use crate::server_state::ServerState;
use crate::service::reply::{ReloadRequest, Reply};
use crate::service::upgrade::Asked;

/// How long the last clients may take to leave a server that has a successor, and how often it looks.
const LEAVE_PATIENCE: Duration = Duration::from_secs(1);
const LEAVE_PAUSE: Duration = Duration::from_millis(5);
const STACK_BYTES: usize = 256 << 10;

/// The thread that answers. When this is dropped, it accepts no more.
#[must_use]
pub(crate) struct AdminThread {
    stop: Arc<Waker>,
    /// Disconnected once it has left its listeners.
    leaves: Receiver<()>,
    thread: JoinHandle<()>,
}

impl AdminThread {
    pub(crate) fn start(listeners: AdminListeners, server: &Arc<ServerState>) -> io::Result<Self> {
        let admin = AdminServer::new(listeners)?;
        let stop = Arc::new(Waker::new()?);
        let (leaving, leaves) = channel();
        let (server, stopping) = (Arc::clone(server), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("admin".into())
            .stack_size(STACK_BYTES)
            .spawn(move || run(admin, server, &stopping, leaving))?;
        Ok(Self { stop, leaves, thread })
    }

    /// Accepts no more. What has been asked is answered.
    pub(crate) fn stop(&self) {
        self.stop.wake();
        // One that panicked has left its listeners too.
        let _ = self.leaves.recv();
    }

    /// Waits for a moment until all clients have left.
    pub(crate) fn wait_for_clients(&self) {
        let give_up = Instant::now() + LEAVE_PATIENCE;
        while !self.thread.is_finished() && Instant::now() < give_up {
            thread::sleep(LEAVE_PAUSE);
        }
    }
}

impl Drop for AdminThread {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(mut admin: AdminServer, mut server: Arc<ServerState>, stop: &Waker, leaving: Sender<()>) {
    let mut leaving = Some(leaving);
    while !admin.is_over() {
        admin.turn(&mut server, Instant::now());
        let until = admin.due().saturating_duration_since(Instant::now());
        let mut events = admin.polled();
        let own = events.len();
        events.extend(leaving.as_ref().map(|_| PollFd::new(stop, PollFlags::IN)));
        // If it fails, the next turn tries again.
        let _ = poll(&mut events, Timespec::try_from(until).ok().as_ref());
        let is_stopped = events.get(own).is_some_and(|stop| !stop.revents().is_empty());
        drop(events);
        if is_stopped {
            admin.leave();
            leaving = None;
        }
    }
}

impl Administered for Arc<ServerState> {
    fn snapshot(&self) -> Snapshot {
        gather::of_process(self)
    }

    fn sample(&self) -> Sample {
        gather::sample_of_process(self)
    }

    fn changed_sites(&self) -> Vec<SiteSnapshot> {
        gather::changed_sites(self.metrics.memory())
    }

    fn is_draining(&self) -> bool {
        ServerState::is_draining(self)
    }

    fn reload(&mut self, reply: Reply) {
        match self.reloads() {
            // If the thread that reloads has ended, it has said why.
            Some(reloads) => _ = reloads.send(ReloadRequest::Reload(Some(reply))),
            None => reply.send(Err("this process cannot reload".into())),
        }
    }

    fn check(&mut self, file: PathBuf, reply: Reply) {
        // Without that thread there is nothing that a reload could find wrong.
        if let Some(reloads) = self.reloads() {
            let _ = reloads.send(ReloadRequest::Check(file, reply));
        }
    }

    fn reopen_logs(&mut self, reply: Reply) {
        ServerState::reopen_logs(self, Some(reply));
    }

    fn log_counters(&mut self) {
        self.log_metrics("serving");
    }

    fn upgrade(&mut self, request: UpgradeRequest, reply: Reply) {
        if let Some(queue) = self.upgrades.get() {
            queue.ask(Asked { request, reply });
        }
        // It may have begun to drain meanwhile.
        if ServerState::is_draining(self) {
            self.refuse_upgrades();
        }
    }
}
