//! What the workers of mp tell of themselves, for the status page: in memory that all processes share.
//!
//! Each worker has a row of about four kilobytes, and only its main thread writes it. It waits for nobody. The process that answers
//! administrators reads. A row that no worker has had takes no memory.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use flash_core::job::Job;
use flash_disk::Disk;
use flash_observe::metrics::Names;
use flash_os::shared_array::SharedWords;
use flash_os::thread_usage::{self, ThreadUsage};
use flash_sleep::{Cause, is_remote};

use super::record::{self, Reader, Writer, text_words};
use crate::admin::snapshot::{BlockSnapshot, DeviceSnapshot, JobSnapshot, SlowRequest, WorkerSnapshot};
use crate::blocking_call;
use crate::clock;

/// The slow requests of a worker that are kept.
const SLOW_MAX: usize = 8;
/// Those of all workers that are told.
const SLOW_TOLD_MAX: usize = 16;
const MINUTE_MS: u64 = 60_000;
/// More devices than these are told as one.
const DEVICES_MAX: usize = 64;
const DEVICE_NAME_WORDS: usize = 16;
const CALL_BYTES: usize = 32;
const PATH_BYTES: usize = 128;
const CAUSE_BYTES: usize = 40;
const REQUEST_BYTES: usize = 200;
const HOST_BYTES: usize = 120;

/// The words of a worker that are single numbers.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Head {
    /// 0 where there is no worker.
    Pid,
    Number,
    Generation,
    /// Since when it has a connection, in microseconds since the server's start, plus one.
    BusySince,
    BusyUs,
    Connections,
    Blocks,
    /// Since when it does its job.
    JobSince,
}

const HEAD_WORDS: usize = 8;
/// The device and the kind of the job, and its path.
const JOB: Range<usize> = 0..1 + 2 + text_words(PATH_BYTES);
const BLOCK_WORDS: usize = 1 + 2 + text_words(CALL_BYTES) + text_words(PATH_BYTES) + text_words(CAUSE_BYTES);
const BLOCK: Range<usize> = JOB.end..JOB.end + BLOCK_WORDS;
const SLOW_WORDS: usize = 1 + 10 + text_words(REQUEST_BYTES) + text_words(HOST_BYTES);
const ROW_WORDS: usize = BLOCK.end + SLOW_MAX * SLOW_WORDS;

const KINDS: [&str; 2] = ["files", "listings"];

/// The rows of all workers.
pub(super) struct Board {
    heads: SharedWords,
    rows: SharedWords,
    devices: Names,
}

/// The row of a worker, in its own process.
pub(crate) struct OwnRow {
    board: Arc<Board>,
    row: usize,
}

/// What a worker's thread had used before a job.
pub(crate) struct JobUsage {
    usage: ThreadUsage,
    begun: Instant,
}

impl Board {
    pub(super) fn new(rows: usize) -> io::Result<Self> {
        Ok(Self {
            heads: SharedWords::zeroed(rows * HEAD_WORDS)?,
            rows: SharedWords::zeroed(rows * ROW_WORDS)?,
            devices: Names::in_order(DEVICES_MAX, DEVICE_NAME_WORDS)?,
        })
    }

    /// The row is this process's from now on, which is the worker of this number. `None` if there is no such row.
    pub(super) fn enter(self: &Arc<Self>, row: usize, number: usize, generation: u64) -> Option<OwnRow> {
        self.clear(row);
        let own = OwnRow { board: Arc::clone(self), row };
        self.heads.chunks(HEAD_WORDS).nth(row)?;
        own.set(Head::Number, number as u64);
        own.set(Head::Generation, generation);
        own.set(Head::Pid, process::id().into());
        Some(own)
    }

    /// Forgets what a worker that has ended has left in its row.
    pub(super) fn clear(&self, row: usize) {
        let Some(head) = self.heads.chunks(HEAD_WORDS).nth(row) else { return };
        head.iter().for_each(|word| word.store(0, Ordering::Release));
        let words = &self.rows[row * ROW_WORDS..][..ROW_WORDS];
        let slow = (0..SLOW_MAX).map(|place| BLOCK.end + place * SLOW_WORDS);
        [JOB.start, BLOCK.start].into_iter().chain(slow).for_each(|at| words[at].store(0, Ordering::Release));
    }

    /// The rows that workers have.
    fn taken(&self) -> impl Iterator<Item = (&[AtomicU64], &[AtomicU64])> {
        let heads = self.heads.chunks(HEAD_WORDS).zip(self.rows.chunks(ROW_WORDS));
        heads.filter(|(head, _)| get(head, Head::Pid) != 0)
    }

