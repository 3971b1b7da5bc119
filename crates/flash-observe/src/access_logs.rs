//! The access logs of a configuration: that of the server, and those of its sites and places. They share threads that write.
//!
//! A reload may leave a log. Exchanges under way keep their configuration, so the log stays open until the last of them has ended.

use flash_core::record::Record;
use flash_core::record::log_choice::LogNumber;

use crate::access::AccessLog;
use crate::spool::OnReopened;
use crate::writers::Writers;

/// A handle, one per thread that logs.
#[derive(Clone, Default)]
pub struct AccessLogs {
    /// By their numbers.
    logs: Vec<Option<Numbered>>,
    /// The numbers of those with lines in this handle. A turn of a loop costs what was logged in it, however many logs there are.
    with_lines: Vec<usize>,
}

#[derive(Clone)]
struct Numbered {
    log: AccessLog,
    /// Of an earlier configuration.
    is_left: bool,
}

impl AccessLogs {
    pub fn insert(&mut self, LogNumber(number): LogNumber, log: AccessLog) {
        let at = number as usize;
        self.logs.resize_with(self.logs.len().max(at + 1), || None);
        self.logs[at] = Some(Numbered { log, is_left: false });
    }

    /// The threads that write the logs, if there are any.
    pub fn writers(&self) -> Option<&Writers> {
        self.all().next().map(AccessLog::writers)
    }

    /// The log of this number, unless it ends.
    pub fn get(&self, LogNumber(number): LogNumber) -> Option<&AccessLog> {
        let numbered = self.logs.get(number as usize)?.as_ref()?;
        Some(&numbered.log).filter(|log| !log.is_closing())
    }

    /// Keeps the logs of the configuration before this one, for the exchanges that it still has.
    pub fn keep(&mut self, before: &AccessLogs) {
        self.logs.resize_with(self.logs.len().max(before.logs.len()), || None);
        for (own, before) in self.logs.iter_mut().zip(&before.logs) {
            let kept = before.iter().filter(|before| own.is_none() && !before.log.is_closing());
            let kept = kept.map(|before| Numbered { is_left: true, ..before.clone() }).next();
            *own = own.take().or(kept);
        }
    }

    /// No exchange of an earlier configuration is left, so their logs end.
    pub fn close_left(&self) {
        let left = self.logs.iter().flatten().filter(|numbered| numbered.is_left);
        left.for_each(|left| left.log.clone().begin_close());
    }

    /// Writes what is left and ends all writers. They have the same time for it.
    pub fn close(self) {
        let mut all: Vec<AccessLog> = self.all().cloned().collect();
        all.iter_mut().for_each(AccessLog::begin_close);
        all.into_iter().for_each(|log| _ = log.close());
    }

    /// Takes all records without ever waiting, for event loops. A record whose log has ended has no line.
    ///
    /// Returns `false` if another thread held the buffer of a log at this moment. The lines then stay in this handle until the next
    /// call (an empty `records` will do) or until the handle is dropped.
    pub fn push(&mut self, records: &mut Vec<Record>) -> bool {
        for record in records.drain(..) {
            let Some(LogNumber(number)) = record.log else { continue };
            let at = number as usize;
            if let Some(Some(numbered)) = self.logs.get_mut(at) {
                numbered.log.add(&record);
                if !self.with_lines.contains(&at) {
                    self.with_lines.push(at);
                }
            }
        }
        let logs = &mut self.logs;
        self.with_lines.retain(|at| logs[*at].as_mut().is_some_and(|numbered| !numbered.log.pass_on()));
        self.with_lines.is_empty()
    }

    /// Writes a record's line, waiting if need be while another thread copies its lines: for threads that may.
    pub fn write(&self, record: &Record) {
        let log = record.log.and_then(|number| self.get(number));
        log.into_iter().for_each(|log| log.write(record));
    }

    /// Whether both write the same lines to the same places.
    pub fn are_same(&self, other: &AccessLogs) -> bool {
        let are_same = |pair: (&Option<Numbered>, &Option<Numbered>)| match pair {
            (Some(one), Some(other)) => one.log.is_same(&other.log),
            (None, None) => true,
            _ => false,
        };
        self.logs.len() == other.logs.len() && self.logs.iter().zip(&other.logs).all(are_same)
    }

    /// Records dropped so far, because a destination was too slow or took nothing.
    pub fn dropped(&self) -> u64 {
        self.all().map(AccessLog::dropped).sum()
    }

    /// Whether lines were dropped within the last ten minutes.
    pub fn drop_lines(&self) -> bool {
        self.all().any(AccessLog::drops_lines)
    }

    /// From now on the logs are written to the files that have their paths, whoever moved the old ones away: nobody tells.
    pub fn follow(&self) {
        self.all().for_each(AccessLog::follow);
    }

    /// Makes the writers open their paths again, after files were renamed away. Returns at once. Each tells its own `done` later.
    pub fn reopen(&self, mut done: impl FnMut() -> OnReopened) {
        self.all().filter(|log| !log.is_closing()).for_each(|log| log.reopen(done()));
    }

    fn all(&self) -> impl Iterator<Item = &AccessLog> {
        self.logs.iter().flatten().map(|numbered| &numbered.log)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};

