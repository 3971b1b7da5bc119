//! Plans from their files, and what is wrong with one that makes no sense.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::at::{At, Extent};
use super::check::{Check, Finding, Term};
use super::contents::{Axis, Plan};
use super::drawing::Kind;
use super::workload::Workload;
use crate::record;

/// A plan that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(BuiltIn { name: $name, text: include_str!(concat!("../../plans/", $name, ".toml")) }),*]
    };
}

/// All of them, in the order in which they are best read.
pub fn built_in() -> &'static [BuiltIn] {
    built_in![
        "flash-fig6-7",
        "flash-fig8",
        "flash-fig9-10",
        "flash-fig11",
        "flash-fig12",
        "many-connections",
        "debox-findings",
        "newflash-ladder",
        "ready-events",
        "load-levels",
        "service-inversion",
        "data-set-size",
        "burstiness",
        "flashpache",
        "flashpache-load-levels",
        "flashpache-inversion",
        "flashpache-data-set-size",
        "flashpache-burstiness",
        "hot-cold",
        "hot-cold-h2",
        "memory-short",
        "many-servers",
        "metadata",
        "device-class",
        "helpers",
        "offload",
        "system-calls",
        "memory",
        "scaling",
        "cgi-ladder",
        "spawn-cost",
        "persistent",
        "specweb99-like",
    ]
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("there is no plan '{0}' (see flash lab list; the path of a file of your own ends in .toml)")]
    Unknown(String),
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("plan {name}, line {line}: {what}")]
    Syntax { name: String, line: usize, what: String },
    #[error(
        "without root nothing is left of the plan {name}: {why}; run it as root (sudo flash lab run {name})"
    )]
    NeedsRoot { name: String, why: &'static str },
    #[error("plan {name}: {what}")]
    Senseless { name: String, what: String },
}

/// The plan of this name or path, with its text.
pub fn find(name: &str) -> Result<(Plan, String), PlanError> {
    let text = match built_in().iter().find(|plan| plan.name == name) {
        Some(plan) => plan.text.to_owned(),
        None if name.ends_with(".toml") => {
            let path = Path::new(name);
            fs::read_to_string(path).map_err(|source| PlanError::Io { path: path.to_owned(), source })?
        }
        None => return Err(PlanError::Unknown(name.to_owned())),
    };
    Ok((Plan::parse(name, &text)?, text))
}

impl Plan {
    /// Reads a plan and sees whether its parts fit together. `name` is for the error.
    pub fn parse(name: &str, text: &str) -> Result<Plan, PlanError> {
        let plan: Plan = toml::from_str(text).map_err(|error| PlanError::Syntax {
            name: name.to_owned(),
            line: 1 + text[..error.span().map_or(0, |span| span.start)].matches('\n').count(),
            what: error.message().split_whitespace().collect::<Vec<_>>().join(" "),
        })?;
        match plan.nonsense() {
            None => Ok(plan),
            Some(what) => Err(PlanError::Senseless { name: name.to_owned(), what }),
        }
    }

