//! Signals: stop, stop at once, open the logs again, tell what has been done.
//!
//! SIGHUP has two meanings. From an operator it reopens the logs, because many log rotators send it. From a terminal that was
//! closed it stops the server in order, so that a preview does not outlive its window.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag::register_conditional_shutdown;

use crate::children::{self, Child};
use crate::server_state::ServerState;

pub(crate) struct Signals {
    signals: signal_hook::iterator::Signals,
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
    ChildEnded,
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
        let signals =
            signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD])?;
        Ok(Self { signals, stopping, terminals: terminals() })
    }

    pub(crate) fn next(&mut self) -> Heard {
        match self.signals.forever().next() {
            Some(SIGUSR1) => Heard::Reopen,
            // A terminal that was closed answers no questions any more.
            Some(SIGHUP) if terminals() == self.terminals => Heard::HangUp,
            Some(SIGUSR2) => Heard::Tell,
            Some(SIGCHLD) => Heard::ChildEnded,
            Some(_) | None => {
                self.stopping();
                Heard::Stop
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
        loop {
            // Before a signal tells: one may have ended before they were heard.
            if let Some(lost) = children::lost(needed) {
                self.stopping();
                shared.error_log.log(format_args!("{}", lost.farewell()));
                return Err(lost.into());
            }
            match self.next() {
                Heard::Stop => return Ok(()),
                Heard::Reopen => shared.reopen_logs(),
                Heard::HangUp => {
                    shared.reopen_logs();
                    shared.error_log.log(format_args!("{HANG_UP}"));
                }
                Heard::Tell => shared.log_metrics("serving"),
                Heard::ChildEnded => {}
            }
        }
    }
}
