//! Files, settings, and what is said about bad ones.

use super::*;
use crate::workload::{PaperTrace, Truncated};

fn refused(text: &str) -> String {
    Draft::read("run.toml", text).unwrap_err().to_string()
}

fn parsed(settings: &[&str]) -> Vec<Setting> {
    settings.iter().map(|setting| Setting::parse(setting).unwrap()).collect()
}

fn set(settings: &[&str]) -> Result<Scenario, Failure> {
    Draft::default().with(&parsed(settings))
}

#[test]
fn settings_lie_on_top_of_a_file() {
    let text =
        "architecture = 'mp'\n[machine]\nprocessors = 4\nmemory_mb = 2000\n[workload]\ntrace = 'nasa'\n";
    let draft = Draft::read("run.toml", text).unwrap();
    let scenario = draft.with(&parsed(&["machine.processors=8", "architecture=pipelined"])).unwrap();
    assert_eq!(scenario.architecture, Architecture::Pipelined);
    assert_eq!((scenario.machine.processors, scenario.machine.memory_mb), (8, 2000.0));
    assert_eq!(scenario.workload, Source::Trace(PaperTrace::named("nasa").unwrap()));
    assert_eq!(scenario.parameters().machine, scenario.machine);
}

#[test]
fn values_are_toml_or_text() {
    let disks = "machine.disks=[{ access_ms = 1.5, transfer_mbit_s = 100.0 }]";
    let scenario = set(&[disks, "workload.trace=uc-berkeley", "server.locks=\"none\""]).unwrap();
    assert_eq!(scenario.machine.disks[0].access_ms, 1.5);
    assert_eq!(scenario.workload, Source::Trace(PaperTrace::named("uc-berkeley").unwrap()));
    let replaced = set(&[
        "workload.trace=nasa",
        "workload.truncated.trace=clarknet",
        "workload.truncated.data_set_mb=30",
    ]);
    let clarknet = PaperTrace::named("clarknet").unwrap();
    assert_eq!(
        replaced.unwrap().workload,
        Source::Truncated(Truncated { trace: clarknet, data_set_mb: 30.0 })
    );
}

#[test]
fn what_a_file_gets_wrong_is_named_with_its_line() {
    let said = refused("architecture = 'mt'\n[machine]\nmemory_mb = -5\n");
    assert!(said.starts_with("run.toml, line 3: 'memory_mb = -5': "), "{said}");
    assert!(said.contains("expected a number above 0"), "{said}");
    let said = refused("[machine]\nmemory_gb = 5\n");
    assert!(said.contains("line 2") && said.contains("did you mean 'machine.memory_mb'?"), "{said}");
    let said = refused("architecture = \"apache\"\n");
    assert!(said.contains("line 1") && said.contains("`pipelined`"), "{said}");
    let said = refused("[machine\n");
    assert!(said.starts_with("run.toml, line 1: "), "{said}");
    for said in [refused("[run]\nclients = 0"), refused("[workload]\ntrace = 1"), refused("x")] {
        assert!(!said.contains('\n'), "{said:?}");
    }
}

#[test]
fn what_a_setting_gets_wrong_is_named() {
    let said = set(&["machine.processors=none"]).unwrap_err().to_string();
    assert!(said.starts_with("machine.processors=none: "), "{said}");
    let said = set(&["machine.processors=0"]).unwrap_err().to_string();
    assert!(said.contains("1 or more"), "{said}");
    let said =
        set(&["run.clients=5", "run.clients=-5", "workload.truncated.trace=nasa"]).unwrap_err().to_string();
    assert!(said.starts_with("run.clients=-5: "), "{said}");
    assert!(set(&["run.seed=1", "run.seed.x=1"]).is_err());
    assert!(set(&["machines.processors=1"]).is_err());
    for text in ["", "=", "a=", "=1", "a..b=1", ".a=1", "word"] {
        assert!(Setting::parse(text).is_err(), "{text}");
    }
}
