//! `flash sim sweep` runs every combination of several settings. Each run writes a file, and a run whose file exists is
//! skipped. So a sweep can be stopped and continued. A scheduler can run its runs too, each as a command of its own.

use std::fs;
use std::path::{Path, PathBuf};

use flash_sim::Outcome;

use crate::flags;
use crate::output;
use crate::run::Record;
use crate::runner::Runner;
use crate::scenario::{Scenario, Setting};
use flash_cli::{Failure, print};

/// One combination.
struct Point {
    /// The settings that vary, in the order of the command line.
    varied: Vec<Setting>,
    /// Those and the others.
    settings: Vec<Setting>,
    scenario: Scenario,
    file: PathBuf,
}

pub(crate) fn run(flags: &flags::Sweep) -> Result<(), Failure> {
    let out = output::folder(&flags.out)?;
    let points = points(flags, &out)?;
    let missing: Vec<&Point> = points.iter().filter(|point| point.kept().is_none()).collect();
    if flags.commands {
        return print(missing.iter().map(|point| command(point, flags) + "\n").collect::<String>());
    }
    let scenarios: Vec<Scenario> = missing.iter().map(|point| point.scenario.clone()).collect();
    Runner::new(flags.jobs.jobs)?.run_all("sweep", &scenarios, |index, outcome| {
        output::write(&missing[index].file, &Record::new(scenarios[index].clone(), outcome).json())
    })?;
    output::write(&out.join("results.csv"), &csv(&points)?)?;
    let (all, new) = (points.len(), missing.len());
    print(format!("{all} runs, {new} of them new: {}\n", out.join("results.csv").display()))
}

fn points(flags: &flags::Sweep, out: &Path) -> Result<Vec<Point>, Failure> {
    const POINTS_MAX: usize = 1_000_000;
    let draft = flags.scenario.draft()?;
    let mut combinations: Vec<(Vec<Setting>, Vec<Setting>)> = vec![Default::default()];
    for setting in &flags.scenario.settings {
        let values = values(setting);
        if combinations.len().saturating_mul(values.len()) > POINTS_MAX {
            return Err(Failure::Usage(format!("{setting}: that makes more than {POINTS_MAX} runs")));
        }
        let with = |(varied, settings): &(Vec<Setting>, Vec<Setting>), value: &Setting| {
            let (mut varied, mut settings) = (varied.clone(), settings.clone());
            if values.len() > 1 {
                varied.push(value.clone());
            }
            settings.push(value.clone());
            (varied, settings)
        };
        combinations =
            combinations.iter().flat_map(|one| values.iter().map(move |value| with(one, value))).collect();
    }
    combinations
        .into_iter()
        .map(|(varied, settings)| {
            let scenario = draft.with(&settings)?;
            let file = out.join(file_name(&varied));
            Ok(Point { varied, settings, scenario, file })
        })
        .collect()
}

/// The values of `KEY=A,B,C` and `KEY=1..16`. An array or a table of TOML is one value, commas and all.
fn values(setting: &Setting) -> Vec<Setting> {
    let one = |text: &str| Setting { key: setting.key.clone(), text: text.to_owned() };
    if setting.text.starts_with(['[', '{', '"', '\'']) {
        return vec![setting.clone()];
    }
    let several = setting.text.split(',').flat_map(|text| {
        let range = text.split_once("..").and_then(|(from, to)| {
            Some((from.parse::<u64>().ok()?, to.trim_start_matches('=').parse::<u64>().ok()?))
        });
        match range {
            Some((from, to)) => (from..=to).map(|number| one(&number.to_string())).collect(),
            None => vec![one(text)],
        }
    });
    several.collect()
}

/// What varies, as the name of a file.
fn file_name(varied: &[Setting]) -> String {
    if varied.is_empty() {
        return "run.json".to_owned();
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || "=.-_".contains(c) { c } else { '_' };
    let words: Vec<String> =
        varied.iter().map(|setting| setting.to_string().chars().map(plain).collect()).collect();
    words.join(",") + ".json"
}

impl Point {
    /// The results that an earlier run left, if it was this very run.
    fn kept(&self) -> Option<Outcome> {
        let record: Record = serde_json::from_str(&fs::read_to_string(&self.file).ok()?).ok()?;
        (record.scenario == self.scenario).then_some(record.outcome)
    }
}

/// What runs this point alone.
fn command(point: &Point, flags: &flags::Sweep) -> String {
    let mut words = vec!["flash".to_owned(), "sim".to_owned(), "run".to_owned()];
    if let Some(file) = &flags.scenario.file {
        words.extend(["--file".to_owned(), file.display().to_string()]);
    }
    words.extend(point.settings.iter().map(Setting::to_string));
    words.extend(["--out".to_owned(), point.file.display().to_string()]);
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word that a shell takes for itself.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=.,-_/".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn csv(points: &[Point]) -> Result<String, Failure> {
    type Quantity = fn(&Outcome) -> f64;
    const QUANTITIES: [(&str, Quantity); 12] = [
        ("requests_per_s", |outcome| outcome.requests_per_s),
        ("mbit_per_s", |outcome| outcome.mbit_per_s),
        ("latency_mean_ms", |outcome| outcome.latency.mean_ms),
        ("latency_p50_ms", |outcome| outcome.latency.p50_ms),
        ("latency_p99_ms", |outcome| outcome.latency.p99_ms),
        ("service_inversion", |outcome| outcome.service_inversion),
        ("data_hit_rate", |outcome| outcome.data_hit_rate),
        ("path_hit_rate", |outcome| outcome.path_hit_rate),
        ("processors_busy", |outcome| outcome.processors.busy),
        ("disk_busy_most", |outcome| outcome.disks.iter().map(|disk| disk.busy).fold(0.0, f64::max)),
        ("link_busy", |outcome| outcome.link.map_or(0.0, |link| link.busy)),
        ("lock_wait_us", |outcome| outcome.locks.iter().map(|lock| lock.wait_mean_us).sum()),
    ];
    let keys = points.first().map(|point| point.varied.iter().map(|setting| setting.key.clone()));
    let names = QUANTITIES.iter().map(|(name, _)| name.to_string());
    let mut text = keys.into_iter().flatten().chain(names).collect::<Vec<_>>().join(",") + "\n";
    for point in points {
        let outcome = point
            .kept()
            .ok_or_else(|| Failure::Run(format!("{}: it was here a moment ago", point.file.display())))?;
        let settings = point.varied.iter().map(|setting| setting.text.clone());
        let numbers = QUANTITIES.iter().map(|(_, quantity)| quantity(&outcome).to_string());
        text += &(settings.chain(numbers).collect::<Vec<_>>().join(",") + "\n");
    }
    Ok(text)
}
