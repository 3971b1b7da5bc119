//! Signals: stop, stop at once, open the logs again, tell what has been done.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag::register_conditional_shutdown;

use crate::shared::Shared;

pub(crate) struct Signals {
    signals: signal_hook::iterator::Signals,
    /// From now on the next one ends the process.
    stopping: Arc<AtomicBool>,
}

/// What a supervisor of processes hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Stop,
    Reopen,
    Tell,
    ChildEnded,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            register_conditional_shutdown(signal, 1, Arc::clone(&stopping))?;
        }
        let signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGCHLD])?;
        Ok(Self { signals, stopping })
    }

    pub(crate) fn next(&mut self) -> Heard {
        match self.signals.forever().next() {
            Some(SIGUSR1) => Heard::Reopen,
            Some(SIGUSR2) => Heard::Tell,
            Some(SIGCHLD) => Heard::ChildEnded,
            Some(_) | None => {
                self.stopping.store(true, Ordering::Relaxed);
                Heard::Stop
            }
        }
    }

    pub(crate) fn wait_for_stop(mut self, shared: &Shared) {
        loop {
            match self.next() {
                Heard::Stop => return,
                Heard::Reopen => shared.reopen_logs(),
                Heard::Tell => shared.say_ledger("serving"),
                Heard::ChildEnded => {}
            }
        }
    }
}
