//! A tiny plan from its text to its findings, against a real server and with real clients.

#![forbid(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};

use flash_lab::bench::{Rig, TestBed};
use flash_lab::data::Data;
use flash_lab::environment;
use flash_lab::finding::{self, Verdict};
use flash_lab::plan::{At, Extent, Plan};
use flash_lab::progress::Progress;
use flash_lab::record::{Outcome, Run, Store};
use flash_lab::run::{self, Ending};

const PLAN: &str = r#"
name = "tiny"
title = "A hot file and a few others"
about = "For tests."
servers = ["amped", { name = "nothing kept", server = "amped", flags = ["--file-cache", "off"] }, "no such flag"]
workload = { kind = "tree", files = 50, kilobytes = 2 }
load = { clients = 1, hot_per_second = 100, warm_up_seconds = 0.1, seconds = 0.5 }
sweep = { axis = "clients", values = [1, 4] }
repeats = 1

[[figure]]
title = "Rate"
kind = "lines"
y = "cold.requests_per_second"

[[finding]]
claim = "Loops do not wait"
source = "a test"
check = { kind = "value", figure = "loop_blocks", of = { servers = ["amped"] }, bounds = { at_most = 0 } }

[[finding]]
claim = "Nobody is that fast"
source = "a test"
check = { kind = "value", figure = "cold.requests_per_second", of = { servers = ["amped"] }, bounds = { at_least = 1e9 } }
"#;

/// Files that a disk with one arm brings into memory in ten seconds.
const SEEKING: &str = r#"
name = "seeking"
title = "A slow disk"
about = "For tests."
servers = ["amped"]
workload = { kind = "tree", files = 200, kilobytes = 2 }
load = { clients = 1, warm_up_seconds = 1, seconds = 0.5 }
machine = { seek_ms = 50, cold = true }
repeats = 1

[[figure]]
title = "Time"
kind = "bars"
y = "latency_p90_ms"
"#;

/// `FLASH_BIN`, or the release program beside the workspace's root.
fn flash() -> Option<PathBuf> {
    let built = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/flash"));
    env::var_os("FLASH_BIN").map(PathBuf::from).into_iter().chain([built]).find(|program| program.is_file())
}

/// Runs a plan with the servers that `flash` has.
fn run_all(text: &str, flash: &Path) -> (Plan, Ending, Data) {
    let plan = Plan::parse("of a test", text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let machine = flash_rig::Machine::take_with(&folder.path().join("journal")).unwrap();
    let work = folder.path().canonicalize().unwrap();
    let (servers, missing) = environment::servers(plan.servers(Extent::Full), Some(flash), false).unwrap();
    assert_eq!((servers.len(), missing.len()), (plan.servers(Extent::Full).count(), 0));
    let place = TestBed { machine: &machine, work: &work, traces: None, flash: Some(flash), seed: 7 };
    let mut rig = Rig::prepare(&plan, Extent::Full, place).unwrap();
    let new = Run {
        plan: plan.name.clone(),
        plan_text: text.to_owned(),
        extent: Extent::Full,
        seed: 7,
        began_unix: 0,
        machine: environment::machine(&work),
        servers,
        missing,
        notes: rig.notes(),
        commands: Vec::new(),
        reduced: Vec::new(),
    };
    let out = folder.path().join("out");
    let mut store = Store::new(&out, &plan.name);
    let (record, done) = run::open(&mut store, new, false).unwrap();
    let ending =
        run::run(&plan, &record, u32::MAX, done, &mut store, &mut rig, &mut Progress::new(Extent::Full))
            .unwrap();
    let data = Data::read(&out, &plan.name).unwrap().unwrap();
    (plan, ending, data)
}

#[test]
fn a_tiny_plan_from_its_text_to_its_findings() {
    let Some(flash) = flash() else {
        eprintln!("NOT TESTED: there is no flash (FLASH_BIN, or cargo build --release)");
        return;
    };
    let text = PLAN.replace(
        "\"no such flag\"",
        "{ name = \"no such flag\", server = \"sped\", flags = [\"--no-such-flag\"] }",
    );
    let (plan, ending, mut data) = run_all(&text, &flash);
    // Beside other tests the hot file's clients may have been late, which is not what this one is about.
    for one in &mut data.measurements {
        if let Outcome::Done(done) = &mut one.outcome {
            done.invalid = None;
        }
    }
    assert_eq!(ending, Ending::Complete { failed: 2 });
    assert_eq!(data.measurements.len(), 6);
    for one in &data.measurements {
        match &one.outcome {
            Outcome::Done(done) => {
                let figure = |name: &str| done.figures[name];
                assert_eq!(figure("errors"), 0.0, "{:?}", done.errors);
                assert!(figure("cold.requests_per_second") > 100.0, "{done:?}");
                // Asked for at a steady rate: whoever answers at all answers about so many.
                assert!((50.0..150.0).contains(&figure("hot.requests_per_second")), "{done:?}");
                assert!(figure("processor_us_per_request") > 1.0 && figure("memory_mb") > 0.5, "{done:?}");
                assert!(done.distributions.contains_key("ready_events"), "{done:?}");
            }
            Outcome::Failed(words) | Outcome::Skipped(words) => {
                assert!(one.server == "no such flag" && words.contains("--no-such-flag"), "{words}");
            }
        }
    }
    assert!(data.spread("nothing kept", &At::Value(4.0), "latency_p99_ms").is_some());
    let verdicts: Vec<_> =
        finding::judge(&plan, &data).iter().map(|(_, judgement)| judgement.verdict).collect();
    assert_eq!(verdicts, [Verdict::Holds, Verdict::DoesNotHold]);
}

#[test]
fn a_server_is_warm_before_its_disk_becomes_slow() {
    let Some(flash) = flash() else {
        eprintln!("NOT TESTED: there is no flash (FLASH_BIN, or cargo build --release)");
        return;
    };
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return;
    }
    let p90_ms = |text: &str| {
        let (_, ending, data) = run_all(text, &flash);
        assert_eq!(ending, Ending::Complete { failed: 0 });
        let Outcome::Done(done) = &data.measurements[0].outcome else { panic!("{:?}", data.measurements) };
        done.figures["latency_p90_ms"]
    };
    let warm = p90_ms(SEEKING);
    assert!(warm < 5.0, "{warm} ms: most files are in memory");
    let cold = p90_ms(&SEEKING.replace("warm_up_seconds = 1,", "warm_up_seconds = 0,"));
    assert!(cold > 25.0, "{cold} ms: most files are on the slow disk");
}
