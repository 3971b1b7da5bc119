//! The page as a whole: contents, all findings at a glance, and a section for each plan.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::section::{self, badge, counted};
use crate::experiment::Experiment;
use crate::finding::Verdict;

const STYLE: &str = include_str!("style.css");

pub(super) fn page(experiments: &[Experiment]) -> Markup {
    let verdicts: Vec<Verdict> =
        experiments.iter().flat_map(Experiment::findings).map(|(_, judgement)| judgement.verdict).collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Flash lab: report" }
                style { (PreEscaped(STYLE)) (PreEscaped(flash_figure::STYLE)) }
            }
            body {
                header {
                    h1 { "Flash lab" }
                    p.lead {
                        (counted(experiments.len(), "experiment")) ", each with what others found and what came out here."
                    }
                    (tally(&verdicts))
                    (contents(experiments))
                }
                main {
                    (summary(experiments))
                    @for experiment in experiments { (section::section(experiment)) }
                }
                footer {
                    p { "Medians of all repeats, with the lowest and the highest. A finding that repeats disagree about is not told." }
                }
            }
        }
    }
}

fn tally(verdicts: &[Verdict]) -> Markup {
    let count = |verdict: Verdict| verdicts.iter().filter(|one| **one == verdict).count();
    html! {
        ul.tally {
            @for verdict in Verdict::ALL.into_iter().filter(|verdict| count(*verdict) > 0) {
                li { b { (count(verdict)) } " " (badge(verdict)) }
            }
        }
    }
}

fn contents(experiments: &[Experiment]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ol {
                @for Experiment { plan, .. } in experiments {
                    li { a href={ "#" (plan.name) } { (plan.title) } " " code { (plan.name) } }
                }
            }
        }
    }
}

fn summary(experiments: &[Experiment]) -> Markup {
    html! {
        section #findings {
            h2 { "What holds" }
            table.findings {
                thead { tr { th { "Claim" } th { "Here" } th { "Measured" } th { "Experiment" } } }
                tbody {
                    @for experiment in experiments {
                        @for (finding, judgement) in experiment.findings() {
                            tr {
                                td.claim { (finding.claim) " " span.source { (finding.source) } }
                                td { (badge(judgement.verdict)) }
                                td.measured { (judgement.measured) }
                                td { a href={ "#" (experiment.plan.name) } { code { (experiment.plan.name) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}