    /// What does not fit, in a sentence.
    fn nonsense(&self) -> Option<String> {
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if self.name.is_empty() || !self.name.bytes().all(word) {
            return Some(format!("name = '{}': expected lower-case letters, digits and '-'", self.name));
        }
        if self.workload.is_none() == self.cases.is_empty() {
            return Some("expected either [workload] or [[case]]s".into());
        }
        if self.sweep.is_some() && !self.cases.is_empty() {
            return Some("[[case]]s are the x axis: there can be no [sweep] beside them".into());
        }
        if self.servers.is_empty() || self.repeats == 0 {
            return Some("expected at least one server and one repeat".into());
        }
        self.load_nonsense()
            .or_else(|| self.sweep_nonsense())
            .or_else(|| {
                let known = |name: &String| self.server_known(name);
                self.quick
                    .servers
                    .iter()
                    .find(|name| !known(name))
                    .map(|name| format!("[quick] servers: '{name}' is none of the plan's servers"))
            })
            .or_else(|| {
                let mut without = self.cases.iter().flat_map(|case| &case.without);
                let stranger = without.find(|name| !self.server_known(name));
                stranger.map(|name| format!("without: '{name}' is none of the plan's servers"))
            })
            .or_else(|| {
                let names: Vec<_> = self.servers.iter().map(|entry| entry.name()).collect();
                let twice = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name));
                twice.map(|(_, name)| format!("the server '{name}' is named twice"))
            })
            .or_else(|| {
                self.figures.iter().find_map(|figure| {
                    let unknown = figure.y_label.is_none() && record::describe(&figure.y).is_none();
                    let at = figure.at.iter().find(|at| !self.place_known(at));
                    let mut paper =
                        figure.paper.iter().flat_map(|series| series.server.iter().chain(series.bars.keys()));
                    let stranger = paper.find(|name| !self.server_known(name));
                    let lines = figure.kind == Kind::Lines && self.sweep.is_none();
                    let what = match (unknown, at, stranger, lines) {
                        (true, ..) => format!("y = '{}' is no figure that is measured", figure.y),
                        (_, Some(at), ..) => format!("at = {at} is no place of the plan"),
                        (_, _, Some(name), _) => format!("'{name}' is none of the plan's servers"),
                        (.., true) => "lines need a [sweep]".into(),
                        _ => return None,
                    };
                    Some(format!("figure '{}': {what}", figure.title))
                })
            })
            .or_else(|| {
                self.findings.iter().find_map(|finding| {
                    self.finding_nonsense(finding).map(|what| format!("finding '{}': {what}", finding.claim))
                })
            })
            .or_else(|| self.unmeasurable())
    }

    fn load_nonsense(&self) -> Option<String> {
        for load in [self.load(Extent::Full), self.load(Extent::Quick)] {
            let time = |seconds: f64| (0.0..=86_400.0).contains(&seconds);
            if load.clients == 0 || load.seconds <= 0.0 || !time(load.seconds) || !time(load.warm_up_seconds)
            {
                return Some("[load]: expected clients, and seconds between 0 and a day".into());
            }
        }
        None
    }

    fn sweep_nonsense(&self) -> Option<String> {
        let Some(sweep) = &self.sweep else {
            return (!self.quick.values.is_empty()).then(|| "[quick] values without a [sweep]".into());
        };
        if sweep.values.is_empty() || !sweep.values.iter().all(|x| x.is_finite() && *x >= 0.0) {
            return Some("[sweep] values: expected numbers that are not negative".into());
        }
        let ascending = sweep.values.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending {
            return Some("[sweep] values: expected ascending numbers".into());
        }
        if let Some(stranger) = self.quick.values.iter().find(|x| !sweep.values.contains(x)) {
            return Some(format!("[quick] values: {stranger} is none of the sweep's"));
        }
        let fits = match sweep.axis {
            Axis::FileKilobytes => matches!(self.workload, Some(Workload::File { .. })),
            Axis::DataSetMegabytes => {
                matches!(
                    self.workload,
                    Some(Workload::Log { .. } | Workload::Synthetic { .. } | Workload::Specweb { .. })
                )
            }
            // Levels are parts of infinite demand, which is level 1.
            Axis::LoadLevel => {
                let last = |values: &[f64]| values.last().is_none_or(|last| *last == 1.0);
                last(&sweep.values) && last(&self.quick.values)
            }
            _ => true,
        };
        (!fits)
            .then(|| format!("[sweep]: '{}' does not fit this workload or these values", sweep.axis.label()))
    }

    fn finding_nonsense(&self, finding: &Finding) -> Option<String> {
        let (figures, terms, places, servers, bounds): (_, Vec<&Term>, Vec<&At>, Vec<&String>, _) =
            match &finding.check {
                Check::Ratio { figure, of, to, at, bounds } => {
                    (figure, vec![of, to], at.iter().collect(), vec![], Some(bounds))
                }
                Check::Value { figure, of, at, bounds } => {
                    (figure, vec![of], at.iter().collect(), vec![], Some(bounds))
                }
                Check::Rank { figure, at, order } => {
                    (figure, vec![], at.iter().collect(), order.iter().collect(), None)
                }
                Check::Change { figure, server, bounds, .. } => {
                    (figure, vec![], vec![], vec![server], Some(bounds))
                }
                Check::Steady { figure, server, .. } => (figure, vec![], vec![], vec![server], None),
                Check::Crossing { figure, of, to, bounds } => {
                    (figure, vec![of, to], vec![], vec![], Some(bounds))
                }
            };
        let mut names = servers.into_iter().chain(terms.iter().flat_map(|term| &term.servers));
        if let Some(stranger) = names.find(|name| !self.server_known(name)) {
            return Some(format!("'{stranger}' is none of the plan's servers"));
        }
        let mut figures = terms.iter().filter_map(|term| term.figure.as_ref()).chain([figures]);
        if let Some(stranger) = figures.find(|name| record::describe(name).is_none()) {
            return Some(format!("'{stranger}' is no figure that is measured"));
        }
        let mut places = places.into_iter().chain(terms.iter().filter_map(|term| term.at.as_ref()));
        if let Some(stranger) = places.find(|at| !self.place_known(at)) {
            return Some(format!("{stranger} is no place of the plan"));
        }
        let empty = terms.iter().any(|term| term.servers.is_empty());
        let boundless = bounds.is_some_and(|bounds| bounds.at_least.is_none() && bounds.at_most.is_none());
        (empty || boundless).then(|| "expected servers on each side, and at_least or at_most".into())
    }

    fn server_known(&self, name: &str) -> bool {
        self.servers.iter().any(|entry| entry.name() == name)
    }

    fn place_known(&self, at: &At) -> bool {
        self.places(Extent::Full).contains(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_that_comes_along_makes_sense() {
        for plan in built_in() {
            let parsed = Plan::parse(plan.name, plan.text).unwrap();
            assert_eq!(parsed.name, plan.name);
            assert!(!parsed.figures.is_empty() && !parsed.findings.is_empty(), "{}", plan.name);
        }
        let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/plans")).unwrap();
        assert_eq!(files.count(), built_in().len(), "a plan lies in the folder and is not in the list");
    }
}
