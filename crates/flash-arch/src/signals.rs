//! Signals: stop, stop at once, open the logs again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag::register_conditional_shutdown;

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
    ChildEnded,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            register_conditional_shutdown(signal, 1, Arc::clone(&stopping))?;
        }
        let signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGCHLD])?;
        Ok(Self { signals, stopping })
    }

    pub(crate) fn next(&mut self) -> Heard {
        match self.signals.forever().next() {
            Some(SIGUSR1) => Heard::Reopen,
            Some(SIGCHLD) => Heard::ChildEnded,
            Some(_) | None => {
                self.stopping.store(true, Ordering::Relaxed);
                Heard::Stop
            }
        }
    }

    pub(crate) fn wait_for_stop(mut self, reopen: impl Fn()) {
        loop {
            match self.next() {
                Heard::Stop => return,
                Heard::Reopen => reopen(),
                Heard::ChildEnded => {}
            }
        }
    }
}