    /// How long each worker has had connections, by its name.
    pub(super) fn busy_us(&self) -> impl Iterator<Item = (String, u64)> {
        let now_us = clock::server_us(Instant::now());
        self.taken().map(move |(head, _)| (worker_name(get(head, Head::Pid)), busy_us(head, now_us)))
    }

    /// All workers that tell of themselves. Those that have been at a job for longest come first, and then those that are busy.
    pub(super) fn workers(&self) -> Vec<WorkerSnapshot> {
        let now_us = clock::server_us(Instant::now());
        let worker = |(head, row): (&[AtomicU64], &[AtomicU64])| WorkerSnapshot {
            pid: get(head, Head::Pid) as u32,
            number: get(head, Head::Number),
            generation: get(head, Head::Generation),
            busy: get(head, Head::BusySince) != 0,
            busy_us: busy_us(head, now_us),
            connections: get(head, Head::Connections),
            blocks: get(head, Head::Blocks),
            job: self.job(head, row, now_us),
            last_block: record::read(&row[BLOCK]).map(|record| block(&record)),
        };
        let mut workers: Vec<WorkerSnapshot> = self.taken().map(worker).collect();
        workers.sort_by_key(|worker| {
            let job_us = worker.job.as_ref().map(|job| job.duration_us);
            (std::cmp::Reverse(job_us), !worker.busy, worker.generation, worker.number)
        });
        workers
    }

    fn job(&self, head: &[AtomicU64], row: &[AtomicU64], now_us: u64) -> Option<JobSnapshot> {
        let since_us = get(head, Head::JobSince).checked_sub(1)?;
        let record = record::read(&row[JOB])?;
        let mut reader = Reader(&record);
        let (device, kind) = (reader.number(), reader.number());
        let devices = self.devices.all();
        let name = devices.into_iter().find(|(number, _)| u64::from(*number) == device);
        Some(JobSnapshot {
            mount: name.map(|(_, name)| name).unwrap_or_default(),
            kind: KINDS[kind as usize % KINDS.len()].into(),
            path: reader.text(PATH_BYTES),
            duration_us: now_us.saturating_sub(since_us),
        })
    }

    /// The devices that workers have had jobs for, and how many of them are at one now.
    pub(super) fn devices(&self, workers: &[WorkerSnapshot]) -> Vec<DeviceSnapshot> {
        let mut devices: BTreeMap<(String, String), DeviceSnapshot> = BTreeMap::new();
        let mut device = |mount: &str, kind: &str, job_us: Option<u64>| {
            let key = (mount.to_owned(), kind.to_owned());
            let (mount, kind) = key.clone();
            let known = || DeviceSnapshot { mount, kind, ..DeviceSnapshot::default() };
            let device = devices.entry(key).or_insert_with(known);
            device.in_flight += u64::from(job_us.is_some());
            device.oldest_us = device.oldest_us.max(job_us.unwrap_or_default());
        };
        // The first name stands for more than there is room for.
        self.devices.all().iter().skip(1).for_each(|(_, mount)| device(mount, KINDS[0], None));
        let jobs = workers.iter().filter_map(|worker| worker.job.as_ref());
        jobs.for_each(|job| device(&job.mount, &job.kind, Some(job.duration_us)));
        devices.into_values().collect()
    }

    /// The slowest requests of the last minute, the slowest first.
    pub(super) fn slowest(&self, now_unix_ms: u64) -> Vec<SlowRequest> {
        let of_row = |row: &[AtomicU64]| -> Vec<SlowRequest> {
            let records = row[BLOCK.end..].chunks(SLOW_WORDS).filter_map(record::read);
            records.map(|record| slow(&record)).collect()
        };
        let all = self.taken().flat_map(|(_, row)| of_row(row));
        let mut recent: Vec<SlowRequest> = all.filter(|one| is_recent(one, now_unix_ms)).collect();
        recent.sort_by_key(|one| std::cmp::Reverse(one.duration_us));
        recent.truncate(SLOW_TOLD_MAX);
        recent
    }
}

impl OwnRow {
    fn words(&self, range: Range<usize>) -> &[AtomicU64] {
        &self.board.rows[self.row * ROW_WORDS..][range]
    }

    fn head(&self, what: Head) -> &AtomicU64 {
        &self.board.heads[self.row * HEAD_WORDS + what as usize]
    }

    fn set(&self, what: Head, value: u64) {
        self.head(what).store(value, Ordering::Release);
    }

    fn add(&self, what: Head, count: u64) {
        // Not an atomic addition: only one thread adds.
        self.set(what, self.head(what).load(Ordering::Relaxed) + count);
    }