    use tempfile::TempDir;

    use super::*;
    use crate::{Destination, ErrorLog, Format, Limits, LogSink};

    struct Setup {
        folder: TempDir,
        errors: ErrorLog,
    }

    impl Setup {
        fn new() -> Self {
            let folder = TempDir::new().unwrap();
            let to = Destination::Path(folder.path().join("errors"));
            Self { errors: ErrorLog::open(to, Limits::default()).unwrap(), folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn log(&self, name: &str) -> AccessLog {
            let to = Destination::Path(self.path(name));
            AccessLog::open(to, Format::Combined, Limits::default(), self.errors.clone()).unwrap()
        }

        fn lines(&self, name: &str) -> Vec<String> {
            let text = fs::read_to_string(self.path(name)).unwrap();
            text.lines().map(|line| line.split('"').nth(1).unwrap().to_owned()).collect()
        }
    }

    fn record(log: Option<u32>, line: &str) -> Record {
        let request_line = line.as_bytes().into();
        Record { log: log.map(LogNumber), request_line, ..Record::default() }
    }

    #[test]
    fn each_record_goes_to_its_own_log() {
        let setup = Setup::new();
        let mut logs = AccessLogs::default();
        logs.insert(LogNumber(2), setup.log("two"));
        logs.insert(LogNumber(0), setup.log("none"));
        let mut records =
            vec![record(Some(2), "a"), record(Some(0), "b"), record(None, "c"), record(Some(2), "d")];
        records.extend([1, 3].map(|number| record(Some(number), "of no log")));
        while !logs.push(&mut records) {}
        assert!(records.is_empty());
        logs.write(&record(Some(2), "e"));
        logs.close();
        assert_eq!([setup.lines("two"), setup.lines("none")], [vec!["a", "d", "e"], vec!["b"]]);
    }

    #[test]
    fn a_few_threads_write_many_logs_and_those_that_hang_hold_up_no_file() {
        const LOGS: u32 = 300;
        /// More than there are threads.
        const HUNG: u32 = 40;
        let setup = Setup::new();
        let writers = Writers::new("log-writer").unwrap();
        let start = |name: &str| {
            let sink = LogSink::open(Destination::Path(setup.path(name))).unwrap();
            AccessLog::start(sink, Format::Combined, Limits::default(), (setup.errors.clone(), &writers))
                .unwrap()
        };
        let hung = (LOGS..LOGS + HUNG).map(|number| (number, format!("stuck-{number}")));
        let made =
            Command::new("mkfifo").args(hung.clone().map(|(_, name)| setup.path(&name))).status().unwrap();
        assert!(made.success());
        let mut logs = AccessLogs::default();
        for (number, name) in hung {
            logs.insert(LogNumber(number), start(&name));
            // More than the FIFO takes.
            (0..2_000).for_each(|_| logs.write(&record(Some(number), &"x".repeat(100))));
        }
        (0..LOGS).for_each(|number| logs.insert(LogNumber(number), start(&number.to_string())));
        for line in ["first", "second"] {
            let mut records: Vec<Record> = (0..LOGS).map(|number| record(Some(number), line)).collect();
            while !logs.push(&mut records) {}
            let all = |line: &str| {
                let has = |number: u32| setup.lines(&number.to_string()).iter().any(|known| known == line);
                (0..LOGS).all(has)
            };
            let give_up = Instant::now() + Duration::from_secs(60);
            while !all(line) {
                assert!(Instant::now() < give_up, "{line} is not written");
                thread::sleep(Duration::from_millis(5));
            }
        }
        assert!((2..=32).contains(&writers.threads()), "{}", writers.threads());
        drop(logs);
    }

    #[test]
    fn one_log_has_one_thread() {
        let setup = Setup::new();
        let log = setup.log("one");
        (0..100).for_each(|_| log.write(&record(None, "a")));
        let writers = log.writers().clone();
        log.close();
        assert_eq!((setup.lines("one").len(), writers.threads()), (100, 1));
    }

    #[test]
    fn logs_that_a_reload_leaves_stay_open_until_no_exchange_is_left() {
        let setup = Setup::new();
        let mut before = AccessLogs::default();
        before.insert(LogNumber(0), setup.log("left"));
        before.insert(LogNumber(1), setup.log("stays"));
        let mut present = AccessLogs::default();
        present.insert(LogNumber(1), before.get(LogNumber(1)).unwrap().with_format(Format::Short));
        present.keep(&before);
        assert!(!present.are_same(&before));
        present.write(&record(Some(0), "late"));
        present.close_left();
        assert!(present.get(LogNumber(0)).is_none() && present.get(LogNumber(1)).is_some());
        let mut next = AccessLogs::default();
        next.keep(&present);
        assert!(next.get(LogNumber(0)).is_none(), "a log that ends does not come back");
        assert!(next.get(LogNumber(1)).is_some());
        let mut reopened = 0;
        present.reopen(|| {
            reopened += 1;
            Box::new(|_| ())
        });
        assert_eq!(reopened, 1);
        present.close();
        assert_eq!(setup.lines("left"), ["late"]);
    }
}
