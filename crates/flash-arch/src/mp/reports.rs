//! What the workers of a generation tell of themselves, for the status page: in memory that they share with the parent.
//!
//! Each worker has a row, and one thread of it writes each record there. It waits for nobody. The parent reads. A row that no worker has had
//! takes no memory.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use flash_core::job::Job;
use flash_disk::Disk;
use flash_os::shared_array::SharedWords;
use flash_os::thread_usage::{self, ThreadUsage};
use flash_sleep::{Cause, is_remote};
use serde::{Deserialize, Serialize};

use super::shared_record;
use crate::admin::snapshot::{
    BlockSnapshot, DeviceSnapshot, JobSnapshot, RootFault, SlowRequest, WorkerSnapshot,
};
use crate::blocking_call;
use crate::clock;

/// Longer paths and names are cut.
const TEXT_BYTES_MAX: usize = 128;
/// So many slow requests fit, however many characters of their texts are escaped.
const SLOW_MAX: usize = 8;

/// The words of a worker that are single numbers.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Number {
    Pid,
    /// Since when it has a connection, in microseconds since the server's start, plus one.
    BusySince,
    BusyUs,
    Connections,
}

const HEAD_WORDS: usize = 4;
/// More folders with faults are left out.
const ROOT_FAULTS_MAX: usize = 8;
/// The records of a row: its jobs, its slowest requests, and what is wrong with it.
const JOBS: Range<usize> = 0..512;
const SLOWEST: Range<usize> = JOBS.end..JOBS.end + 2700;
const FAULTS: Range<usize> = SLOWEST.end..SLOWEST.end + 1000;
const ROW_WORDS: usize = FAULTS.end;

/// The rows of all workers.
pub(super) struct Reports(Arc<Memory>);

/// Heads lie together, because they are read even where there is no worker.
struct Memory {
    heads: SharedWords,
    rows: SharedWords,
}

/// The row of a worker, in its own process.
pub(super) struct OwnReport {
    memory: Arc<Memory>,
    number: usize,
    jobs: RefCell<Jobs>,
}

/// What a worker tells of its jobs.
#[derive(Default, Serialize, Deserialize)]
struct Jobs {
    /// The job that is under way, or the last one.
    job: Option<JobSnapshot>,
    /// When the job that is under way began, in microseconds since the server's start.
    since_us: Option<u64>,
    /// Sleeps in jobs.
    blocks: u64,
    last_block: Option<BlockSnapshot>,
}

/// What a worker's thread had used before a job.
pub(super) struct JobUsage {
    usage: ThreadUsage,
    begun: Instant,
}

impl Reports {
    pub(super) fn new(workers_max: usize) -> io::Result<Self> {
        let heads = SharedWords::zeroed(workers_max * HEAD_WORDS)?;
        Ok(Self(Arc::new(Memory { heads, rows: SharedWords::zeroed(workers_max * ROW_WORDS)? })))
    }

    /// Forgets what an earlier worker of this number has told.
    pub(super) fn clear(&self, number: usize) {
        self.0.head(number).iter().for_each(|word| word.store(0, Ordering::Release));
        [JOBS, SLOWEST, FAULTS]
            .into_iter()
            .for_each(|record| shared_record::write(self.0.record(number, record), &()));
    }

    /// This process is the worker of this number from now on.
    pub(super) fn enter(&self, number: usize) -> OwnReport {
        self.clear(number);
        let own = OwnReport { memory: Arc::clone(&self.0), number, jobs: RefCell::default() };
        own.set(Number::Pid, process::id().into());
        own
    }

    /// The workers that there are, by their numbers.
    fn taken(&self) -> impl Iterator<Item = (usize, &[AtomicU64])> {
        self.0.heads.chunks(HEAD_WORDS).enumerate().filter(|(_, head)| get(head, Number::Pid) != 0)
    }

    /// The process of each worker, and how long it has had connections.
    pub(super) fn busy_us(&self) -> impl Iterator<Item = (u32, u64)> {
        let now_us = clock::server_us(Instant::now());
        self.taken().map(move |(_, head)| (get(head, Number::Pid) as u32, busy_us(head, now_us)))
    }

    /// What each worker does, and the device of its present or last job.
    pub(super) fn all(&self) -> impl Iterator<Item = (WorkerSnapshot, Option<DeviceSnapshot>)> {
        let now_us = clock::server_us(Instant::now());
        self.taken().map(move |(number, head)| self.0.of_worker(number, head, now_us))
    }

