//! What a runner's account says of its turns and its sleeps.

use std::fs;
use std::thread::sleep;

use tempfile::TempDir;

use super::*;
use crate::ledger::Ledger;
use crate::output::Destination;

fn error_log(folder: &TempDir) -> ErrorLog {
    ErrorLog::open(Destination::Path(folder.path().join("errors")), Default::default()).unwrap()
}

#[test]
fn a_sleep_is_caught_and_work_is_not() {
    let folder = TempDir::new().unwrap();
    let (ledger, log) = (Ledger::default(), error_log(&folder));
    let account = ledger.open_account(log.clone());
    let culprit = || ("openat2", b"/a\n\xff".to_vec());
    account.watch(|| (0..1000).sum::<u64>(), culprit);
    assert_eq!(ledger.loop_blocks(), 0);
    account.watch(|| sleep(Duration::from_millis(2)), culprit);
    assert_eq!(ledger.loop_blocks(), 1);
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
    let ledger = Ledger::default();
    let account = ledger.open_account(error_log(&folder));
    for number in 0..2 * SAMPLE_EVERY {
        let turn = account.begin(1, Instant::now());
        match number {
            // The first turn of each sample; one of them sleeps where it is watched, too.
            0 => sleep(Duration::from_millis(1)),
            SAMPLE_EVERY => account.watch(|| sleep(Duration::from_millis(1)), || ("statx", Vec::new())),
            _ => {}
        }
        account.end(turn);
    }
    assert_eq!(ledger.loop_blocks(), 2);
}

#[test]
fn turns_are_told_by_their_ready_events() {
    let folder = TempDir::new().unwrap();
    let ledger = Ledger::default();
    let account = ledger.open_account(error_log(&folder));
    for ready in [0, 1, 1, 2, 3, 4, 200, 256] {
        let turn = account.begin(ready, Instant::now());
        account.end(turn);
    }
    account.requests.add(5);
    account.spend(&Spent { walk_ns: 7_000, help_ns: 9_999, ..Spent::default() });
    let [line] = &ledger.loops()[..] else { panic!("one loop: {:?}", ledger.loops()) };
    assert!(line.contains("turns=8 ready=0:1,1:2,2+:2,4+:1,128+:1,256+:1 busy_us="), "{line}");
    let totals = ledger.to_string();
    assert!(totals.starts_with("requests=5 connections=0 "), "{totals}");
    assert!(totals.contains("walk_us=7 ") && totals.contains("help_us=9 "), "{totals}");
    ledger.open_account(error_log(&folder));
    assert_eq!(ledger.loops().len(), 1, "a runner without turns is no loop");
}
