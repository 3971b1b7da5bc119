//! `flash lab list` and `flash lab show`.

use std::fmt::Write;

use anyhow::Result;
use flash_cli::print;
use flash_lab::plan::{self, At, Extent, Plan, ServerEntry};
use flash_rig::ServerSpec;
use indicatif::HumanDuration;

pub(crate) fn list() -> Result<()> {
    let mut text = String::new();
    for plan in plan::built_in() {
        let parsed = Plan::parse(plan.name, plan.text)?;
        writeln!(text, "{:20} {}", plan.name, parsed.title)?;
    }
    Ok(print(text)?)
}

pub(crate) fn show(name: &str) -> Result<()> {
    let (plan, _) = plan::find(name)?;
    let mut text = String::new();
    writeln!(text, "{}: {}\n\n{}\n", plan.name, plan.title, plan.about.trim())?;
    if let Some(paper) = &plan.paper {
        let (did, found) = (paper.did.trim(), paper.found.trim());
        writeln!(text, "{}\n  did    {did}\n  found  {found}\n", paper.source)?;
    }
    writeln!(text, "servers")?;
    for entry in &plan.servers {
        writeln!(text, "  {:16} {}", entry.name(), state(entry))?;
    }
    writeln!(text, "\nmachine: {}", machine(&plan))?;
    for extent in [Extent::Quick, Extent::Full] {
        let (places, servers) = (plan.places(extent), plan.servers(extent).count());
        let count = places.len() * servers * plan.repeats(extent) as usize;
        let time = std::time::Duration::from_secs_f64(plan.cell_seconds(extent) * count as f64);
        let words: Vec<_> = places.iter().filter(|at| **at != At::Only).map(At::to_string).collect();
        let load = plan.load(extent);
        writeln!(
            text,
            "{extent}: {count} measurements of {} s, about {}; {} clients{}",
            load.seconds,
            HumanDuration(time),
            load.clients,
            if words.is_empty() {
                String::new()
            } else {
                format!("; {}: {}", plan.x_label(), words.join(", "))
            }
        )?;
    }
    writeln!(text, "\nfindings")?;
    for finding in &plan.findings {
        writeln!(text, "  {} ({})", finding.claim, finding.source)?;
    }
    Ok(print(text)?)
}

/// Whether the server is there, and its version.
fn state(entry: &ServerEntry) -> String {
    let (base, flags) = entry.base();
    let found = base.parse::<ServerSpec>().and_then(|spec| {
        let program = spec.find()?;
        spec.variant.program.version(&program)
    });
    let found = found.unwrap_or_else(|error| format!("MISSING: {error:#}"));
    if flags.is_empty() { found } else { format!("{base} {} ({found})", flags.join(" ")) }
}

fn machine(plan: &Plan) -> String {
    let needs = &plan.machine;
    let words = [
        needs.memory_mb.map(|mb| format!("{mb} MB of memory")),
        needs.disk_reads_per_second.map(|reads| format!("{reads} disk reads a second")),
        needs.read_ahead_kb.map(|kb| format!("{kb} KB read ahead")),
        needs.seek_ms.map(|ms| format!("seeks of {ms} ms")),
        needs.arm.as_ref().map(|arm| format!("a disk with an arm ({arm})")),
        needs.cold.then(|| "caches emptied before each measurement".to_owned()),
    ];
    let words: Vec<_> = words.into_iter().flatten().collect();
    if words.is_empty() {
        "as it is".into()
    } else {
        words.join(", ") + " (without root: reduced, or not at all)"
    }
}
