//! The alerts and the dashboard. Prometheus takes them, and each alert fires for what it is meant for. Every metric stands on the
//! page of metrics.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flash_tests::need;
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../docs/metrics.md");

/// Metrics that Prometheus itself makes.
const OF_PROMETHEUS: [&str; 1] = ["up"];

/// What OpenMetrics adds to the name of a counter, a histogram or a summary.
const SUFFIXES: [&str; 5] = ["", "_total", "_bucket", "_sum", "_count"];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").canonicalize().unwrap()
}

fn promtool(words: &[&str], folder: &Path) -> Result<(), String> {
    let mut command = Command::new(need("promtool", "prometheus"));
    let output = command.args(words).current_dir(folder).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
}

/// The names of the page's tables.
fn listed() -> BTreeSet<&'static str> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(name, _)| name).collect()
}

/// The metrics that an expression names, by what begins like one.
fn metrics(expression: &str) -> Vec<&str> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words
        .filter(|word| ["flash_", "http_server_", "process_"].iter().any(|first| word.starts_with(first)))
        .collect()
}

/// Metrics of these expressions that the page does not list.
fn unknown(expressions: &[String]) -> Vec<String> {
    let listed = listed();
    let is_listed = |name: &str| {
        OF_PROMETHEUS.contains(&name)
            || SUFFIXES
                .iter()
                .any(|suffix| name.strip_suffix(suffix).is_some_and(|base| listed.contains(base)))
    };
    let all = expressions.iter().flat_map(|expression| metrics(expression));
    all.filter(|name| !is_listed(name)).map(str::to_owned).collect()
}

#[test]
fn alerts_fire_for_what_they_are_meant_for() {
    let folder = deploy().join("prometheus");
    promtool(&["check", "rules", "flash.rules.yml"], &folder).unwrap();
    promtool(&["test", "rules", "flash.test.yml"], &folder).unwrap();
    let rules = fs::read_to_string(folder.join("flash.rules.yml")).unwrap();
    let tests = fs::read_to_string(folder.join("flash.test.yml")).unwrap();
    let names: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() >= 14);
    for name in names {
        assert!(tests.contains(&format!("alertname=\"{name}\"")), "no test has {name} fire");
    }
    assert_eq!(unknown(&[rules]), Vec::<String>::new());
}

/// Those of every panel, with Grafana's variables filled in.
fn dashboard() -> Vec<String> {
    let text = fs::read_to_string(deploy().join("grafana/flash.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let fill = |text: &str| text.replace("$__rate_interval", "1m").replace("$instance", ".*");
    let mut all: Vec<_> = targets.map(|target| fill(target["expr"].as_str().unwrap())).collect();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let queries = variables.iter().filter_map(|variable| variable["query"]["query"].as_str());
    all.extend(queries.map(|query| {
        let (metric, _) = query.strip_prefix("label_values(").unwrap().split_once(',').unwrap();
        metric.to_owned()
    }));
    all
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let expressions = dashboard();
    assert!(expressions.len() > 15);
    let rules: Vec<_> = expressions
        .iter()
        .enumerate()
        .map(|(n, expression)| json!({ "record": format!("panel:{n}"), "expr": expression }))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    // JSON is YAML, too.
    let file = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    fs::write(folder.path().join("rules.yml"), file.to_string()).unwrap();
    promtool(&["check", "rules", "rules.yml"], folder.path()).unwrap();
    assert_eq!(unknown(&expressions), Vec::<String>::new());
}

#[test]
fn the_page_of_metrics_is_understood() {
    assert!(listed().contains("flash_device_healthy") && listed().len() > 40);
    assert_eq!(unknown(&["sum(rate(flash_loop_blokcs_total[5m])) / up".into()]), ["flash_loop_blokcs_total"]);
}
