//! Runs with a bench that is made up: what is measured, in which order, and after an interruption.

use std::fs::{self, OpenOptions};
use std::io::Write;

use super::*;
use crate::fixtures;
use crate::plan::{At, Extent};

/// Gives every server its own rate, fails where told, and stops after so many measurements.
#[derive(Default)]
struct MadeUp {
    asked: Vec<(String, At, u32, Option<f64>)>,
    stop_after: Option<usize>,
    fails: Option<&'static str>,
    /// Of its tries, the first.
    fails_once: bool,
    /// Of its tries, the first gives no result.
    starves_once: bool,
}

impl Bench for MadeUp {
    fn measure(&mut self, cell: &Cell, rate: Option<f64>) -> Result<Figures, Trouble> {
        if self.stop_after == Some(self.asked.len()) {
            return Err(Trouble::Interrupted);
        }
        self.asked.push((cell.server.name().to_owned(), cell.at.clone(), cell.repeat, rate));
        if std::mem::take(&mut self.fails_once) {
            return Err(Trouble::Failed("the machine slept".into()));
        }
        if std::mem::take(&mut self.starves_once) {
            return Ok(Figures { invalid: Some(Invalid::Starved), ..fixtures::figures(1.0) });
        }
        match self.fails {
            Some(name) if name == cell.server.name() => Err(Trouble::Failed("bind: address in use\n".into())),
            _ => Ok(fixtures::figures(if cell.server.name() == "amped" { 200.0 } else { 100.0 })),
        }
    }
}

struct Lab {
    out: tempfile::TempDir,
    plan: Plan,
    rounds: u32,
}

impl Lab {
    fn new(more: &str) -> Lab {
        Lab { out: tempfile::tempdir().unwrap(), plan: fixtures::plan(more), rounds: u32::MAX }
    }

    fn run(&self, bench: &mut MadeUp, fresh: bool) -> Result<Ending, RunError> {
        self.run_as(fixtures::run(&self.plan, Extent::Full), bench, fresh)
    }

    fn run_as(&self, new: Run, bench: &mut MadeUp, fresh: bool) -> Result<Ending, RunError> {
        let mut store = Store::new(self.out.path(), "made-up");
        let extent = new.extent;
        let (record, done) = open(&mut store, new, fresh)?;
        run(&self.plan, &record, self.rounds, done, &mut store, bench, &mut Progress::new(extent))
    }

    fn measurements(&self) -> Vec<Measurement> {
        Store::new(self.out.path(), "made-up").read().unwrap().unwrap().1
    }
}

#[test]
fn servers_take_turns_within_a_round_and_another_begins_each_time() {
    let lab = Lab::new("");
    let mut bench = MadeUp::default();
    assert_eq!(lab.run(&mut bench, false).unwrap(), Ending::Complete { failed: 0 });
    assert_eq!(bench.asked.len(), 2 * 3 * 3);
    let pairs: Vec<_> = bench.asked.chunks(2).collect();
    for pair in &pairs {
        assert_ne!(pair[0].0, pair[1].0, "both servers have their turn at a place before the next place");
        assert_eq!((&pair[0].1, pair[0].2), (&pair[1].1, pair[1].2));
    }
    assert!(pairs.windows(2).all(|two| two[0][0].0 != two[1][0].0), "who begins moves on");
    let turns: Vec<_> = lab.measurements().iter().map(|one| one.turn).collect();
    assert_eq!(turns[..7], [0, 1, 2, 3, 4, 5, 0]);
}

#[test]
fn a_run_that_was_interrupted_goes_on_and_measures_nothing_twice() {
    let lab = Lab::new("");
    let mut first = MadeUp { stop_after: Some(7), ..MadeUp::default() };
    assert_eq!(lab.run(&mut first, false).unwrap(), Ending::Interrupted { left: 11 });
    // Killed while it wrote: half a line, cut within a character.
    let raw = lab.out.path().join("made-up/raw.jsonl");
    OpenOptions::new().append(true).open(&raw).unwrap().write_all(b"{\"server\":\"amp\xc3").unwrap();
    assert_eq!(lab.measurements().len(), 7);

    let mut second = MadeUp::default();
    assert_eq!(lab.run(&mut second, false).unwrap(), Ending::Complete { failed: 0 });
    let mut asked = [first.asked, second.asked].concat();
    assert_eq!(asked.len(), 18);
    let whole = Lab::new("");
    let mut bench = MadeUp::default();
    whole.run(&mut bench, false).unwrap();
    assert_eq!(asked, bench.asked, "in the order of a run that nobody interrupts");
    asked.dedup();
    assert_eq!(asked.len(), 18);
    assert_eq!(lab.measurements().len(), 18);
    assert_eq!(
        lab.run(&mut MadeUp { stop_after: Some(0), ..MadeUp::default() }, false).unwrap(),
        Ending::Complete { failed: 0 }
    );
}

