//! What `flash why` costs the server that it watches: processor time of a cached 1 KB, with and without it, in turn.
//!
//! It watches at level 1, with eBPF. What it needs for itself is not counted.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::cached::{CELLS, measure, median};
use super::report::Bar;
use super::servers::{self, Place, Server};

/// Microseconds per request, one for each round.
#[derive(Default)]
pub(crate) struct Figures {
    without: Vec<f64>,
    with: Vec<f64>,
}

/// Until it has attached, and found the loops.
const ATTACHED: Duration = Duration::from_secs(2);
/// The cost of a server that is watched, at most.
const RATIO_MAX: f64 = 1.05;

pub(crate) fn run(place: &Place, why: &Path, rounds: usize, seconds: u64) -> Result<Figures> {
    let running = servers::start(Server::Amped, place, &[])?;
    let pid = running.process.pids().first().context("the server runs")?.as_raw_nonzero().to_string();
    let [smallest, ..] = &CELLS;
    let mut figures = Figures::default();
    for round in 0..rounds {
        // Neither is always the first.
        for watched in [round % 2 == 0, round % 2 != 0] {
            let watch = if watched { Some(Watch::start(why, &pid)?) } else { None };
            let us = measure(place, &running, smallest, seconds)?.server;
            watch.map_or(Ok(()), Watch::end)?;
            eprintln!(
                "round {} of {rounds}, {}: {us:.2}",
                round + 1,
                if watched { "watched" } else { "alone" }
            );
            let of = if watched { &mut figures.with } else { &mut figures.without };
            of.push(us);
        }
    }
    Ok(figures)
}

/// `flash why`, as long as something is measured.
struct Watch(Child);

impl Watch {
    fn start(why: &Path, pid: &str) -> Result<Watch> {
        let mut command = Command::new(why);
        command.args([pid, "--level", "1"]).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| why.display().to_string())?;
        thread::sleep(ATTACHED);
        Ok(Watch(child))
    }

    /// It must have been there all the time.
    fn end(mut self) -> Result<()> {
        if let Some(status) = self.0.try_wait()? {
            bail!("flash why ended before its time ({status})");
        }
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // When it is killed, the kernel drops everything of it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Figures {
    /// The median of each round's ratio.
    fn ratio(&self) -> Option<f64> {
        median(self.with.iter().zip(&self.without).map(|(with, without)| with / without).collect())
    }
}

pub(crate) fn print(figures: &Figures) {
    let of = |rounds: &[f64]| median(rounds.to_vec()).map_or("–".into(), |us| format!("{us:.2} µs"));
    println!("\na cached 1 KB of amped: {} alone, {} watched\n", of(&figures.without), of(&figures.with));
}

pub(crate) fn bars(figures: &Figures) -> Vec<Bar> {
    vec![Bar::at_most("flash why: amped watched ÷ alone".into(), RATIO_MAX, figures.ratio())]
}

pub(crate) fn json(figures: &Figures) -> Value {
    json!({ "alone_us": figures.without, "watched_us": figures.with, "ratio": figures.ratio() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_that_of_the_middle_round() {
        let figures = Figures { without: vec![10.0, 20.0, 10.0], with: vec![11.0, 20.0, 10.4] };
        assert!((figures.ratio().expect("three rounds") - 1.04).abs() < 1e-9);
        assert_eq!(Figures::default().ratio(), None);
    }
}
