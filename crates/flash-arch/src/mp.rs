//! *mp*: a process for each connection that is served, each with small caches of its own.
//!
//! Processes start on demand, and retire when idle. A connection between two requests holds none: the parent has
//! [parked](parking) it.
//!
//! The parent never serves and never starts a thread, so that its supervisor can fork at any time. It answers administrators in
//! its turns. It has no log writer either: what it logs goes to standard error.

mod admin;
mod generations;
mod parking;
mod reports;
mod scoreboard;
mod shared_record;
mod worker;

use std::io;
use std::mem;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use flash_observe::RateLimit;
use flash_process::{Supervisor, UpgradeRequest, child};
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use crate::admin::AdminServer;
use crate::clock::server_us;
use crate::mp::admin::Parent;
use crate::mp::generations::{GENERATIONS_COUNTED, Generations};
use crate::mp::parking::Parking;
use crate::mp::scoreboard::Scoreboard;
use crate::service::Startup;
use crate::service::reply::STOPPING;
use crate::service::signals::{SignalEvent, Signals};
use crate::service::upgrade::Upgrades;
use crate::service::watchdog::Ticks;

/// Between a failure to start a process and the next attempt.
const START_PAUSE: Duration = Duration::from_secs(1);
/// The most processes that start at once. The first time it is one, and twice as many each time within a second.
const BATCH_MAX: usize = 32;
const BATCH_PAUSE: Duration = Duration::from_secs(1);
/// A connection takes less than that from one process to another.
const QUIET: Duration = Duration::from_millis(400);

/// The rows where so many workers count programs and certificates. Few generations have workers at once; more of them count none.
pub(crate) const fn rows(processes_max: usize) -> usize {
    GENERATIONS_COUNTED * processes_max
}

#[expect(clippy::too_many_lines, reason = "one loop, in the order in which its events count")]
pub(crate) fn serve(processes: usize, processes_max: usize, startup: Startup<'_>) -> io::Result<()> {
    // All processes count time from the same start.
    server_us(Instant::now());
    // Each worker has a cache of its own, so nothing is warmed.
    let Startup { limits, clients, listeners, needed, configurator, admin, .. } = startup;
    let Startup { manager, metrics_memory, upgrader, earlier_servers, ready, .. } = startup;
    for listener in &listeners {
        listener.set_nonblocking()?;
    }
    let mut upgrades = Upgrades::new(upgrader, admin.try_clone()?, earlier_servers);
    let parking = Parking::new(clients)?;
    let mut generations = Generations::new(
        (processes, processes_max),
        (listeners, limits),
        configurator,
        parking,
        metrics_memory,
    )?;
    let mut supervisor = Supervisor::new(needed);
    generations.start(&mut supervisor)?;
    let mut admin = AdminServer::new(admin)?;
    // The workers have signal handlers of their own, so these come after the forks.
    let mut signals = Signals::new()?;
    let mut growth = Growth::default();
    generations.wait_for_first();
    let mut watchdog = manager.watchdog().map(|interval| Ticks::every(interval / 2));
    let mut is_reloading = false;
    let mut succession: Option<Succession> = None;
    let mut is_over = false;
    let log = |line: &str| child::log(format_args!("{line}"));
    // What the parent says goes to standard error, which has it already.
    ready(&|_| ());
    // The history for administrators begins.
    generations.with_parking(|parking| parking.turn(usize::MAX, !admin.is_over()));
    let lost = 'serving: loop {
        // A process may have ended before its signal could be received, so this comes first.
        if let Some(lost) = supervisor.reap() {
            break Some(lost);
        }
        generations.forget_ended();
        growth.grow(&generations.present.scoreboard, |number| supervisor.start(generations.role(number)));
        let others = [admin.polled(), polled(upgrades.events())].concat();
        let tick = watchdog.as_ref().map(Ticks::due);
        let events = wait(&mut signals, &supervisor, &generations, (others, tick))?;
        for event in events {
            match event {
                SignalEvent::Stop => break 'serving None,
                SignalEvent::Reopen => supervisor.signal(|_| Signal::USR1),
                // A replaced server reads no configuration that its successor has.
                SignalEvent::HangUp if succession.is_some() => supervisor.signal(|_| Signal::USR1),
                SignalEvent::HangUp => {
                    // One of them logs it.
                    supervisor.signal(|at| if at == 0 { Signal::HUP } else { Signal::USR1 });
                    generations.begin_reload(None, &mut supervisor);
                }
                SignalEvent::Upgrade if succession.is_some() => log(STOPPING),
                SignalEvent::Upgrade => {
                    let listeners = generations.present.listeners.borrow();
                    upgrades.begin(&UpgradeRequest::default(), listeners.iter(), &Vec::new, None, &log);
                }
            }
        }
        let acts = succession.is_none().then_some((&mut supervisor, &mut upgrades));
        admin.turn(&mut Parent { generations: &mut generations, acts }, Instant::now());
        if upgrades.turn(&manager, &log, || admin.leave()) {
            if let Err(error) = generations.succeeded(&mut supervisor) {
                child::log(format_args!("connections between two requests are closed at once: {error}"));
                break None;
            }
            succession = Some(Succession::new(generations.present.limits.upgrade_drain));
        }
        // The check may have ended already.
        if generations.is_reloading() && !mem::replace(&mut is_reloading, true) {
            manager.reloading();
        }
        generations.turn(&mut supervisor);
        if is_reloading && !generations.is_reloading() {
            is_reloading = false;
            manager.ready(format_args!("serves: {}", generations.shown()));
        }
        if watchdog.as_mut().is_some_and(|ticks| ticks.take(Instant::now())) {
            manager.alive(format_args!("serves: {}", generations.shown()));
        }
        let idle_max = generations.present.limits.connections_max.saturating_sub(generations.busy());
        let busy = generations.busy();
        let keep_ticking = growth.is_short || succession.is_some() || !admin.is_over();
        let is_short = generations.with_parking(|parking| parking.turn(idle_max, keep_ticking));
        growth.is_short |= is_short.unwrap_or_default();
        let parked = generations.with_parking(|parking| parking.len()).unwrap_or_default();
        // Whoever has asked for the successor gets the answer.
        let connections = busy + parked + usize::from(!admin.is_over());
        if succession.as_mut().is_some_and(|succession| succession.is_over(connections)) {
            is_over = true;
            break None;
        }
    };
    manager.stopping();
    if let Some(lost) = &lost {
        signals.stopping();
        child::log(format_args!("{}", lost.farewell()));
    }
    upgrades.abandon();
    let left = succession
        .and_then(|succession| succession.give_up)
        .map(|at| at.saturating_duration_since(Instant::now()));
    let drain = match is_over {
        true => Duration::ZERO,
        // A stop never moves the end away.
        false => generations.present.limits.drain.min(left.unwrap_or(Duration::MAX)),
    };
    end(&mut generations, supervisor, &mut admin, drain);
    lost.map_or(Ok(()), |lost| Err(lost.into()))
}

