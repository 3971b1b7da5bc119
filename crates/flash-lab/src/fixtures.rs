//! Plans and measurements for tests, made up.

use crate::plan::{At, Extent, Plan};
use crate::record::{Figures, Machine, Measured, Measurement, Outcome, Run};

/// Two servers at 1, 10 and 100 clients, three times; 1 and 100 in a quick run.
pub(crate) const PLAN: &str = r#"
name = "made-up"
title = "Made up"
about = "For tests."
servers = ["amped", { name = "1999", server = "sped", flags = ["--file-cache", "mapped"] }]
workload = { kind = "file", kilobytes = 1 }
load = { clients = 1, warm_up_seconds = 0, seconds = 1 }
sweep = { axis = "clients", values = [1, 10, 100] }
repeats = 3
quick = { values = [1, 100], repeats = 1 }

[[figure]]
title = "Rate"
kind = "lines"
y = "requests_per_second"
"#;

pub(crate) fn plan(more: &str) -> Plan {
    Plan::parse("made-up", &format!("{PLAN}{more}")).expect("a plan that makes sense")
}

pub(crate) fn run(plan: &Plan, extent: Extent) -> Run {
    let servers = plan.servers(extent).map(|entry| Measured { name: entry.name().into(), version: None });
    Run {
        plan: plan.name.clone(),
        plan_text: PLAN.into(),
        extent,
        seed: 1,
        began_unix: 0,
        machine: Machine::default(),
        servers: servers.collect(),
        missing: Vec::new(),
        notes: Vec::new(),
        commands: Vec::new(),
        reduced: Vec::new(),
    }
}

pub(crate) fn figures(rate: f64) -> Figures {
    Figures { figures: [("requests_per_second".to_owned(), rate)].into(), ..Figures::default() }
}

pub(crate) fn measurement(server: &str, x: f64, repeat: u32, rate: f64) -> Measurement {
    Measurement {
        server: server.into(),
        x: At::Value(x),
        repeat,
        turn: 0,
        began_unix: 0,
        took_seconds: 1.0,
        outcome: Outcome::Done(figures(rate)),
    }
}
