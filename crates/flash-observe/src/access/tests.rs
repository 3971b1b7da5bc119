//! Tests of the access log on real files: rotation, overload, stuck and full destinations.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;

const QUICK: Limits = Limits {
    buffer_bytes_max: 64 << 10,
    linger: Duration::from_millis(1),
    repeat_every: Duration::from_millis(20),
    close_wait: Duration::from_secs(1),
};

fn record(n: usize) -> Record {
    let request_line = format!("GET /{n} HTTP/1.1").into_bytes().into();
    Record { duration_us: 1, request_line, status: 200, body_bytes: 1, ..Record::default() }
}

/// Adds records and passes their lines on, as a loop does.
fn push(log: &mut AccessLog, numbers: std::ops::Range<usize>) -> bool {
    numbers.for_each(|n| log.add(&record(n)));
    log.pass_on()
}

/// An access log at `path` with an error log beside it.
fn open(folder: &TempDir, path: &Path) -> (AccessLog, ErrorLog) {
    let errors = ErrorLog::open(Destination::Path(folder.path().join("error.log")), QUICK).unwrap();
    let log =
        AccessLog::open(Destination::Path(path.into()), Format::Combined, QUICK, errors.clone()).unwrap();
    (log, errors)
}

fn errors_said(folder: &TempDir, errors: ErrorLog) -> String {
    assert_eq!(errors.close(), Closed::Flushed);
    fs::read_to_string(folder.path().join("error.log")).unwrap()
}

/// The sum of all N in "dropped N records".
fn drops_said(said: &str) -> u64 {
    let count = |line: &str| line.split("dropped ").nth(1)?.split(' ').next()?.parse::<u64>().ok();
    said.lines().filter_map(count).sum()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn many_threads_lose_no_line_and_mix_none() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("access.log");
    let (log, errors) = open(&folder, &path);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let mut log = log.clone();
            scope.spawn(move || {
                for turn in 0..25 {
                    let n = |i: usize| thread * 100 + turn * 4 + i;
                    push(&mut log, n(0)..n(2));
                    (n(2)..n(4)).for_each(|n| log.write(&record(n)));
                }
            });
        }
    });
    assert_eq!(log.close(), Closed::Flushed);
    let text = fs::read_to_string(path).unwrap();
    let mut seen: Vec<usize> = text
        .lines()
        .map(|line| {
            let rest = line.strip_prefix("unix: - - [01/Jan/1970:00:00:00 +0000] \"GET /").unwrap();
            rest.strip_suffix(" HTTP/1.1\" 200 1 \"-\" \"-\"").unwrap().parse().unwrap()
        })
        .collect();
    seen.sort();
    assert_eq!(seen, (0..400).collect::<Vec<_>>());
    assert_eq!(errors_said(&folder, errors), "");
}

#[test]
fn a_line_is_written_soon_without_another() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("access.log");
    let (mut log, _errors) = open(&folder, &path);
    assert!(push(&mut log, 1..2));
    wait_until("the line arrives", || fs::read_to_string(&path).unwrap().ends_with('\n'));
}

#[test]
fn rotation_by_rename_and_reopen() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("access.log");
    let rotated = folder.path().join("access.log.1");
    let (log, errors) = open(&folder, &path);
    log.write(&record(1));
    wait_until("the first line is written", || fs::metadata(&path).unwrap().len() > 0);
    fs::rename(&path, &rotated).unwrap();
    log.write(&record(2));
    log.reopen(Box::new(|_| ()));
    wait_until("the path exists again", || path.exists());
    log.write(&record(3));
    assert_eq!(log.close(), Closed::Flushed);
    let (old, new) = (fs::read_to_string(rotated).unwrap(), fs::read_to_string(path).unwrap());
    assert!(old.contains("/1 ") && old.contains("/2 ") && !old.contains("/3 "));
    assert!(new.contains("/3 ") && new.lines().count() == 1);
    assert_eq!(errors_said(&folder, errors), "");
}

#[test]
fn a_failed_reopen_is_said_and_the_old_file_stays() {
    let folder = TempDir::new().unwrap();
    let inner = folder.path().join("logs");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("access.log");
    let (log, errors) = open(&folder, &path);
    let moved = folder.path().join("moved");
    fs::rename(&inner, &moved).unwrap();
    log.reopen(Box::new(|_| ()));
    log.write(&record(1));
    assert_eq!(log.close(), Closed::Flushed);
    assert_eq!(fs::read_to_string(moved.join("access.log")).unwrap().lines().count(), 1);
    let said = errors_said(&folder, errors);
    assert!(said.contains("flash: access log: cannot reopen ") && said.contains("the old file stays in use"));
}

/// A FIFO without a reader takes as many bytes as a pipe holds. Then no call waits, drops are counted and logged while it is
/// stuck, and closing takes a limited time.
#[test]
fn a_fifo_that_nobody_reads_holds_up_nobody() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let began = Instant::now();
    let (mut log, errors) = open(&folder, &path);
    let mut pushed = 0;
    while log.dropped() < 1000 {
        push(&mut log, pushed..pushed + 100);
        pushed += 100;
        // The writer has to fill the pipe meanwhile, also where it is not alone on its processor.
        std::thread::sleep(Duration::from_millis(5));
        assert!(began.elapsed() < Duration::from_secs(10), "the buffer never fills");
    }
    let error_log = folder.path().join("error.log");
    wait_until("drops are said", || fs::read_to_string(&error_log).unwrap().contains("dropped"));
    let other = log.clone();
    let closing = Instant::now();
    let Closed::GaveUp { lines_lost } = log.close() else { panic!("who read the FIFO?") };
    assert!(closing.elapsed() < Duration::from_secs(5));
    assert!(lines_lost > 0);
    let said = errors_said(&folder, errors);
    assert_eq!(drops_said(&said), other.dropped(), "{said}");
    assert!(other.dropped() < pushed as u64, "the pipe held some");
}

