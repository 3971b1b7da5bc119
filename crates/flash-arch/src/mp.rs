//! *mp*: a process for each connection that is served, each with small caches of its own.
//!
//! Processes start on demand, and retire when idle. A connection between two requests holds none: the parent has
//! [parked](parking) it.
//!
//! The parent never serves and never starts a thread, so that its supervisor can fork at any time. It has no log writer either:
//! what it logs goes to standard error.

mod parking;
mod scoreboard;
mod worker;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use flash_observe::RateLimit;
use flash_process::{Child, OnEnd, Role, Supervisor, child};
use rustix::process::Signal;

use crate::clock::server_us;
use crate::limits::Limits;
use crate::listener::Listener;
use crate::mp::parking::Parking;
use crate::mp::scoreboard::Scoreboard;
use crate::mp::worker::{Workers, work};
use crate::server_state::ServerParts;
use crate::signals::{SignalEvent, Signals};

/// The longest pause before a worker is restarted that ended soon.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// How long the first workers may take to start before the server counts as ready.
const FIRST_PATIENCE: Duration = Duration::from_secs(2);
/// Between a failure to start a process and the next attempt.
const START_PAUSE: Duration = Duration::from_secs(1);
/// The most processes that start at once. The first time it is one, and twice as many each time within a second.
const BATCH_MAX: usize = 32;
const BATCH_PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn serve(
    processes: usize,
    processes_max: usize,
    limits: Limits,
    listeners: Vec<Listener>,
    needed: &[Child],
    parts: impl Fn(usize) -> io::Result<ServerParts>,
    ready: impl FnOnce(),
) -> io::Result<()> {
    // All processes count time from the same start.
    server_us(Instant::now());
    for listener in &listeners {
        listener.set_nonblocking()?;
    }
    let listeners = Rc::new(listeners);
    let scoreboard = Rc::new(Scoreboard::new(processes_max)?);
    let parking = Parking::new()?;
    let workers = Workers {
        min: processes,
        limits,
        listeners: Rc::clone(&listeners),
        scoreboard: Rc::clone(&scoreboard),
        ends: parking.ends(),
    };
    let parking = Rc::new(RefCell::new(Some(parking)));
    let role = |number: usize| {
        let (parking, workers, parts) = (Rc::clone(&parking), &workers, &parts);
        Role {
            name: format!("worker {number}").into(),
            on_end: match number < processes {
                true => OnEnd::Restart { pause_max: RESTART_PAUSE },
                false => OnEnd::RestartUnlessDone { pause_max: RESTART_PAUSE },
            },
            socket: None,
            main: Rc::new(move || {
                // An idle connection would stay open for as long as any process has its socket.
                drop(parking.take());
                work(number, workers, parts)
            }),
        }
    };
    let mut supervisor = Supervisor::new(needed);
    for _ in 0..processes {
        let number = scoreboard.starting().expect("there may be so many");
        supervisor.start(role(number))?;
    }
    // The workers have signal handlers of their own, so these come after the forks.
    let mut signals = Signals::new()?;
    let mut growth = Growth::default();
    wait_for_first(&scoreboard);
    ready();
    let lost = 'serving: loop {
        // A process may have ended before its signal could be received, so this comes first.
        if let Some(lost) = supervisor.reap() {
            break Some(lost);
        }
        growth.grow(&scoreboard, |number| supervisor.start(role(number)));
        let events = {
            let parking = parking.borrow();
            let parking = parking.as_ref().expect("only workers drop it");
            signals.wait(&supervisor, &[parking.events()])?
        };
        for event in events {
            match event {
                SignalEvent::Stop => break 'serving None,
                SignalEvent::Reopen => supervisor.signal(|_| Signal::USR1),
                // One of them logs it.
                SignalEvent::HangUp => {
                    supervisor.signal(|at| if at == 0 { Signal::HUP } else { Signal::USR1 })
                }
                SignalEvent::LogMetrics => supervisor.signal(|_| Signal::USR2),
            }
        }
        if let Some(parking) = &mut *parking.borrow_mut() {
            let idle_max = limits.connections_max.saturating_sub(scoreboard.busy());
            growth.is_short |= parking.turn(idle_max, growth.is_short);
        }
    };
    if let Some(lost) = &lost {
        signals.stopping();
        child::log(format_args!("{}", lost.farewell()));
    }
    for listener in &*listeners {
        listener.shut();
    }
    // Idle connections are closed at once.
    drop(parking.take());
    supervisor.end(limits.drain + Duration::from_secs(1));
    child::log(format_args!("stopped"));
    lost.map_or(Ok(()), |lost| Err(lost.into()))
}

/// Waits until the first workers handle signals, or have had time enough. One that has ended by then is replaced later.
fn wait_for_first(scoreboard: &Scoreboard) {
    let give_up = Instant::now() + FIRST_PATIENCE;
    while scoreboard.has_starting() && Instant::now() < give_up {
        thread::sleep(Duration::from_millis(1));
    }
}

/// When processes are started, and how many.
#[derive(Default)]
struct Growth {
    /// A worker was the last idle one.
    is_short: bool,
    batch: usize,
    started_at: Option<Instant>,
    paused_until: Option<Instant>,
}

impl Growth {
    /// Starts processes if none is idle.
    fn grow(&mut self, scoreboard: &Scoreboard, mut start: impl FnMut(usize) -> io::Result<()>) {
        static NO_PROCESS: RateLimit = RateLimit::every(Duration::from_secs(60));
        let now = Instant::now();
        if !self.is_short || self.paused_until.is_some_and(|until| now < until) {
            return;
        }
        self.is_short = false;
        if scoreboard.has_spare() {
            return;
        }
        let goes_on = self.started_at.is_some_and(|at| now < at + BATCH_PAUSE);
        self.batch = if goes_on { (self.batch * 2).min(BATCH_MAX) } else { 1 };
        for _ in 0..self.batch {
            let Some(number) = scoreboard.starting() else { return };
            self.started_at = Some(now);
            if let Err(error) = start(number) {
                scoreboard.absent(number);
                (self.is_short, self.paused_until) = (true, Some(now + START_PAUSE));
                if NO_PROCESS.admit(now).is_some() {
                    let count = scoreboard.workers();
                    child::log(format_args!(
                        "cannot start another process: {error}; {count} serve, and connections wait for them"
                    ));
                }
                return;
            }
        }
    }
}
