//! Tests of the error lines.

use std::fs;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use tempfile::TempDir;

use super::*;

fn said(say: impl FnOnce(&ErrorLog)) -> String {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("error.log");
    let log = ErrorLog::open(Destination::Path(path.clone()), Limits::default()).unwrap();
    say(&log);
    assert_eq!(log.close(), Closed::Flushed);
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_line_has_its_time_and_its_name() {
    let text = said(|log| log.log(format_args!("no such folder: {}", "/srv")));
    let (time, line) = text.split_once(' ').unwrap();
    assert_eq!(line, "flash: no such folder: /srv\n");
    assert!(time.starts_with("20") && time.ends_with('Z') && time.len() == 24, "{time}");
}

#[test]
fn a_name_with_controls_stays_on_its_line() {
    let text = said(|log| log.log(format_args!("no {}", "a\nflash: lie\x1b[2J")));
    assert!(text.ends_with("flash: no a\\nflash: lie\\u{1b}[2J\n"), "{text}");
}

#[test]
fn rarely_counts_what_it_keeps_back() {
    let rarely = RateLimit::every(Duration::from_secs(5));
    let start = Instant::now();
    let at = |seconds| rarely.admit(start + Duration::from_secs(seconds));
    assert_eq!([at(0), at(1), at(4), at(5), at(6), at(20)], [Some(0), None, None, Some(2), None, Some(1)]);
}

#[test]
fn a_flood_is_one_line() {
    let rarely = RateLimit::every(Duration::from_secs(3600));
    let text = said(|log| (0..1000).for_each(|_| log.log_limited(&rarely, format_args!("refused"))));
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn dropped_lines_are_said_by_the_log_itself() {
    let limits = Limits { buffer_bytes_max: 400, ..Limits::default() };
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("error.log");
    let log = ErrorLog::open(Destination::Path(path.clone()), limits).unwrap();
    log.log(format_args!("{}", "x".repeat(500)));
    log.log(format_args!("short"));
    log.close();
    let text = fs::read_to_string(path).unwrap();
    assert!(
        text.contains("flash: short\n") && text.contains("flash: error log: dropped 1 lines\n"),
        "{text}"
    );
}

/// A helper may hold it, and not run for long.
#[test]
fn a_line_is_logged_while_another_thread_has_the_lock() {
    let text = said(|log| {
        let held = log.spool.hold();
        let (other, (sender, logged)) = (log.clone(), mpsc::channel());
        thread::spawn(move || {
            other.log(format_args!("meanwhile"));
            sender.send(())
        });
        let logged = logged.recv_timeout(Duration::from_secs(10));
        drop(held);
        logged.expect("it waits for no lock");
    });
    assert!(text.ends_with(" flash: meanwhile\n"), "{text}");
}

#[test]
fn lines_that_find_no_room_without_the_lock_are_counted() {
    let limits = Limits { buffer_bytes_max: 400, ..Limits::default() };
    let log = ErrorLog::open(Destination::Path("/dev/null".into()), limits).unwrap();
    let held = log.spool.hold();
    (0..3).for_each(|_| log.log(format_args!("{}", "x".repeat(200))));
    drop(held);
    assert_eq!(log.dropped(), 2);
    assert_eq!(log.close(), Closed::Flushed);
}

#[test]
fn a_failed_reopen_is_said_by_the_log_itself() {
    let folder = TempDir::new().unwrap();
    let [logs, moved] = ["logs", "moved"].map(|name| folder.path().join(name));
    fs::create_dir(&logs).unwrap();
    let log = ErrorLog::open(Destination::Path(logs.join("error.log")), Limits::default()).unwrap();
    fs::rename(&logs, &moved).unwrap();
    log.reopen(Box::new(|_| ()));
    assert_eq!(log.close(), Closed::Flushed);
    let text = fs::read_to_string(moved.join("error.log")).unwrap();
    assert!(text.contains("flash: error log: cannot reopen ") && text.contains("stays in use\n"), "{text}");
}

#[test]
fn a_broken_destination_ends_nothing() {
    let log = ErrorLog::open(Destination::Path("/dev/full".into()), Limits::default()).unwrap();
    log.log(format_args!("into the void"));
    assert_eq!(log.close(), Closed::Flushed);
}

#[test]
fn a_stuck_destination_bounds_the_close() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let limits = Limits { close_wait: Duration::from_millis(100), ..Limits::default() };
    let log = ErrorLog::open(Destination::Path(path), limits).unwrap();
    let began = Instant::now();
    for _ in 0..100 {
        log.log(format_args!("{}", "x".repeat(20_000)));
    }
    assert!(matches!(log.close(), Closed::GaveUp { lines_lost: 1.. }));
    assert!(began.elapsed() < Duration::from_secs(2));
}
