//! Signals: stop, stop at once, open the logs again, tell what has been done.
//!
//! SIGHUP has two meanings. From an operator it reopens the logs, because many log rotators send it. From a terminal that was
//! closed it stops the server in order, so that a preview does not outlive its window.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::raw::c_int;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flash_process::{Child, Supervisor};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag::register_conditional_shutdown;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::server_state::ServerState;

pub(crate) struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    /// From now on the next one ends the process.
    stopping: Arc<AtomicBool>,
    /// Which of standard input, output and error were terminals at the start.
    terminals: [bool; 3],
}

/// What a supervisor of processes hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Stop,
    Reopen,
    /// SIGHUP from an operator: as `Reopen`, and a line that says so.
    HangUp,
    Tell,
}

/// What SIGHUP did, for an operator who expected new settings.
const HANG_UP: &str = "SIGHUP: the logs are reopened; settings are flags, so a restart changes them";

fn terminals() -> [bool; 3] {
    [io::stdin().is_terminal(), io::stdout().is_terminal(), io::stderr().is_terminal()]
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            register_conditional_shutdown(signal, 1, Arc::clone(&stopping))?;
        }
        let (read, write) = UnixStream::pair()?;
        let all = [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD];
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, all)?;
        Ok(Self { delivery, stopping, terminals: terminals() })
    }

    /// Waits for signals, or until the supervisor has something to do: then there may be none.
    ///
    /// # Errors
    /// When the kernel has no room for the few things that this needs.
    pub(crate) fn wait(&mut self, supervisor: &Supervisor<'_>) -> io::Result<Vec<Heard>> {
        supervisor.wait(&[self.delivery.get_read().as_fd()])?;
        let pending = self.delivery.pending();
        Ok(pending.filter_map(|signal| self.heard(signal)).collect())
    }

    fn heard(&self, signal: c_int) -> Option<Heard> {
        match signal {
            // The supervisor looks for those that have ended.
            SIGCHLD => None,
            SIGUSR1 => Some(Heard::Reopen),
            // A terminal that was closed answers no questions any more.
            SIGHUP if terminals() == self.terminals => Some(Heard::HangUp),
            SIGUSR2 => Some(Heard::Tell),
            _ => {
                self.stopping();
                Some(Heard::Stop)
            }
        }
    }

    /// From now on a signal to stop ends the process at once.
    pub(crate) fn stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Waits until a signal says to stop, or the server has lost a process that it needs.
    ///
    /// # Errors
    /// In the second case, for whoever supervises the server to hear of when it has stopped in order.
    pub(crate) fn wait_for_stop(mut self, shared: &ServerState, needed: &[Child]) -> io::Result<()> {
        let mut supervisor = Supervisor::new(needed);
        loop {
            // Before a signal tells: one may have ended before they were heard.
            if let Some(lost) = supervisor.reap() {
                self.stopping();
                shared.error_log.log(format_args!("{}", lost.farewell()));
                return Err(lost.into());
            }
            for heard in self.wait(&supervisor)? {
                match heard {
                    Heard::Stop => return Ok(()),
                    Heard::Reopen => shared.reopen_logs(),
                    Heard::HangUp => {
                        shared.reopen_logs();
                        shared.error_log.log(format_args!("{HANG_UP}"));
                    }
                    Heard::Tell => shared.log_metrics("serving"),
                }
            }
        }
    }
}
