//! The watchdog of the service manager: it restarts a server whose loop no longer comes to the end of its turn.
//!
//! A thread of its own looks twice in each interval of the manager. A loop that waits for events lives, and is not woken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::server_state::ServerState;

/// Starts the thread, if the manager has a watchdog.
pub(crate) fn start(shared: &Arc<ServerState>) -> io::Result<()> {
    let manager = shared.manager();
    let Some(interval) = manager.watchdog() else { return Ok(()) };
    let shared = Arc::clone(shared);
    let life = move || {
        let mut before = Vec::new();
        loop {
            thread::sleep(interval / 2);
            let now = shared.metrics.turns_under_way();
            match before.iter().find(|turn| now.contains(turn)) {
                Some((name, _)) => {
                    let seconds = interval.as_secs_f64() / 2.0;
                    shared.error_log.log(format_args!(
                        "{name} has been in one turn for {seconds:.1} s: the service manager is not told that it lives"
                    ));
                }
                None => manager.alive(format_args!("{}", shared.shown())),
            }
            before = now;
        }
    };
    thread::Builder::new().name("watchdog".into()).spawn(life).map(drop)
}

/// Moments for those that wait for other events too.
pub(crate) struct Ticks(OwnedFd);

impl Ticks {
    pub(crate) fn every(interval: Duration) -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let interval = Timespec::try_from(interval).map_err(io::Error::other)?;
        let times = Itimerspec { it_interval: interval, it_value: interval };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
        Ok(Self(timer))
    }

    /// Whether a moment has come since the last call.
    pub(crate) fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8][..]).is_ok()
    }
}

impl AsFd for Ticks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