    /// The worker ends, and tells nothing any more. The next one of its number may have the row already.
    pub(super) fn leave(&self) {
        let own = process::id().into();
        let _ = self.head(Head::Pid).compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The worker has a connection from now on, or has none any more.
    pub(super) fn busy(&self, is_busy: bool) {
        let now_us = clock::server_us(Instant::now());
        if let Some(since_us) = self.head(Head::BusySince).load(Ordering::Relaxed).checked_sub(1) {
            self.add(Head::BusyUs, now_us.saturating_sub(since_us));
        }
        self.set(Head::JobSince, 0);
        self.set(Head::BusySince, if is_busy { now_us + 1 } else { 0 });
        self.add(Head::Connections, is_busy.into());
    }

    /// The worker begins with a job, which may wait for the disk.
    pub(super) fn begin_job(&self, job: &Job, disk: &Disk) -> JobUsage {
        let mut record = Writer::default();
        record.number(self.board.devices.number(&disk.device_name(disk.device_for(job))).into());
        record.number(u64::from(matches!(job, Job::List(_) | Job::Folder(_))));
        record.text(&blocking_call::path_of_job(job), PATH_BYTES);
        record::write(self.words(JOB), &record.0);
        let begun = Instant::now();
        self.set(Head::JobSince, clock::server_us(begun) + 1);
        JobUsage { usage: thread_usage::current(), begun }
    }

    /// The job is done. If the worker has slept meanwhile, that is its last block.
    pub(super) fn end_job(&self, JobUsage { usage: before, begun }: JobUsage, job: &Job, disk: &Disk) {
        self.set(Head::JobSince, 0);
        let after = thread_usage::current();
        if after.voluntary_switches == before.voluntary_switches {
            return;
        }
        self.add(Head::Blocks, after.voluntary_switches - before.voluntary_switches);
        let (call, path) = blocking_call::of_job(job);
        let device = disk.device_name(disk.device_for(job));
        let cause = cause(job, &device, (before, after)).map_or("", Cause::name);
        let mut record = Writer::default();
        record.number(clock::unix_ms());
        record.number(begun.elapsed().as_micros() as u64);
        record.text(call.as_bytes(), CALL_BYTES);
        record.text(&path, PATH_BYTES);
        record.text(cause.as_bytes(), CAUSE_BYTES);
        record::write(self.words(BLOCK), &record.0);
    }

    /// Keeps a slow request, in the place of an old one or of the quickest one.
    pub(crate) fn add_slow(&self, request: &SlowRequest) {
        let places = (0..SLOW_MAX).map(|place| BLOCK.end + place * SLOW_WORDS);
        let places = places.map(|at| self.words(at..at + SLOW_WORDS));
        let now_unix_ms = request.unix_ms + request.duration_us / 1000;
        let kept_us = |words: &&[AtomicU64]| {
            let kept = record::read(words).map(|record| slow(&record));
            kept.filter(|kept| is_recent(kept, now_unix_ms)).map_or(0, |kept| kept.duration_us)
        };
        let Some(place) = places.min_by_key(kept_us) else { return };
        if kept_us(&place) >= request.duration_us {
            return;
        }
        let mut record = Writer::default();
        for number in numbers(request) {
            record.number(number);
        }
        record.text(request.request.as_bytes(), REQUEST_BYTES);
        record.text(request.host.as_bytes(), HOST_BYTES);
        record::write(place, &record.0);
    }
}

/// Under which name the history knows a worker.
pub(crate) fn worker_name(pid: u64) -> String {
    format!("worker {pid}")
}

fn get(head: &[AtomicU64], what: Head) -> u64 {
    head[what as usize].load(Ordering::Acquire)
}

fn busy_us(head: &[AtomicU64], now_us: u64) -> u64 {
    let since_us = get(head, Head::BusySince).checked_sub(1);
    get(head, Head::BusyUs) + since_us.map_or(0, |since_us| now_us.saturating_sub(since_us))
}

/// Why a job slept, as far as the kernel's counts tell it.
fn cause(job: &Job, device: &str, (before, after): (ThreadUsage, ThreadUsage)) -> Option<Cause> {
    // A device's name ends in the type of its file system: `/srv (ext4)`.
    let filesystem = device.rsplit_once('(').and_then(|(_, filesystem)| filesystem.strip_suffix(')'));
    match () {
        () if filesystem.is_some_and(is_remote) => Some(Cause::Remote),
        () if after.major_faults > before.major_faults => Some(Cause::PageFault),
        () if after.sectors_read == before.sectors_read => None,
        () if matches!(job, Job::Load(_)) => Some(Cause::PageCacheRead),
        () => Some(Cause::MetadataRead),
    }
}

fn block(record: &[u64]) -> BlockSnapshot {
    let mut reader = Reader(record);
    BlockSnapshot {
        unix_ms: reader.number(),
        duration_us: reader.number(),
        call: reader.text(CALL_BYTES),
        path: reader.text(PATH_BYTES),
        cause: reader.text(CAUSE_BYTES),
    }
}

fn numbers(of: &SlowRequest) -> [u64; 10] {
    let status = of.status.into();
    let SlowRequest { unix_ms, body_bytes, duration_us, walk_us, open_us, read_us, queue_us, .. } = *of;
    [unix_ms, status, body_bytes, duration_us, walk_us, open_us, read_us, queue_us, of.help_us, of.send_us]
}

fn slow(record: &[u64]) -> SlowRequest {
    let mut reader = Reader(record);
    let mut numbers = [0; 10];
    numbers.fill_with(|| reader.number());
    let [unix_ms, status, body_bytes, duration_us, walk_us, open_us, read_us, queue_us, help_us, send_us] =
        numbers;
    SlowRequest {
        unix_ms,
        request: reader.text(REQUEST_BYTES),
        host: reader.text(HOST_BYTES),
        status: status as u16,
        body_bytes,
        duration_us,
        walk_us,
        open_us,
        read_us,
        queue_us,
        help_us,
        send_us,
    }
}

/// Whether the request has ended in the last minute.
fn is_recent(request: &SlowRequest, now_unix_ms: u64) -> bool {
    request.unix_ms + request.duration_us / 1000 + MINUTE_MS > now_unix_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> (Arc<Board>, OwnRow) {
        let board = Arc::new(Board::new(3).unwrap());
        let row = board.enter(1, 7, 2).unwrap();
        (board, row)
    }

    fn request(unix_ms: u64, duration_us: u64) -> SlowRequest {
        let request = format!("GET /{} HTTP/1.1", "x".repeat(300));
        let host = "a.example".into();
        SlowRequest { unix_ms, duration_us, status: 200, help_us: 5, request, host, ..SlowRequest::default() }
    }

    #[test]
    fn a_row_is_its_workers_as_long_as_that_is_there() {
        let (board, row) = board();
        row.busy(true);
        let workers = board.workers();
        let [worker] = &workers[..] else { panic!("{workers:?}") };
        assert_eq!((worker.pid, worker.number, worker.generation), (process::id(), 7, 2));
        assert!(
            worker.busy && worker.connections == 1 && worker.job.is_none() && worker.last_block.is_none()
        );
        row.busy(false);
        assert!(!board.workers()[0].busy);
        row.leave();
        assert!(board.workers().is_empty() && board.busy_us().next().is_none());
        assert!(board.enter(3, 0, 1).is_none(), "there are three");
        assert_eq!(ROW_WORDS * 8 / 1024, 3, "kilobytes");
    }

    #[test]
    fn the_slowest_requests_of_a_minute_are_kept() {
        let (board, row) = board();
        for duration_us in (1..=20).map(|ms| ms * 1000) {
            row.add_slow(&request(1_000_000, duration_us));
        }
        let slowest = board.slowest(1_010_000);
        let durations: Vec<u64> = slowest.iter().map(|one| one.duration_us / 1000).collect();
        assert_eq!(durations, [20, 19, 18, 17, 16, 15, 14, 13]);
        assert_eq!((slowest[0].status, slowest[0].help_us, &*slowest[0].host), (200, 5, "a.example"));
        assert_eq!(slowest[0].request.len(), REQUEST_BYTES);
        assert!(board.slowest(1_061_000).is_empty(), "a minute later");
        row.add_slow(&request(1_070_000, 1000));
        assert_eq!(board.slowest(1_071_000).len(), 1, "an old one gives its place");
        // The next worker in this row begins anew.
        board.enter(1, 7, 3).unwrap();
        assert!(board.slowest(1_071_000).is_empty());
    }

    #[test]
    fn devices_of_jobs_are_told() {
        let (board, row) = board();
        let mut record = Writer::default();
        record.number(board.devices.number("/srv (ext4)").into());
        record.number(0);
        record.text(b"/a.txt", PATH_BYTES);
        record::write(row.words(JOB), &record.0);
        let devices = || board.devices(&board.workers());
        assert_eq!((devices().len(), devices()[0].in_flight), (1, 0));
        row.set(Head::JobSince, 1);
        let worker = board.workers().remove(0);
        assert_eq!(worker.job.as_ref().map(|job| (&*job.mount, &*job.path)), Some(("/srv (ext4)", "/a.txt")));
        assert_eq!((devices().len(), devices()[0].in_flight, devices()[0].healthy), (1, 1, None));
    }
}
