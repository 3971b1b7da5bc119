//! What a loop's metrics say of its turns and its sleeps.

use std::fs;
use std::thread::sleep;

use tempfile::TempDir;

use super::*;
use crate::log_sink::Destination;
use crate::metrics::{Metrics, MetricsMemory};
use flash_core::job::Spent;

fn error_log(folder: &TempDir) -> ErrorLog {
    ErrorLog::open(Destination::Path(folder.path().join("errors")), Default::default()).unwrap()
}

#[test]
fn a_sleep_is_caught_and_work_is_not() {
    let folder = TempDir::new().unwrap();
    let (totals, log) = (Metrics::new(MetricsMemory::for_loops(1).unwrap().into()), error_log(&folder));
    let metrics = totals.loop_metrics(log.clone());
    let blocking_call = || ("openat2", b"/a\n\xff".to_vec());
    metrics.watch_blocking(|| (0..1000).sum::<u64>(), blocking_call);
    assert_eq!(totals.get(Count::LoopBlocks), 0);
    metrics.watch_blocking(|| sleep(Duration::from_millis(2)), blocking_call);
    assert_eq!(totals.get(Count::LoopBlocks), 1);
    log.close();
    let said = fs::read_to_string(folder.path().join("errors")).unwrap();
    assert!(said.contains(r"ms in openat2 of /a\n\xff"), "{said}");
    assert!(
        said.contains("a_sleep_is_caught_and_work_is_not slept outside its wait"),
        "by the thread's name: {said}"
    );
}

#[test]
fn a_sleep_where_nobody_looks_is_caught_by_sampling_and_counted_once() {
    let folder = TempDir::new().unwrap();
    let totals = Metrics::new(MetricsMemory::for_loops(1).unwrap().into());
    let metrics = totals.loop_metrics(error_log(&folder));
    for number in 0..2 * SAMPLE_EVERY {
        let turn = metrics.begin(1, Instant::now());
        match number {
            // The first turn of each sample; one of them sleeps where it is watched, too.
            0 => sleep(Duration::from_millis(1)),
            SAMPLE_EVERY => {
                metrics.watch_blocking(|| sleep(Duration::from_millis(1)), || ("statx", Vec::new()))
            }
            _ => {}
        }
        metrics.end(turn);
    }
    assert_eq!(totals.get(Count::LoopBlocks), 2);
}

#[test]
fn turns_are_told_by_their_ready_events() {
    let folder = TempDir::new().unwrap();
    let totals = Metrics::new(MetricsMemory::for_loops(1).unwrap().into());
    let metrics = totals.loop_metrics(error_log(&folder));
    for ready in [0, 1, 1, 2, 3, 4, 200, 256] {
        let turn = metrics.begin(ready, Instant::now());
        metrics.end(turn);
    }
    metrics.shard.add(Count::Requests, 5);
    metrics.shard.spend(&Spent { walk_ns: 7_000, help_ns: 9_999, ..Spent::default() });
    let report = totals.report();
    let [sums, line] = &report[..] else { panic!("the sums and one loop: {report:?}") };
    assert!(line.contains("turns=8 ready=0:1,1:2,2+:2,4+:1,128+:1,256+:1 busy_us="), "{line}");
    assert!(sums.starts_with("requests=5 connections=0 "), "{sums}");
    assert!(sums.contains("walk_us=7 ") && sums.contains("help_us=9 "), "{sums}");
    assert!(sums.ends_with(" block_causes=none"), "{sums}");
    totals.loop_metrics(error_log(&folder));
    assert_eq!(totals.report().len(), 2, "a runner without turns is no loop");
}

#[test]
fn a_sleep_is_explained_by_its_kernel_stack() {
    let folder = TempDir::new().unwrap();
    let (totals, log) = (Metrics::new(MetricsMemory::for_loops(1).unwrap().into()), error_log(&folder));
    totals.explain_blocks(log.clone(), crate::recorder_thread()).unwrap();
    let metrics = totals.loop_metrics(log.clone());
    for _ in 0..4 {
        metrics.watch_blocking(|| sleep(Duration::from_millis(2)), || ("read", b"/a".to_vec()));
        // The recorder is asked here, and not by another thread some time later.
        totals.log_blocks(&log);
    }
    let report = totals.report();
    log.close();
    let said = fs::read_to_string(folder.path().join("errors")).unwrap();
    if said.contains("CAP_PERFMON") {
        return eprintln!("NOT TESTED, causes of sleeps: {said}");
    }
    let timers: u64 = report.iter().filter(|line| line.contains(" timer in ")).map(|line| sleeps(line)).sum();
    assert_eq!(timers, 3, "all but the first: {report:?}");
    assert!(report[0].contains(" loop_blocks=4 ") && report[0].contains("timer:3"), "{report:?}");
    assert!(said.contains("ms in read of /a: kernel stacks are recorded from now on\n"), "{said}");
    assert!(said.contains("ms in read of /a: timer in "), "{said}");
}

/// `blocks: sleeps=3 sleep_us=…`.
fn sleeps(line: &str) -> u64 {
    let count = line.strip_prefix("blocks: sleeps=").and_then(|rest| rest.split(' ').next());
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn a_refusal_is_said_with_what_would_help() {
    let folder = TempDir::new().unwrap();
    let (totals, log) = (Metrics::new(MetricsMemory::for_loops(1).unwrap().into()), error_log(&folder));
    let refused = || Err(std::io::ErrorKind::PermissionDenied.into());
    totals.explain_blocks(log.clone(), Arc::new(refused)).unwrap();
    let metrics = totals.loop_metrics(log.clone());
    for _ in 0..2 {
        metrics.watch_blocking(|| sleep(Duration::from_millis(2)), || ("read", b"/a".to_vec()));
        totals.log_blocks(&log);
    }
    let report = totals.report();
    log.close();
    let why = "no kernel stack: permission denied: CAP_PERFMON";
    assert!(report[0].contains("block_causes=no-stack:2"), "{report:?}");
    assert!(report.last().unwrap().contains(why), "{report:?}");
    let said = fs::read_to_string(folder.path().join("errors")).unwrap();
    assert_eq!(said.matches(why).count(), 2, "{said}");
}
