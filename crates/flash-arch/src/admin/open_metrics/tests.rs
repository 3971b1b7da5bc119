//! The text's form, and that its page names each metric.

use std::collections::BTreeSet;

use super::super::snapshot::{
    BlockCause, CertificateSnapshot, ProgramSnapshot, ResponseClass, SiteSnapshot, Workers,
};
use super::*;

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
        loops: vec![LoopSnapshot { name: "loop-0".into(), turns: 7, busy_us: 1_500, ..Default::default() }],
        block_causes: vec![BlockCause { cause: "page-cache read".into(), sleeps: 2, sleep_us: 3 }],
        devices: vec![DeviceSnapshot {
            mount: "/srv".into(),
            kind: "files".into(),
            healthy: Some(true),
            ..Default::default()
        }],
        programs: vec![ProgramSnapshot { route: "/app".into(), ..Default::default() }],
        certificates: vec![CertificateSnapshot { names: "a.example".into(), not_after_unix_s: 1 }],
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
    assert_eq!((buckets.len(), buckets[0], buckets[2], buckets[16], buckets[17]), (18, 5.0, 7.0, 7.0, 8.0));
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
