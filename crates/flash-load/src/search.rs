//! Several runs that belong together: the search for a server's capacity, and sweeps over parts of it or over sizes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flash_traffic::Workload;

use crate::pace::CONNECTIONS_MAX;
use crate::{Arrivals, Error, Live, Load, Pace, Report, run};

/// Clients of the first step of a search.
const CLIENTS_FIRST: u32 = 4;
/// The same, where clients have slow lines and are many.
const CONFORMING_FIRST: u32 = 64;
/// A step must bring so much more than the best before to be worth another one.
const WORTH: f64 = 1.02;

/// Measures a closed loop with ever more clients, twice as many in each step, until two steps in a row bring less than 2 %.
/// The report is that of the best step, with all of them under `steps`. Only the first group grows.
pub fn capacity(
    load: &Load,
    clients_max: u32,
    stop: &AtomicBool,
    mut look: impl FnMut(Live),
) -> Result<Report, Error> {
    let mut load = load.clone();
    let mut steps: Vec<Report> = Vec::new();
    let mut best = 0;
    let mut clients = CLIENTS_FIRST.min(clients_max).max(load.threads);
    loop {
        let report = closed(&mut load, clients, stop, &mut look)?;
        let better =
            steps.get(best).is_none_or(|best| report.requests_per_second > best.requests_per_second * WORTH);
        if better {
            best = steps.len();
        }
        steps.push(report);
        if steps.len() - best > 2 || clients >= clients_max || stop.load(Ordering::Relaxed) {
            break;
        }
        clients = (clients * 2).min(clients_max);
    }
    let mut report = of_steps(steps, best);
    report.capacity_requests_per_second = Some(report.requests_per_second);
    Ok(report)
}

/// Searches for the greatest number of clients that can keep their [rate](Load::bits_per_second_min) at the same time, to a
/// twentieth. Each step measures a closed loop. The report is that of the greatest number, with all steps under `steps`. Only
/// the first group of clients grows.
pub fn conforming(
    load: &Load,
    clients_max: u32,
    stop: &AtomicBool,
    mut look: impl FnMut(Live),
) -> Result<Report, Error> {
    let mut load = load.clone();
    let mut steps: Vec<Report> = Vec::new();
    // So many can, and so many cannot.
    let (mut can, mut cannot) = (0, None);
    let mut best = None;
    let mut clients = CONFORMING_FIRST.min(clients_max).max(load.threads);
    loop {
        let report = closed(&mut load, clients, stop, &mut look)?;
        let Some(conformance) = &report.conformance else {
            return Err(Error::Usage("a search for conforming clients needs a minimum bit rate".into()));
        };
        if conformance.holds() {
            (can, best) = (clients, Some(steps.len()));
        } else {
            cannot = Some(clients);
        }
        steps.push(report);
        clients = match cannot {
            None => (clients * 2).min(clients_max),
            Some(cannot) => can + (cannot - can) / 2,
        };
        let near = cannot.is_some_and(|cannot| cannot - can <= (can / 20).max(1));
        if near || can == clients_max || clients < load.threads || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let best = best.unwrap_or(steps.len() - 1);
    let mut report = of_steps(steps, best);
    report.conforming_clients = Some(can);
    Ok(report)
}

/// One step of a search: so many clients of the first group, who ask again as soon as they are answered.
fn closed(load: &mut Load, clients: u32, stop: &AtomicBool, look: impl FnMut(Live)) -> Result<Report, Error> {
    load.groups[0].pace = Pace::Closed { clients, think: Duration::ZERO };
    let mut report = run(load, stop, look)?;
    report.clients = Some(clients);
    Ok(report)
}

/// The report of the best step, with all of them.
fn of_steps(steps: Vec<Report>, best: usize) -> Report {
    let mut report = steps[best].clone();
    report.interrupted = steps.iter().any(|step| step.interrupted);
    report.steps = steps;
    report
}

/// Measures an open loop, Poisson, at each level, in parts of a capacity in requests a second. The report is that of the
/// last level, with all of them under `steps`.
pub fn levels(
    load: &Load,
    capacity: f64,
    levels: &[f64],
    stop: &AtomicBool,
    mut look: impl FnMut(Live),
) -> Result<Report, Error> {
    let mut load = load.clone();
    let mut steps: Vec<Report> = Vec::new();
    for level in levels {
        load.groups[0].pace = Pace::Open {
            per_second: capacity * level,
            arrivals: Arrivals::Poisson,
            connections_max: load.groups[0].pace.connections_max().max(CONNECTIONS_MAX),
        };
        let mut report = run(&load, stop, &mut look)?;
        report.level = Some(*level);
        steps.push(report);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let Some(mut report) = steps.last().cloned() else {
        return Err(Error::Usage("there are no load levels to measure at".into()));
    };
    report.capacity_requests_per_second = Some(capacity);
    report.steps = steps;
    Ok(report)
}

/// Measures files of several sizes one after the other, all else the same. The report is that of the last, with all of them
/// under `steps`.
pub fn sizes(
    load: &Load,
    sizes: &[(u64, Arc<dyn Workload>)],
    stop: &AtomicBool,
    mut look: impl FnMut(Live),
) -> Result<Report, Error> {
    let mut load = load.clone();
    let mut steps: Vec<Report> = Vec::new();
    for (bytes, workload) in sizes {
        load.groups[0].workload = workload.clone();
        let mut report = run(&load, stop, &mut look)?;
        report.size_bytes = Some(*bytes);
        steps.push(report);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let Some(mut report) = steps.last().cloned() else {
        return Err(Error::Usage("there are no sizes to measure with".into()));
    };
    report.steps = steps;
    Ok(report)
}