    /// The slowest requests of each worker.
    pub(super) fn slowest(&self) -> impl Iterator<Item = SlowRequest> {
        let told = |number| shared_record::read::<Vec<SlowRequest>>(self.0.record(number, SLOWEST));
        self.taken().filter_map(move |(number, _)| told(number)).flatten()
    }

    /// What is wrong with each worker's folders, and whether it has dropped lines of a log lately.
    pub(super) fn faults(&self) -> impl Iterator<Item = (Vec<RootFault>, bool)> {
        self.taken().filter_map(|(number, _)| shared_record::read(self.0.record(number, FAULTS)))
    }
}

impl Memory {
    fn head(&self, number: usize) -> &[AtomicU64] {
        &self.heads[number * HEAD_WORDS..][..HEAD_WORDS]
    }

    fn record(&self, number: usize, record: Range<usize>) -> &[AtomicU64] {
        &self.rows[number * ROW_WORDS..][record]
    }

    fn of_worker(
        &self,
        number: usize,
        head: &[AtomicU64],
        now_us: u64,
    ) -> (WorkerSnapshot, Option<DeviceSnapshot>) {
        let told = shared_record::read(self.record(number, JOBS));
        let Jobs { job, since_us, blocks, last_block } = told.unwrap_or_default();
        let duration_us = since_us.map(|since_us| now_us.saturating_sub(since_us));
        let device = job.as_ref().map(|job| DeviceSnapshot {
            mount: job.mount.clone(),
            kind: job.kind.clone(),
            in_flight: u64::from(duration_us.is_some()),
            oldest_us: duration_us.unwrap_or_default(),
            ..DeviceSnapshot::default()
        });
        let worker = WorkerSnapshot {
            pid: get(head, Number::Pid) as u32,
            number: number as u64,
            busy: get(head, Number::BusySince) != 0,
            busy_us: busy_us(head, now_us),
            connections: get(head, Number::Connections),
            blocks,
            job: job.zip(duration_us).map(|(job, duration_us)| JobSnapshot { duration_us, ..job }),
            last_block,
            ..WorkerSnapshot::default()
        };
        (worker, device)
    }
}

impl OwnReport {
    /// The worker ends, and tells nothing any more. The next one of its number may have the row already.
    pub(super) fn leave(&self) {
        let pid = &self.memory.head(self.number)[Number::Pid as usize];
        let _ = pid.compare_exchange(process::id().into(), 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn set(&self, what: Number, value: u64) {
        self.memory.head(self.number)[what as usize].store(value, Ordering::Release);
    }

    fn add(&self, what: Number, count: u64) {
        // Not an atomic addition: only one thread adds.
        self.set(what, get(self.memory.head(self.number), what) + count);
    }

    /// The worker has a connection from now on, or has none any more.
    pub(super) fn busy(&self, is_busy: bool) {
        let now_us = clock::server_us(Instant::now());
        let before = get(self.memory.head(self.number), Number::BusySince).checked_sub(1);
        self.add(Number::BusyUs, before.map_or(0, |since_us| now_us.saturating_sub(since_us)));
        self.set(Number::BusySince, if is_busy { now_us + 1 } else { 0 });
        self.add(Number::Connections, is_busy.into());
    }

    /// Tells the slowest requests from now on.
    pub(super) fn tells_slowest(&self) -> impl Fn(&[SlowRequest]) + Send + Sync + use<> {
        let (memory, number) = (Arc::clone(&self.memory), self.number);
        move |slowest| {
            let slowest = &slowest[..slowest.len().min(SLOW_MAX)];
            shared_record::write(memory.record(number, SLOWEST), &slowest);
        }
    }

    /// Tells from now on what is wrong.
    pub(super) fn tells_faults(&self) -> impl Fn((Vec<RootFault>, bool)) + Send + use<> {
        let (memory, number) = (Arc::clone(&self.memory), self.number);
        move |(mut roots, drops_lines)| {
            roots.truncate(ROOT_FAULTS_MAX);
            roots.iter_mut().for_each(|root| root.folder = text(root.folder.as_bytes()));
            shared_record::write(memory.record(number, FAULTS), &(roots, drops_lines));
        }
    }

    fn tell(&self, jobs: &Jobs) {
        shared_record::write(self.memory.record(self.number, JOBS), jobs);
    }

    /// The worker begins with a job, which may wait for the disk.
    pub(super) fn begin_job(&self, job: &Job, disk: &Disk) -> JobUsage {
        let is_listing = matches!(job, Job::List(_) | Job::Folder(_));
        let mut jobs = self.jobs.borrow_mut();
        jobs.job = Some(JobSnapshot {
            mount: text(disk.device_name(disk.device_for(job)).as_bytes()),
            kind: if is_listing { "listings" } else { "files" }.into(),
            path: text(&blocking_call::path_of_job(job)),
            duration_us: 0,
        });
        let begun = Instant::now();
        jobs.since_us = Some(clock::server_us(begun));
        self.tell(&jobs);
        JobUsage { usage: thread_usage::current(), begun }
    }

    /// The job is done. If the worker has slept meanwhile, that is its last block.
    pub(super) fn end_job(&self, JobUsage { usage: before, begun }: JobUsage, job: &Job, disk: &Disk) {
        let after = thread_usage::current();
        let slept = after.voluntary_switches - before.voluntary_switches;
        let mut jobs = self.jobs.borrow_mut();
        jobs.since_us = None;
        jobs.blocks += slept;
        if slept > 0 {
            let (call, path) = blocking_call::of_job(job);
            let device = disk.device_name(disk.device_for(job));
            jobs.last_block = Some(BlockSnapshot {
                unix_ms: clock::unix_ms(),
                duration_us: begun.elapsed().as_micros() as u64,
                call: call.into(),
                path: text(&path),
                cause: cause(job, &device, (before, after)).map_or("", Cause::name).into(),
            });
        }
        self.tell(&jobs);
    }
}

fn get(head: &[AtomicU64], what: Number) -> u64 {
    head[what as usize].load(Ordering::Acquire)
}

fn busy_us(head: &[AtomicU64], now_us: u64) -> u64 {
    let since_us = get(head, Number::BusySince).checked_sub(1);
    get(head, Number::BusyUs) + since_us.map_or(0, |since_us| now_us.saturating_sub(since_us))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]).into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_its_workers_as_long_as_that_is_there() {
        let reports = Reports::new(3).unwrap();
        let own = reports.enter(1);
        own.busy(true);
        let all = || reports.all().map(|(worker, _)| worker).collect::<Vec<_>>();
        let workers = all();
        let [worker] = &workers[..] else { panic!("{workers:?}") };
        assert_eq!((worker.pid, worker.number, worker.connections), (process::id(), 1, 1));
        assert!(worker.busy && worker.job.is_none() && worker.last_block.is_none());
        own.busy(false);
        assert!(!all()[0].busy);
        own.leave();
        assert!(all().is_empty() && reports.busy_us().next().is_none());
    }

