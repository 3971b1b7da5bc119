//! One plan on the page: what was asked, what the paper found, what came out, and under what circumstances.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use flash_figure::{DESK_PX, PHONE_PX};
use maud::{Markup, PreEscaped, html};

use super::drawing::{Table, has_reference};
use crate::experiment::Experiment;
use crate::finding::Verdict;
use crate::plan::{Drawing, Extent};
use crate::record::{Missing, Outcome};

pub(super) fn section(experiment: &Experiment) -> Markup {
    let (plan, run) = (&experiment.plan, &experiment.data.run);
    html! {
        section id=(plan.name) {
            h2 { a.self href={ "#" (plan.name) } { (plan.title) } }
            @if run.extent == Extent::Quick {
                p.warn { "A quick run: short and few measurements, which show that everything works and no more." }
            }
            @if !run.reduced.is_empty() {
                p.warn { "A reduced run, by a user who is not root: " (run.reduced.join(", ")) "." }
            }
            (paragraphs(&plan.about))
            @if let Some(paper) = &plan.paper {
                div.paper-said {
                    p.source { (paper.source) }
                    dl {
                        dt { "Did" } dd { (paragraphs(&paper.did)) }
                        dt { "Found" } dd { (paragraphs(&paper.found)) }
                    }
                }
            }
            @if !plan.findings.is_empty() {
                h3 { "Findings" }
                ul.answers {
                    @for (finding, judgement) in experiment.findings() {
                        li {
                            (badge(judgement.verdict)) " "
                            span.claim { (finding.claim) } " "
                            span.measured { (judgement.measured) } " "
                            span.source { (finding.source) }
                        }
                    }
                }
            }
            @for drawing in &plan.figures { (figure(experiment, drawing)) }
            (missing(&run.missing, experiment))
            (circumstances(experiment))
        }
    }
}

/// The figure is laid out twice, and the page shows the one that there is room for.
fn figure(experiment: &Experiment, drawing: &Drawing) -> Markup {
    let figure = experiment.figure(drawing);
    let read_off = drawing.paper.iter().any(|paper| paper.read_off);
    html! {
        figure {
            figcaption { (figure.title) }
            @if !experiment.data.run.reduced.is_empty() {
                p.note { "Reduced: " (experiment.data.run.reduced.join(", ")) }
            }
            div.desk { (PreEscaped(figure.inline_svg(DESK_PX))) }
            div.phone { (PreEscaped(figure.inline_svg(PHONE_PX))) }
            @if has_reference(&figure) {
                p.note { "Muted: the paper's numbers" @if read_off { ", read off its curves" } "." }
            }
            (table(&experiment.table(drawing), &figure.title))
        }
    }
}

fn table(table: &Table, title: &str) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Numbers of: " (title) } {
            table.numbers {
                caption { (table.what) }
                @if table.columns.iter().any(|column| !column.is_empty()) {
                    thead { tr { td {} @for column in &table.columns { th scope="col" { (column) } } } }
                }
                tbody {
                    @for row in &table.rows {
                        tr.theirs[row.theirs] {
                            th scope="row" { (row.name) }
                            @for cell in &row.cells {
                                td { (cell.median) @if let Some(spread) = &cell.spread { small { (spread) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What the plan asks for and the machine does not have, and what went wrong.
fn missing(missing: &[Missing], experiment: &Experiment) -> Markup {
    let mut failed: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for one in &experiment.data.measurements {
        let why = match &one.outcome {
            Outcome::Failed(why) => Some(format!("failed: {why}")),
            Outcome::Skipped(why) => Some(format!("was skipped: {why}")),
            Outcome::Done(done) => done.invalid.map(|invalid| format!("gave no result: {invalid}")),
        };
        if let Some(why) = why {
            *failed.entry((&one.server, why)).or_default() += 1;
        }
    }
    let notes = &experiment.data.run.notes;
    html! {
        @if !missing.is_empty() || !notes.is_empty() || !failed.is_empty() {
            h3 { "What was missing" }
            ul {
                @for Missing { name, why } in missing { li { b { (name) } ": " (why) } }
                @for ((server, why), count) in &failed {
                    li { b { (server) } ": " (counted(*count, "measurement")) " " (why) }
                }
                @for note in notes { li { (note) } }
            }
        }
    }
}

fn circumstances(experiment: &Experiment) -> Markup {
    let run = &experiment.data.run;
    let machine = &run.machine;
    let began = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(run.began_unix));
    let rounds = counted(experiment.data.rounds() as usize, "round");
    let measurements = counted(experiment.data.measurements.len(), "measurement");
    let rows = [
        (
            "Machine",
            format!(
                "{}, {}, {} MB",
                machine.processor,
                counted(machine.processors as usize, "processor"),
                machine.memory_mb
            ),
        ),
        ("Kernel", machine.kernel.clone()),
        ("Disk", machine.disk.clone()),
        ("Lab", format!("{}, commit {}", machine.lab, machine.commit.as_deref().unwrap_or("unknown"))),
        ("Begun", format!("{began}; {measurements} in {rounds} ({} run), seed {}", run.extent, run.seed)),
    ];
    html! {
        h3 { "Circumstances" }
        dl.facts {
            @for (name, value) in rows { dt { (name) } dd { (value) } }
            dt { "Servers" }
            dd {
                ul.servers {
                    @for server in &run.servers {
                        li { b { (server.name) } " " (server.version.as_deref().unwrap_or("version unknown")) }
                    }
                }
            }
            @if !run.commands.is_empty() {
                dt { "Again" }
                dd { @for command in &run.commands { code.run { (command) } " " } }
            }
        }
    }
}

pub(super) fn badge(verdict: Verdict) -> Markup {
    let (class, sign) = match verdict {
        Verdict::Holds => ("holds", "✓"),
        Verdict::DoesNotHold => ("fails", "✗"),
        Verdict::SeemsToHold | Verdict::SeemsNotToHold => ("untold", "~"),
        Verdict::CannotTell => ("untold", "?"),
    };
    html! { span.badge.(class) { span aria-hidden="true" { (sign) } " " (verdict.to_string()) } }
}

pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Plain text; empty lines part paragraphs.
fn paragraphs(text: &str) -> Markup {
    html! { @for paragraph in text.split("\n\n").filter(|text| !text.trim().is_empty()) { p { (paragraph.trim()) } } }
}