/// However much the other has to write, all the time.
#[test]
fn a_log_waits_for_one_batch_of_another_on_its_device() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (mut busy, errors) = open(&folder, &path);
    let sink = LogSink::open(Destination::Path(path.clone())).unwrap();
    let quiet = AccessLog::start(sink, Format::Combined, QUICK, (errors, busy.writers())).unwrap();
    let mut reader = File::open(&path).unwrap();
    let mut fill = || {
        let before = busy.dropped();
        while busy.dropped() == before {
            push(&mut busy, 0..100);
        }
    };
    let room = QUICK.buffer_bytes_max / 4;
    wait_until("a full pipe", || {
        fill();
        rustix::io::ioctl_fionread(&reader).unwrap() > (64 << 10) - room as u64
    });
    quiet.write(&Record { request_line: b"quiet".as_slice().into(), ..record(0) });
    let (mut bytes, mut said) = (vec![0; room], Vec::new());
    wait_until("the other's line", || {
        fill();
        let count = reader.read(&mut bytes).unwrap();
        said.extend_from_slice(&bytes[..count]);
        let unsearched = said.len().saturating_sub(count + 5);
        said[unsearched..].windows(5).any(|word| word == b"quiet")
    });
}

#[test]
fn a_fifo_works_once_somebody_reads() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (log, _errors) = open(&folder, &path);
    log.write(&record(7));
    let mut line = String::new();
    BufReader::new(File::open(&path).unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("GET /7 "));
    assert_eq!(log.close(), Closed::Flushed);
}

#[test]
fn a_full_disk_is_said_and_counted() {
    let folder = TempDir::new().unwrap();
    let (log, errors) = open(&folder, Path::new("/dev/full"));
    let began = Instant::now();
    for n in 0..50 {
        log.write(&record(n));
        std::thread::sleep(Duration::from_millis(2));
    }
    let other = log.clone();
    assert_eq!(log.close(), Closed::Flushed, "nothing is left, although nothing was written");
    let took = began.elapsed();
    assert_eq!(other.dropped(), 50);
    let said = errors_said(&folder, errors);
    assert!(said.contains("flash: access log: cannot write to /dev/full: No space left on device"), "{said}");
    // Once in each period, however long a busy machine took for the lines, and once more at the end.
    let periods = took.as_millis() / QUICK.repeat_every.as_millis() + 2;
    let count = said.matches("cannot write").count() as u128;
    assert!(count <= periods, "not for every line, but {count} times in {took:?}: {said}");
    assert_eq!(drops_said(&said), 50, "{said}");
}

/// Drops that come just after others are said when their time comes, with no further traffic.
#[test]
fn the_last_drops_are_said_without_more_traffic() {
    let folder = TempDir::new().unwrap();
    let (log, errors) = open(&folder, Path::new("/dev/full"));
    log.write(&record(1));
    wait_until("the first is dropped", || log.dropped() == 1);
    log.write(&record(2));
    let error_log = folder.path().join("error.log");
    wait_until("both are said", || drops_said(&fs::read_to_string(&error_log).unwrap()) == 2);
    assert_eq!(log.close(), Closed::Flushed);
    drop(errors);
}

#[test]
fn an_overfull_buffer_keeps_whole_lines() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("access.log");
    let (mut log, errors) = open(&folder, &path);
    (0..2000).for_each(|n| log.add(&record(n)));
    let other = log.clone();
    assert_eq!(log.close(), Closed::Flushed);
    let text = fs::read_to_string(path).unwrap();
    assert!(text.len() <= QUICK.buffer_bytes_max && text.ends_with("\"-\"\n"));
    assert_eq!(text.lines().count() as u64 + other.dropped(), 2000);
    assert_eq!(drops_said(&errors_said(&folder, errors)), other.dropped());
}

#[test]
fn a_missing_folder_is_an_error_at_start() {
    let folder = TempDir::new().unwrap();
    let errors = ErrorLog::open(Destination::Stderr, QUICK).unwrap();
    let to = Destination::Path(folder.path().join("none/access.log"));
    let error = AccessLog::open(to, Format::json(), QUICK, errors).err().expect("there is no such folder");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn an_old_file_is_appended_to() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("access.log");
    fs::write(&path, "before\n").unwrap();
    let (log, _errors) = open(&folder, &path);
    log.write(&record(1));
    log.close();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("before\nunix: "));
    assert!(OpenOptions::new().append(true).open(&path).is_ok());
}

/// As a server that was replaced does.
#[test]
fn a_log_that_follows_its_path_goes_on_in_the_next_file() {
    let folder = TempDir::new().unwrap();
    let [path, moved] = ["access.log", "access.log.1"].map(|name| folder.path().join(name));
    let (log, _errors) = open(&folder, &path);
    let write = |n: usize, to: &Path, count: usize| {
        log.write(&record(n));
        wait_until("a line", || fs::read_to_string(to).unwrap().lines().count() == count);
    };
    write(1, &path, 1);
    fs::rename(&path, &moved).unwrap();
    File::create(&path).unwrap();
    write(2, &moved, 2);
    log.follow();
    write(3, &path, 1);
    fs::rename(&path, &moved).unwrap();
    write(4, &moved, 2);
    assert!(!path.exists(), "who rotates the files makes it");
    File::create(&path).unwrap();
    write(5, &path, 1);
}