    #[test]
    fn the_longest_texts_of_slow_requests_fit() {
        let reports = Reports::new(1).unwrap();
        let own = reports.enter(0);
        let text = || "\u{1}".repeat(200);
        let slow =
            |duration_us| SlowRequest { duration_us, request: text(), host: text(), ..Default::default() };
        let all: Vec<SlowRequest> = (0..20).map(|ms| slow(u64::MAX - ms)).collect();
        own.tells_slowest()(&all);
        assert_eq!(reports.slowest().collect::<Vec<_>>(), all[..SLOW_MAX]);
        reports.enter(0);
        assert!(reports.slowest().next().is_none(), "the next worker begins anew");
    }

    #[test]
    fn the_longest_names_of_folders_with_faults_fit() {
        let reports = Reports::new(1).unwrap();
        let own = reports.enter(0);
        assert!(reports.faults().next().is_none());
        let fault = |_| RootFault { folder: "\u{1}".repeat(4096), why: "cannot be looked at again".into() };
        own.tells_faults()(((0..100).map(fault).collect(), true));
        let (roots, drops_lines) = reports.faults().next().unwrap();
        assert!(drops_lines && roots.len() == ROOT_FAULTS_MAX && roots[0].folder.len() == TEXT_BYTES_MAX);
        own.leave();
        assert!(reports.faults().next().is_none());
    }

    #[test]
    fn devices_of_jobs_are_told() {
        let reports = Reports::new(1).unwrap();
        let own = reports.enter(0);
        let long = |byte: &str| text(byte.repeat(300).as_bytes());
        let job = JobSnapshot { mount: long("m"), kind: "files".into(), path: long("\u{1}"), duration_us: 0 };
        let last_block = Some(BlockSnapshot { path: long("\u{1}"), ..BlockSnapshot::default() });
        let told = |since_us| {
            own.tell(&Jobs { job: Some(job.clone()), since_us, last_block: last_block.clone(), blocks: 1 });
            let (worker, device) = reports.all().next().unwrap();
            (worker.job.map(|job| job.path), device.map(|device| (device.mount, device.in_flight)))
        };
        assert_eq!(told(Some(1)), (Some(job.path.clone()), Some((job.mount.clone(), 1))));
        assert_eq!(told(None), (None, Some((job.mount.clone(), 0))), "the last job is over");
    }
}
