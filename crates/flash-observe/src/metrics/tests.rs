//! What the totals say to people, and that every counter is explained.

use std::collections::BTreeSet;
use std::time::Instant;

use super::*;
use crate::{Destination, ErrorLog};

fn one_loop() -> (Metrics, Arc<LoopMetrics>) {
    let metrics = Metrics::new(MetricsMemory::for_loops(1).unwrap().into());
    let error_log = ErrorLog::open(Destination::Path("/dev/null".into()), Default::default()).unwrap();
    let one = metrics.loop_metrics(error_log);
    (metrics, one)
}

#[test]
fn the_last_line_is_for_people() {
    let (metrics, one) = one_loop();
    assert_eq!(metrics.summary(), "served 0 requests, 0 B");
    one.shard.add(Count::Requests, 1);
    one.shard.add(Count::SentBytes, 999);
    assert_eq!(metrics.summary(), "served 1 request, 999 B");
    one.end(one.begin(1, Instant::now()));
    one.shard.add(Count::Requests, 213);
    one.shard.add(Count::SentBytes, 3_100_000);
    assert_eq!(metrics.summary(), "served 214 requests, 3.1 MB; the disk was waited for 0 times");
}

/// The page has a row for each counter that is logged, and for no other.
#[test]
fn every_counter_is_explained() {
    let (metrics, one) = one_loop();
    one.end(one.begin(1, Instant::now()));
    let error_log = ErrorLog::open(Destination::Path("/dev/null".into()), Default::default()).unwrap();
    metrics.explain_blocks(error_log.clone(), crate::recorder_thread()).unwrap();
    let sleep = || std::thread::sleep(std::time::Duration::from_millis(1));
    for _ in 0..2 {
        one.watch_blocking(sleep, || ("read", Vec::new()));
        metrics.log_blocks(&error_log);
    }
    let lines = metrics.report().join(" ");
    let logged: BTreeSet<&str> =
        lines.split_whitespace().filter_map(|word| Some(word.split_once('=')?.0)).collect();
    let page = include_str!("../../../../docs/counters.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let mut explained: BTreeSet<&str> = rows.collect();
    if lines.contains("no kernel stack: ") {
        explained.remove("sleep_us");
    }
    assert_eq!(logged, explained);
}
