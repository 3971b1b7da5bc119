//! A plan, run: every cell of the schedule that has no record yet is measured and recorded, until all are done or
//! somebody interrupts. What a measurement is, the [`Bench`] knows.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flash_load::Invalid;

use crate::plan::{Plan, ServerEntry};
use crate::progress::Progress;
use crate::record::{Figures, Measurement, Outcome, RecordError, Run, Store};
use crate::schedule::{self, Cell};

/// The code that measures.
pub trait Bench {
    /// One server at one place, at so many requests a second where the plan varies that.
    fn measure(&mut self, cell: &Cell, rate: Option<f64>) -> Result<Figures, Trouble>;
}

/// Why there are no figures.
#[derive(Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The run was interrupted; the cell counts as never begun.
    Interrupted,
    /// The server or its clients failed. It is tried once more; then it is recorded and the run goes on.
    Failed(String),
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    Complete { failed: u32 },
    Interrupted { left: usize },
}

/// Why a run cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("{folder} holds a run {what}; --fresh begins anew and removes it")]
    Other { folder: String, what: String },
}

/// Goes on with the run that lies in the store if it is this one, else begins it. What it gives is the run as recorded,
/// with everything measured before.
pub fn open(store: &mut Store, new: Run, fresh: bool) -> Result<(Run, Vec<Measurement>), RunError> {
    let Some((old, done)) = (if fresh { None } else { store.read()? }) else {
        store.begin(&new)?;
        return Ok((new, Vec::new()));
    };
    if let Some(what) = difference(&old, &new) {
        return Err(RunError::Other { folder: store.folder().display().to_string(), what });
    }
    store.resume()?;
    let mut run = old;
    if !new.commands.iter().all(|command| run.commands.contains(command)) {
        run.commands.extend(new.commands);
        store.write_run(&run)?;
    }
    Ok((run, done))
}

/// In what an earlier run differs from this one, so that their measurements must not be mixed.
fn difference(old: &Run, new: &Run) -> Option<String> {
    let names = |run: &Run| run.servers.iter().map(|server| server.name.clone()).collect::<Vec<_>>();
    if old.plan_text != new.plan_text {
        return Some("of another version of this plan".into());
    }
    if old.extent != new.extent {
        return Some(format!("that is {}", old.extent));
    }
    if old.reduced != new.reduced {
        return Some(match old.reduced.is_empty() {
            true => "by root, with all limits".into(),
            false => format!("that is reduced ({})", old.reduced.join(", ")),
        });
    }
    if names(old) != names(new) {
        return Some(format!("of other servers ({})", names(old).join(", ")));
    }
    if old.machine != new.machine {
        return Some("of another machine, kernel or version of the lab".into());
    }
    let versions = |run: &Run| run.servers.iter().map(|server| server.version.clone()).collect::<Vec<_>>();
    (versions(old) != versions(new)).then(|| "of other versions of the servers".into())
}

/// Measures what is not yet measured of the first `rounds`.
pub fn run(
    plan: &Plan,
    run: &Run,
    rounds: u32,
    mut done: Vec<Measurement>,
    store: &mut Store,
    bench: &mut dyn Bench,
    progress: &mut Progress,
) -> Result<Ending, RunError> {
    let servers: Vec<ServerEntry> = plan
        .servers(run.extent)
        .filter(|entry| run.servers.iter().any(|server| server.name == entry.name()))
        .cloned()
        .collect();
    let mut cells = schedule::schedule(plan, run.extent, &servers, run.seed);
    cells.retain(|cell| cell.repeat < rounds);
    let left: Vec<&Cell> = cells.iter().filter(|cell| !done.iter().any(|one| cell.is(one))).collect();
    progress.begin(plan, cells.len(), left.len());
    for (count, cell) in left.iter().enumerate() {
        progress.measuring(cell);
        let (began, clock) = (SystemTime::now(), Instant::now());
        let outcome = match schedule::rate(plan, cell, &done) {
            Ok(rate) => match measure(bench, cell, rate, progress) {
                Ok(outcome) => outcome,
                Err(Interrupted) => {
                    progress.end();
                    return Ok(Ending::Interrupted { left: left.len() - count });
                }
            },
            Err(why) => Outcome::Skipped(why),
        };
        let measurement = Measurement {
            server: cell.server.name().to_owned(),
            x: cell.at.clone(),
            repeat: cell.repeat,
            turn: cell.turn,
            began_unix: unix(began).as_secs(),
            took_seconds: clock.elapsed().as_secs_f64(),
            outcome,
        };
        store.add(&measurement)?;
        progress.measured(&measurement);
        done.push(measurement);
    }
    progress.end();
    let failed = done.iter().filter(|one| matches!(one.outcome, Outcome::Failed(_))).count();
    Ok(Ending::Complete { failed: failed as u32 })
}

struct Interrupted;

/// What failed, or gave no result because the clients had no processor, is measured once more: once may be an accident of
/// the machine's.
fn measure(
    bench: &mut dyn Bench,
    cell: &Cell,
    rate: Option<f64>,
    progress: &Progress,
) -> Result<Outcome, Interrupted> {
    let first = bench.measure(cell, rate);
    let again = match &first {
        Err(Trouble::Failed(why)) => Some(why.clone()),
        Ok(figures) => figures.invalid.filter(|why| *why == Invalid::Starved).map(|why| why.to_string()),
        Err(Trouble::Interrupted) => None,
    };
    let figures = match again {
        Some(why) => {
            progress.again(&why);
            bench.measure(cell, rate)
        }
        None => first,
    };
    match figures {
        Ok(figures) => Ok(Outcome::Done(figures)),
        Err(Trouble::Failed(why)) => Ok(Outcome::Failed(why)),
        Err(Trouble::Interrupted) => Err(Interrupted),
    }
}

/// Time since 1970; a clock before that counts as 1970.
pub fn unix(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}
