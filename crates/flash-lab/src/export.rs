//! What was measured, for statistics programs: tidy tables as CSV (RFC 4180). A row is a measurement, and nothing is averaged.
//!
//! A plan has one table of its figures, and one for each of its distributions. Columns are named as records name figures, so
//! that their units are in their names.

use std::collections::BTreeSet;

use flash_load::Invalid;

use crate::experiment::Experiment;
use crate::plan::{At, Plan};
use crate::record::{Figures, Measurement, Outcome};

/// A file of the export.
#[derive(Debug)]
pub struct Table {
    /// Its name, without a folder: `hot-cold.csv`, `hot-cold.hot.latency_ms.csv`.
    pub file_name: String,
    pub csv: String,
}

/// The plan's figures, and then each of its distributions.
pub fn tables(experiment: &Experiment) -> Vec<Table> {
    let plan = &experiment.plan.name;
    let figures = Table { file_name: format!("{plan}.csv"), csv: figures(experiment) };
    let distributions = names(experiment, |done| done.distributions.keys());
    let distributions = distributions
        .into_iter()
        .map(|name| Table { file_name: format!("{plan}.{name}.csv"), csv: distribution(experiment, name) });
    std::iter::once(figures).chain(distributions).collect()
}

/// A row for each measurement. A figure that it does not have is empty; one that failed has no figures, but says why.
fn figures(experiment: &Experiment) -> String {
    let figures = names(experiment, |done| done.figures.keys());
    let errors = names(experiment, |done| done.errors.keys());
    let mut head = identity(&experiment.plan);
    head.extend(["began_unix_seconds", "took_seconds", "failed", "invalid", "at_least"].map(str::to_owned));
    head.extend(figures.iter().map(|name| name.to_string()));
    head.extend(errors.iter().map(|kind| format!("errors_{kind}")));
    let rows = experiment.data.measurements.iter().map(|one| {
        let mut row = identify(experiment, one);
        row.extend([one.began_unix.to_string(), one.took_seconds.to_string()]);
        let (done, why) = match &one.outcome {
            Outcome::Done(done) => (Some(done), ""),
            Outcome::Failed(why) | Outcome::Skipped(why) => (None, &**why),
        };
        row.push(why.to_owned());
        row.push(done.and_then(|done| done.invalid).map_or("", Invalid::name).to_owned());
        row.push(done.map(|done| Vec::from_iter(done.at_least.clone()).join(" ")).unwrap_or_default());
        let of = |name: &&str| done.and_then(|done| done.figures.get(*name)).copied();
        row.extend(figures.iter().map(|name| of(name).map(number).unwrap_or_default()));
        // What no client met with is not recorded.
        let count = |kind: &&str| done.map(|done| done.errors.get(*kind).copied().unwrap_or(0).to_string());
        row.extend(errors.iter().map(|kind| count(kind).unwrap_or_default()));
        row
    });
    csv(head, rows)
}

/// A row for each value of each measurement, with the number of times that it occurred.
fn distribution(experiment: &Experiment, name: &str) -> String {
    let mut head = identity(&experiment.plan);
    head.extend([name.to_owned(), "count".to_owned()]);
    let rows = experiment.data.measurements.iter().flat_map(|one| {
        let steps = match &one.outcome {
            Outcome::Done(done) => done.distributions.get(name).map(Vec::as_slice).unwrap_or_default(),
            Outcome::Failed(_) | Outcome::Skipped(_) => &[],
        };
        steps.iter().map(move |(value, count)| {
            let mut row = identify(experiment, one);
            row.extend([number(*value), count.to_string()]);
            row
        })
    });
    csv(head, rows)
}

/// The columns that tell measurements apart.
fn identity(plan: &Plan) -> Vec<String> {
    let place = match &plan.sweep {
        Some(sweep) => Some(sweep.axis.column()),
        None => (!plan.cases.is_empty()).then_some("case"),
    };
    ["plan", "run", "reduced", "server"]
        .into_iter()
        .chain(place)
        .chain(["round"])
        .map(str::to_owned)
        .collect()
}

