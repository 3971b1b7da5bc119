//! The panels against the paper's axes.

use super::*;
use crate::runner::Runner;

/// Where the paper's y axes end, in requests/s; what it shows ends above a third of that.
const AXES: [(&str, f64); 12] = [
    ("figure6a", 3000.0),
    ("figure6b", 1400.0),
    ("figure6c", 15_000.0),
    ("figure6d", 40_000.0),
    ("figure7a", 700.0),
    ("figure7b", 2000.0),
    ("figure7c", 3000.0),
    ("figure7d", 3000.0),
    ("figure8a", 1800.0),
    ("figure8b", 1800.0),
    ("figure8c", 1800.0),
    ("figure8d", 1800.0),
];

#[test]
fn throughput_is_of_the_order_of_the_paper_s_axes() {
    let assumed = ["run.measured_requests=20000", "run.settling_requests=40000"];
    let assumed = assumed.map(|setting| Setting::parse(setting).unwrap());
    let base = base(Effort::Quick, &assumed).unwrap();
    let runner = Runner::new(None).unwrap();
    for (name, axis) in AXES {
        let panel = PANELS.iter().find(|panel| panel.name == name).unwrap();
        let scenario = panel.scenario(&base, Architecture::Pipelined, 16);
        let throughput = runner.run(&scenario, None).unwrap().requests_per_s;
        assert!(throughput > axis / 3.0 && throughput < axis * 3.0, "{name}: {throughput}, axis {axis}");
    }
}

#[test]
fn a_panel_is_all_architectures_at_all_points_with_all_seeds() {
    let base = base(Effort::Full, &[]).unwrap();
    for panel in &PANELS {
        let cells = panel.cells(Effort::Full, &base);
        let expected = match panel.varies {
            Varies::Processors { .. } => 5 * 16 * 3,
            Varies::DataSet => 4 * 14 * 3,
            Varies::Clients => 4 * 13 * 3,
        };
        assert_eq!(cells.len(), expected, "{}", panel.name);
        let mut scenarios: Vec<String> = cells.iter().map(|cell| format!("{:?}", cell.scenario)).collect();
        scenarios.sort();
        scenarios.dedup();
        assert_eq!(scenarios.len(), expected, "{}: no run is another's", panel.name);
    }
}

#[test]
fn what_is_assumed_reaches_the_runs_and_what_a_panel_says_stays() {
    let assumed = ["server.locks=one", "machine.processors=3", "run.clients=7"];
    let assumed = assumed.map(|setting| Setting::parse(setting).unwrap());
    let base = base(Effort::Quick, &assumed).unwrap();
    let scenario = PANELS[2].scenario(&base, Architecture::Mt, 16);
    assert_eq!(scenario.server.locks, flash_sim::parameters::Locks::One);
    assert_eq!((scenario.machine.processors, scenario.run.clients), (16, 1000));
    assert_eq!(scenario.machine.disks[0].block_kb, Some(BLOCK_KB));
}
