//! Signals: stop, stop at once, reopen the logs, reload, upgrade. Administrators' requests to upgrade come to the same thread.
//!
//! SIGHUP has two meanings. From an operator it reloads and reopens the logs, because many log rotators send it. From a terminal that was
//! closed it stops the server in order, so that a preview does not outlive its window.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::raw::c_int;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_process::{Child, Supervisor, UpgradeRequest, ipc};
use rustix::event::{PollFd, PollFlags};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag::{self, register_conditional_shutdown};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::admin::thread::AdminThread;
use crate::server_state::ServerState;
use crate::service::reply::ReloadRequest;
use crate::service::upgrade::{Asked, UpgradeQueue, Upgrades};

pub(crate) struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    /// Once set, the next signal to stop ends the process.
    ends_at_once: Arc<AtomicBool>,
    /// Which of standard input, output and error were terminals at the start.
    terminals: [bool; 3],
    /// The socket to a process that this one does not outlive.
    parent: Option<OwnedFd>,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalEvent {
    Stop,
    Reopen,
    /// SIGHUP from an operator: as `Reopen`, and a reload.
    HangUp,
    Upgrade,
}

/// Signals to stop within this time are one. `timeout`, npm and a process group send two.
const ONE_STOP: Duration = Duration::from_secs(1);
/// The log line after SIGHUP. What comes of the reload follows.
const HANG_UP: &str = "SIGHUP: the logs are reopened, and the configuration is read again";

fn terminals() -> [bool; 3] {
    [io::stdin().is_terminal(), io::stdout().is_terminal(), io::stderr().is_terminal()]
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let ends_at_once = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            register_conditional_shutdown(signal, 1, Arc::clone(&ends_at_once))?;
        }
        // Its handler does nothing. A file that has reached RLIMIT_FSIZE then takes no more, which is an error like that of a full disk.
        flag::register(SIGXFSZ, Arc::default())?;
        let (read, write) = UnixStream::pair()?;
        let all = [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD];
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, all)?;
        Ok(Self { delivery, ends_at_once, terminals: terminals(), parent: None })
    }

    /// The end of the process at the other end of this socket is a signal to stop, too.
    pub(crate) fn or_end_of(self, parent: OwnedFd) -> Self {
        Self { parent: Some(parent), ..self }
    }

    /// Waits for signals, or until the supervisor has work to do, one of `others` has an event, or `until`. Then there may be no signal.
    ///
    /// # Errors
    /// If the wait itself fails.
    pub(crate) fn wait(
        &mut self,
        supervisor: &Supervisor<'_>,
        others: Vec<PollFd<'_>>,
        until: Option<Instant>,
    ) -> io::Result<Vec<SignalEvent>> {
        let mut polled = vec![PollFd::new(self.delivery.get_read(), PollFlags::IN)];
        polled.extend(others);
        supervisor.wait_until(&mut polled, until)?;
        drop(polled);
        let pending = self.delivery.pending();
        Ok(pending.filter_map(|signal| self.event_of(signal)).collect())
    }

    fn event_of(&self, signal: c_int) -> Option<SignalEvent> {
        match signal {
            // The supervisor itself looks for children that have ended.
            SIGCHLD => None,
            SIGUSR1 => Some(SignalEvent::Reopen),
            // A closed terminal is no longer a terminal.
            SIGHUP if terminals() == self.terminals => Some(SignalEvent::HangUp),
            SIGUSR2 => Some(SignalEvent::Upgrade),
            _ => {
                self.stopping();
                Some(SignalEvent::Stop)
            }
        }
    }

    /// After a moment, a signal to stop ends the process at once.
    pub(crate) fn stopping(&self) {
        let ends_at_once = Arc::clone(&self.ends_at_once);
        let after_a_moment = move || {
            thread::sleep(ONE_STOP);
            ends_at_once.store(true, Ordering::Relaxed);
        };
        if thread::Builder::new().name("flash-stop".into()).spawn(after_a_moment).is_err() {
            self.ends_at_once.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until a signal to stop comes, a needed process or thread has ended, another server has taken this one's place, or this
    /// one has come to its end.
    ///
    /// # Errors
    /// If a needed process or thread has ended. The server then stops in order, and reports the error.
    pub(crate) fn wait_for_stop(
        &mut self,
        shared: &ServerState,
        needed: &[Child],
        upgrades: &mut Upgrades,
        admin: Option<&AdminThread>,
    ) -> io::Result<()> {
        let mut supervisor = Supervisor::new(needed);
        let parent = self.parent.take();
        loop {
            // A process may have ended before its signal could be received, so this comes first.
            if let Some(lost) = supervisor.reap() {
                self.stopping();
                shared.error_log.log(format_args!("{}", lost.farewell()));
                return Err(lost.into());
            }
            if shared.is_over() {
                return Ok(());
            }
            if let Some(failure) = shared.failure() {
                self.stopping();
                return Err(io::Error::other(failure.to_owned()));
            }
            let queue = shared.upgrades.get();
            let parent = parent.as_ref().map(AsFd::as_fd);
            let others =
                [queue.map(|queue| queue.waker().as_fd()), upgrades.events(), parent].into_iter().flatten();
            let others = others.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)).collect();
            let events = self.wait(&supervisor, others, None)?;
            if parent.is_some_and(|parent| !ipc::is_idle(parent)) {
                return Ok(());
            }
            let log = |line: &str| shared.error_log.log(format_args!("{line}"));
            let listeners = shared.listeners.load();
            let listeners = || listeners.iter().flatten();
            let hot_paths = || shared.hot_paths();
            for event in events {
                match event {
                    SignalEvent::Stop => return Ok(()),
                    SignalEvent::Reopen => shared.reopen_logs(None),
                    SignalEvent::HangUp => {
                        shared.reopen_logs(None);
                        shared.error_log.log(format_args!("{HANG_UP}"));
                        // The parent of mp reloads by itself.
                        if let Some(reloads) = shared.reloads() {
                            // If the thread that reloads has ended, it has said why.
                            let _ = reloads.send(ReloadRequest::Reload(None));
                        }
                    }
                    SignalEvent::Upgrade if upgrades.are_possible() => {
                        upgrades.begin(&UpgradeRequest::default(), listeners(), &hot_paths, None, &log);
                    }
                    // The parent of mp asks its workers.
                    SignalEvent::Upgrade => {
                        shared.log_metrics(if shared.is_draining() { "draining" } else { "serving" })
                    }
                }
            }
            for Asked { request, reply } in queue.into_iter().flat_map(UpgradeQueue::take) {
                upgrades.begin(&request, listeners(), &hot_paths, Some(reply), &log);
            }
            let leave_admin = || admin.into_iter().for_each(AdminThread::stop);
            if upgrades.turn(&shared.manager(), &log, leave_admin) {
                shared.succeeded();
                return Ok(());
            }
        }
    }
}