fn identify(experiment: &Experiment, one: &Measurement) -> Vec<String> {
    let place = (one.x != At::Only).then(|| one.x.to_string());
    let run = &experiment.data.run;
    let run = [run.plan.clone(), run.extent.to_string(), run.reduced.join(", "), one.server.clone()];
    run.into_iter().chain(place).chain([(one.repeat + 1).to_string()]).collect()
}

/// The names that any measurement has, each once.
fn names<'a, K: Iterator<Item = &'a String>>(
    experiment: &'a Experiment,
    of: impl Fn(&'a Figures) -> K,
) -> BTreeSet<&'a str> {
    let done = experiment.data.measurements.iter().filter_map(|one| match &one.outcome {
        Outcome::Done(done) => Some(done),
        Outcome::Failed(_) | Outcome::Skipped(_) => None,
    });
    done.flat_map(of).map(String::as_str).collect()
}

fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

fn csv(head: Vec<String>, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in std::iter::once(head).chain(rows) {
        writer.write_record(row).expect("a Vec takes rows of one length");
    }
    let bytes = writer.into_inner().expect("a Vec takes everything");
    String::from_utf8(bytes).expect("it is made of strings")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;
    use crate::fixtures;
    use crate::plan::Extent;

    #[test]
    fn a_row_is_a_measurement() {
        let plan = fixtures::plan("");
        let mut with_waits = fixtures::measurement("amped", 10.0, 1, 250.5);
        let Outcome::Done(done) = &mut with_waits.outcome else { panic!("it is done") };
        done.figures.insert("latency_p99_ms".into(), f64::NAN);
        done.errors.insert("timeout".into(), 3);
        done.invalid = Some(Invalid::Full);
        done.at_least = ["latency_p99_ms", "latency_p999_ms"].map(str::to_owned).into();
        done.distributions.insert("hot.latency_ms".into(), vec![(0.5, 7), (1.5, 1)]);
        let mut failed = fixtures::measurement("1999", 1.0, 0, 0.0);
        failed.outcome = Outcome::Failed("it said \"no\", and left".into());
        let measurements = vec![fixtures::measurement("amped", 1.0, 0, 100.0), with_waits, failed];
        let run = fixtures::run(&plan, Extent::Full);
        let tables = tables(&Experiment { plan, data: Data { run, measurements } });
        assert_eq!(
            tables[0].csv,
            "plan,run,reduced,server,clients,round,began_unix_seconds,took_seconds,failed,invalid,at_least,latency_p99_ms,requests_per_second,\
             errors_timeout\n\
             made-up,full,,amped,1,1,0,1,,,,,100,0\n\
             made-up,full,,amped,10,2,0,1,,full,latency_p999_ms latency_p99_ms,,250.5,3\n\
             made-up,full,,1999,1,1,0,1,\"it said \"\"no\"\", and left\",,,,,\n"
        );
        assert_eq!(
            tables[1].csv,
            "plan,run,reduced,server,clients,round,hot.latency_ms,count\n\
             made-up,full,,amped,10,2,0.5,7\nmade-up,full,,amped,10,2,1.5,1\n"
        );
        let file_names: Vec<&str> = tables.iter().map(|table| &*table.file_name).collect();
        assert_eq!(file_names, ["made-up.csv", "made-up.hot.latency_ms.csv"]);
    }

    #[test]
    fn an_axis_is_called_as_plans_call_it() {
        let plan = fixtures::plan("");
        let mut sweep = plan.sweep.expect("it has one");
        for name in [
            "file-kilobytes",
            "data-set-megabytes",
            "clients",
            "idle-connections",
            "load-level",
            "device-milliseconds",
            "helpers",
            "loops",
            "processes",
        ] {
            sweep.axis = serde_json::from_value(name.into()).expect("an axis");
            assert_eq!(sweep.axis.column(), name.replace('-', "_"));
        }
    }
}
