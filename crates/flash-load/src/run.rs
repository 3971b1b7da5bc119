//! A run: threads that simulate clients, a caller that shows the progress, and a report at the end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_traffic::Part;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::load::Until;
use crate::player::{Course, Gauge, play};
use crate::{Conformance, Error, Load, Pace, Report};

/// Descriptors that the process needs besides its connections.
const DESCRIPTORS_BESIDE: u64 = 64;
/// Until all threads are there.
const RUN_UP: Duration = Duration::from_millis(5);
const LOOK: Duration = Duration::from_millis(20);

/// How far a run is: what was counted since the start, the warm-up included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    pub elapsed: Duration,
    pub requests: u64,
    pub body_bytes: u64,
    pub errors: u64,
    /// The warm-up is over.
    pub is_measuring: bool,
}

/// Runs a load until its end, or until `stop` is set. `look` is called a few times a second.
pub fn run(load: &Load, stop: &AtomicBool, mut look: impl FnMut(Live)) -> Result<Report, Error> {
    check(load)?;
    raise_descriptors(load)?;
    let start = Instant::now() + RUN_UP;
    let course = Course::new(load, start);
    let gauges: Vec<Gauge> = (0..load.threads).map(|_| Gauge::default()).collect();
    let running = AtomicUsize::new(gauges.len());
    let tally = thread::scope(|scope| {
        let players: Vec<_> = gauges
            .iter()
            .zip(0..)
            .map(|(gauge, index)| {
                let (course, running) = (&course, &running);
                scope.spawn(move || {
                    let played = play(load, Part { index, of: load.threads }, course, gauge);
                    running.fetch_sub(1, Ordering::Relaxed);
                    played
                })
            })
            .collect();
        while running.load(Ordering::Relaxed) > 0 {
            thread::sleep(LOOK);
            if stop.load(Ordering::Relaxed) {
                course.stop.store(true, Ordering::Relaxed);
            }
            look(live(&gauges, &course));
        }
        let mut tallies = players.into_iter().map(|player| match player.join() {
            Ok(played) => played.map_err(|error| Error::Run(format!("a thread of clients failed: {error}"))),
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let mut tally = tallies.next().expect("there is a thread at least")?;
        for other in tallies {
            tally.merge(other?);
        }
        Ok(tally)
    })?;
    let names: Vec<String> =
        load.groups.iter().flat_map(|group| group.workload.catalogue().classes.clone()).collect();
    let measured = |from| tally.ended.saturating_duration_since(from).as_secs_f64();
    let seconds = course.measured_from().map_or(0.0, measured);
    let interrupted = course.stop.load(Ordering::Relaxed);
    let mut report = Report::new(load.to_string(), &tally, &names, seconds, interrupted);
    report.conformance = load.bits_per_second_min.map(|min| Conformance::of(&tally.clients, seconds, min));
    Ok(report)
}

fn check(load: &Load) -> Result<(), Error> {
    let usage = |what: &str| Err(Error::Usage(what.to_owned()));
    if load.threads == 0 || load.groups.is_empty() {
        return usage("nobody would ask: at least one thread and one group of clients");
    }
    if matches!(load.until, Until::Time(time) if time.is_zero()) || load.until == Until::Requests(0) {
        return usage("nothing would be measured: the duration, or the number of requests, is 0");
    }
    if load.bits_per_second_min.is_some()
        && !load.groups.iter().any(|group| matches!(group.pace, Pace::Closed { .. }))
    {
        return usage("only clients of a closed loop have a bit rate to keep");
    }
    for group in &load.groups {
        if group.pace.connections_max() == 0 || group.options.concurrency() == 0 {
            return usage("nobody would ask: at least one client, connection and request at a time");
        }
        let reasonable = |number: f64| number.is_finite() && number > 0.0;
        match group.pace {
            Pace::Open { per_second, .. } if !reasonable(per_second) => {
                return usage("a rate must be above 0");
            }
            Pace::Recorded { speed_up, .. } if !reasonable(speed_up) => {
                return usage("a speed-up must be above 0");
            }
            Pace::Recorded { .. } => {
                let first = group.workload.sequence(Part::WHOLE, load.seed).next();
                if first.is_none_or(|ask| ask.at.is_none()) {
                    return usage("this workload has no times of its own to keep to");
                }
            }
            Pace::Closed { .. } | Pace::Open { .. } => {}
        }
    }
    Ok(())
}

/// Every connection is a descriptor.
fn raise_descriptors(load: &Load) -> Result<(), Error> {
    let connections: u64 = load.groups.iter().map(|group| u64::from(group.pace.connections_max())).sum();
    let needed = connections + u64::from(load.threads) + DESCRIPTORS_BESIDE;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    // Root may raise the bound itself.
    let maximum = limit.maximum.map(|maximum| maximum.max(needed));
    let raised =
        [Rlimit { current: Some(needed), maximum }, Rlimit { current: Some(needed), maximum: limit.maximum }];
    if raised.into_iter().any(|limit| setrlimit(Resource::Nofile, limit).is_ok()) {
        return Ok(());
    }
    Err(Error::Run(format!(
        "{connections} connections need {needed} open files, and this process may have {}; raise it with ulimit -n",
        limit.maximum.unwrap_or(u64::MAX)
    )))
}

fn live(gauges: &[Gauge], course: &Course) -> Live {
    let sum = |number: fn(&Gauge) -> u64| gauges.iter().map(number).sum();
    Live {
        elapsed: course.start.elapsed(),
        requests: sum(|gauge| gauge.requests.load(Ordering::Relaxed)),
        body_bytes: sum(|gauge| gauge.body_bytes.load(Ordering::Relaxed)),
        errors: sum(|gauge| gauge.errors.load(Ordering::Relaxed)),
        is_measuring: course.is_measured(Instant::now()),
    }
}