#[test]
fn another_run_is_not_mixed_in() {
    let lab = Lab::new("");
    lab.run(&mut MadeUp { stop_after: Some(1), ..MadeUp::default() }, false).unwrap();
    let old = fixtures::run(&lab.plan, Extent::Full);
    let text = Run { plan_text: "other".into(), ..old.clone() };
    let servers = Run { servers: vec![old.servers[0].clone()], ..old.clone() };
    let quick = Run { extent: Extent::Quick, ..old.clone() };
    for (new, expected) in [(text, "version of this plan"), (servers, "other servers"), (quick, "full")] {
        let error = lab.run_as(new.clone(), &mut MadeUp::default(), false).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("--fresh"), "{error}");
        assert_eq!(lab.measurements().len(), 1, "nothing was touched");
    }
    let mut bench = MadeUp { stop_after: Some(2), ..MadeUp::default() };
    lab.run(&mut bench, true).unwrap();
    assert_eq!(lab.measurements().len(), 2, "--fresh begins anew");
}

#[test]
fn what_fails_or_is_starved_once_is_measured_again() {
    for bench in
        [MadeUp { fails_once: true, ..MadeUp::default() }, MadeUp { starves_once: true, ..MadeUp::default() }]
    {
        let (lab, mut bench) = (Lab::new(""), bench);
        assert_eq!(lab.run(&mut bench, false).unwrap(), Ending::Complete { failed: 0 });
        assert_eq!(bench.asked[0], bench.asked[1]);
        assert_eq!(bench.asked.len(), lab.measurements().len() + 1);
        assert!(lab.measurements().iter().all(|one| one.result().is_some()));
    }
}

#[test]
fn some_rounds_now_and_the_others_later() {
    let lab = Lab { rounds: 1, ..Lab::new("") };
    assert_eq!(lab.run(&mut MadeUp::default(), false).unwrap(), Ending::Complete { failed: 0 });
    let first = lab.measurements().len();
    assert!(lab.measurements().iter().all(|one| one.repeat == 0));
    let lab = Lab { rounds: u32::MAX, ..lab };
    lab.run(&mut MadeUp::default(), false).unwrap();
    assert_eq!(lab.measurements().len(), first * lab.plan.repeats(Extent::Full) as usize);
}

#[test]
fn a_server_that_fails_is_recorded_with_its_last_words() {
    let lab = Lab::new("");
    let mut bench = MadeUp { fails: Some("1999"), ..MadeUp::default() };
    assert_eq!(lab.run(&mut bench, false).unwrap(), Ending::Complete { failed: 9 });
    let failed = lab.measurements().into_iter().find(|one| one.server == "1999").unwrap();
    assert_eq!(failed.outcome, Outcome::Failed("bind: address in use\n".into()));
    let text = fs::read_to_string(lab.out.path().join("made-up/raw.jsonl")).unwrap();
    assert!(text.contains(r#""failed":"bind: address in use\n""#), "{text}");
}

#[test]
fn levels_are_parts_of_what_the_same_server_did_with_infinite_demand() {
    let text = fixtures::PLAN
        .replace("axis = \"clients\", values = [1, 10, 100]", "axis = \"load-level\", values = [0.5, 0.9, 1]")
        .replace("values = [1, 100]", "values = [0.5, 1]");
    let plan = Plan::parse("levels", &text).unwrap();
    let lab = Lab { out: tempfile::tempdir().unwrap(), plan, rounds: u32::MAX };
    let mut bench = MadeUp::default();
    lab.run(&mut bench, false).unwrap();
    let of = |name: &str| bench.asked.iter().filter(|one| one.0 == name).map(|one| one.3).collect::<Vec<_>>();
    assert_eq!(of("amped")[..3], [None, Some(100.0), Some(180.0)]);
    assert_eq!(of("1999")[..3], [None, Some(50.0), Some(90.0)]);

    let lab = Lab { out: tempfile::tempdir().unwrap(), ..lab };
    lab.run(&mut MadeUp { fails: Some("amped"), ..MadeUp::default() }, false).unwrap();
    let last = lab.measurements().into_iter().rfind(|one| one.server == "amped").unwrap();
    assert_eq!(last.outcome, Outcome::Skipped("its capacity is not known".into()));
}