fn end(generations: &mut Generations, supervisor: Supervisor<'_>, admin: &mut AdminServer, drain: Duration) {
    for listener in &*generations.present.listeners.borrow() {
        listener.close();
    }
    // Idle connections are closed at once.
    generations.close_idle();
    let parent = &mut Parent { generations, acts: None };
    supervisor.end(drain + Duration::from_secs(1), || admin.turn(parent, Instant::now()));
    // Workers had the sockets until now.
    generations.remove_names();
    child::log(format_args!("stopped"));
}

/// Waits for signals, for the ends of processes, for workers and for administrators.
fn wait(
    signals: &mut Signals,
    supervisor: &Supervisor<'_>,
    generations: &Generations,
    (mut others, tick): (Vec<PollFd<'_>>, Option<Instant>),
) -> io::Result<Vec<SignalEvent>> {
    let parking = generations.parking();
    let parking = parking.as_ref().expect("only workers drop it");
    others.extend([parking.polled(), polled(generations.events())].into_iter().flatten());
    signals.wait(supervisor, others, parking.due().into_iter().chain(tick).min())
}

/// What is only read.
fn polled(readable: Option<BorrowedFd<'_>>) -> Vec<PollFd<'_>> {
    readable.map(|readable| PollFd::from_borrowed_fd(readable, PollFlags::IN)).into_iter().collect()
}

/// The time after another server has taken this one's place, until the last connection has ended.
struct Succession {
    give_up: Option<Instant>,
    /// Since when there was no connection. One may be on its way between two processes.
    quiet_since: Option<Instant>,
}

impl Succession {
    fn new(drain: Duration) -> Self {
        Self { give_up: Instant::now().checked_add(drain), quiet_since: None }
    }

    /// With so many connections.
    fn is_over(&mut self, connections: usize) -> bool {
        let now = Instant::now();
        if connections > 0 {
            self.quiet_since = None;
        }
        let quiet_since = (connections == 0).then(|| *self.quiet_since.get_or_insert(now));
        quiet_since.is_some_and(|since| now >= since + QUIET) || self.give_up.is_some_and(|at| now >= at)
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
