//! The text's form, and that the pages name each counter and each metric.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use flash_core::record::counters::{Count, CounterSet, Counts, LoopCount, ProgramCount, Row};

use super::writer::{families_of, kind_name};
use super::*;
use crate::admin::snapshot::{
    BlockCause, CertificateSnapshot, DURATION_BOUNDS_US, DeviceSnapshot, LoopSnapshot, ProgramSnapshot,
    ResponseClass, SiteSnapshot, Workers,
};

/// A server that has some of everything.
fn busy() -> Snapshot {
    let mut durations = vec![0; DURATION_BOUNDS_US.len() + 1];
    (durations[0], durations[2], durations[17]) = (5, 2, 1);
    let class = ResponseClass {
        status: "2xx".into(),
        count: 8,
        cut: 1,
        body_bytes: 900,
        duration_us: 12_000_350,
        durations,
    };
    Snapshot {
        version: "1.2.3".into(),
        open_connections: Some(3),
        sites: vec![SiteSnapshot { site: "a\"b\\c\n.example".into(), classes: vec![class] }],
        loops: vec![LoopSnapshot {
            name: "loop-0".into(),
            counts: Counts::new(|_| 1_500),
            ..Default::default()
        }],
        block_causes: vec![BlockCause { cause: "page-cache read".into(), sleeps: 2, sleep_us: 3 }],
        devices: vec![DeviceSnapshot {
            mount: "/srv".into(),
            kind: "files".into(),
            healthy: Some(true),
            helpers_max: 1,
            ..Default::default()
        }],
        programs: vec![ProgramSnapshot { route: "/app".into(), ..Default::default() }],
        certificates: vec![CertificateSnapshot::new("a.example".into(), [0, 1])],
        workers: Some(Workers { processes: 2, busy: 1, list: Vec::new() }),
        ..Snapshot::default()
    }
}

#[test]
fn a_histogram_adds_up() {
    let text = text(&busy());
    let of = |name: &str| {
        let lines = text.lines().filter(|line| line.starts_with(&format!("http_server_request_{name}")));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect::<Vec<f64>>()
    };
    let buckets = of("duration_seconds_bucket");
    assert_eq!((buckets.len(), buckets[0], buckets[2], buckets[16], buckets[17]), (23, 5.0, 7.0, 7.0, 8.0));
    assert_eq!((of("duration_seconds_count"), of("duration_seconds_sum")), (vec![8.0], vec![12.00035]));
    assert!(text.contains("le=\"0.00005\"} 5\n") && text.contains("le=\"+Inf\"} 8\n"), "{text}");
    assert!(text.contains("site=\"a\\\"b\\\\c\\n.example\""), "{text}");
    assert!(text.ends_with("flash_build_info{version=\"1.2.3\"} 1\n# EOF\n"), "{text}");
}

/// The page has a row for each metric with its kind, and for no other.
#[test]
fn every_metric_is_explained() {
    let text = text(&busy());
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let written: BTreeSet<(String, String)> =
        types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect();
    let page = include_str!("../../../../../docs/metrics.md");
    let explained: BTreeSet<(String, String)> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
            let name = cells.next()?.trim_end_matches('`');
            Some((name.to_owned(), cells.next()?.to_owned()))
        })
        .collect();
    assert_eq!(written, explained);
    for (name, _) in &written {
        let help = text.lines().filter(|line| line.starts_with(&format!("# HELP {name} "))).count();
        assert_eq!(help, 1, "{name} is one family");
    }
}

#[test]
fn microseconds_become_seconds_and_no_other_counts_do() {
    let text = text(&busy());
    for line in ["busy_seconds_total{loop=\"loop-0\"} 0.0015\n", "turns_total{loop=\"loop-0\"} 1500\n"] {
        assert!(text.contains(&format!("flash_loop_{line}")), "{text}");
    }
}

/// The pages end with their tables. `FLASH_WRITE_DOCS=1` writes these anew.
#[test]
fn the_pages_of_counters_are_current() {
    check_page("metrics.md", &Section::ALL.map(metrics_of).concat());
    let (totals, loops) = (counters_of::<Count>(), counters_of::<LoopCount>());
    check_page("counters.md", &format!("\n## Totals\n\n{totals}\n## Each loop\n\n{loops}"));
}

fn check_page(name: &str, expected: &str) {
    const MARK: &str = "<!-- Below: made of the rows. FLASH_WRITE_DOCS=1 cargo test -p flash-arch the_pages_of_counters -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let page = fs::read_to_string(&path).unwrap();
    let (before, after) = page.split_once(MARK).expect("the page has the mark");
    match std::env::var_os("FLASH_WRITE_DOCS") {
        Some(_) => fs::write(&path, format!("{before}{MARK}{expected}")).unwrap(),
        None => assert_eq!(
            after, expected,
            "run FLASH_WRITE_DOCS=1 cargo test -p flash-arch the_pages_of_counters"
        ),
    }
}

/// A section of the page of metrics.
fn metrics_of(section: Section) -> String {
    let others = FAMILIES.iter().map(|(row, _)| row).filter(|row| row.section == section);
    let rows = (families_of::<LoopCount>(section).map(|(_, row)| row))
        .chain(families_of::<ProgramCount>(section).map(|(_, row)| row))
        .chain(families_of::<Count>(section).map(|(_, row)| row))
        .chain(others);
    let lines = rows.map(|row| {
        let Row { metric, help, alert, .. } = row;
        let labelled = Count::ROWS.iter().filter(|(_, of)| of.metric == *metric && !of.label.is_empty());
        let labels: Vec<_> = labelled.map(|(_, of)| format!("`{}`", of.label)).collect();
        let help = match (help.strip_suffix('.'), &labels[..]) {
            (Some(help), [_, ..]) => format!("{help}: {}.", labels.join(", ")),
            _ => (*help).into(),
        };
        format!("| `{metric}` | {} | {help} | {alert} |\n", kind_name(row.kind))
    });
    let head = "| metric | type | means | serves the alert |\n|---|---|---|---|\n";
    format!("\n## {section:?}\n\n{head}{}", lines.collect::<String>())
}

/// The table of a set on the page of counters.
fn counters_of<C: CounterSet>() -> String {
    let rows = C::ROWS.iter().map(|(_, row)| row).filter(|row| !row.name.is_empty());
    let lines = rows.map(|row| format!("| `{}` | {} |\n", row.name, row.help));
    format!("| counter | counts |\n|---|---|\n{}", lines.collect::<String>())
}
