//! A pool of helpers: equal jobs are one, too many are refused, idle helpers leave, and a panic is its job's own.

mod looks;

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};

use flash_core::ExchangeId;
use flash_core::file::entry::{Entry, Resource};
use flash_core::file::header::HeaderTemplate;
use flash_core::file::{Content, OpenFile, Stamp, Window};
use flash_core::job::{Find, Job, List, Listed, Load};
use flash_core::listing::Order;
use flash_core::path::SitePath;
use flash_core::record::Peer;
use flash_core::record::counters::Count;
use flash_core::server::Settings;
use flash_core::site::id::SiteId;
use tempfile::TempDir;

use super::*;
use crate::completion_queue::CompletionQueue;
use crate::fair_queue::ClientNetwork;
use crate::{Limits, testing};

/// A pool for a site in a folder for temporary files, with a completion queue for their results.
struct Bench {
    folder: TempDir,
    pool: Arc<Pool>,
    completions: Arc<CompletionQueue>,
    results: Vec<(u64, Outcome)>,
}

/// The longest that a test waits for what has to happen.
pub(in crate::helpers) const PATIENCE: Duration = Duration::from_secs(120);

impl Bench {
    fn new(helpers_max: usize, queue_max: usize) -> Self {
        Self::with_deadline(helpers_max, queue_max, Settings::default().disk_deadline_ms)
    }

    fn with_deadline(helpers_max: usize, queue_max: usize, disk_deadline_ms: u64) -> Self {
        let folder = TempDir::new().unwrap();
        let limits = Limits { connections_max: 1, handshakes_max: 100, ..Limits::default() };
        let shared = testing::shared(folder.path(), limits, disk_deadline_ms);
        let limits = HelperLimits { helpers_max, queue_max };
        let pool =
            Pool::start(Device::ELSEWHERE, limits, shared, Arc::new(Watchdog::new(disk_deadline_ms)), None)
                .unwrap();
        Self { folder, pool, completions: Arc::new(CompletionQueue::new().unwrap()), results: Vec::new() }
    }

    /// Asks for a job; its result is to be told to this token.
    fn submit(&self, job: &Job, token: u64) -> bool {
        self.submit_at(job, token, Instant::now())
    }

    fn submit_at(&self, job: &Job, token: u64, came: Instant) -> bool {
        let waiter = Some(Waiter {
            completions: Arc::clone(&self.completions),
            token,
            exchange: ExchangeId::default(),
            client: ClientNetwork::default(),
        });
        self.pool.submit(Submission { job: job.clone(), waiter, came }).is_ok()
    }

    /// Asks for a job whose result nobody waits for.
    fn submit_for_nobody(&self, job: Job) -> Result<(), SubmitError> {
        self.pool.submit(Submission { job, waiter: None, came: Instant::now() })
    }

    /// Waits until so many results are there, and returns their tokens in order.
    #[track_caller]
    fn completed(&mut self, count: usize) -> Vec<u64> {
        self.wait_until("everybody is told", |bench| {
            let results = bench.completions.drain().map(|(token, completion)| (token, completion.outcome()));
            bench.results.extend(results);
            bench.results.len() >= count
        });
        let mut tokens: Vec<u64> = self.results.iter().map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        tokens
    }

    #[track_caller]
    fn wait_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let give_up = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < give_up, "waited in vain: {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn watch(&self) -> bool {
        self.pool.watch(Instant::now(), |_, helper| helper.ns(), |_| false)
    }

    fn metrics(&self) -> (u64, u64, u64, u64) {
        let metrics = &self.pool.shared.metrics;
        (
            metrics.get(Count::HelperJobs),
            metrics.get(Count::Joined),
            metrics.get(Count::QueueFull),
            metrics.get(Count::Panics),
        )
    }
}

/// A file whose windows a helper waits for until the test lets go.
#[derive(Debug)]
struct Latch {
    descriptor: File,
    begun: Sender<()>,
    open: Mutex<Receiver<()>>,
}

/// A file of which to ask windows, and the test's side of its latch.
pub(in crate::helpers) fn gated() -> (Arc<flash_core::file::File>, Receiver<()>, Sender<()>) {
    let (begun, has_begun) = channel();
    let (let_go, open) = channel();
    let descriptor = File::open("/dev/null").unwrap();
    (made(Content::Open(Arc::new(Latch { descriptor, begun, open: Mutex::new(open) }))), has_begun, let_go)
}

fn made(content: Content) -> Arc<flash_core::file::File> {
    let stamp = Stamp { size: 1 << 20, ..Stamp::default() };
    let media = flash_http::media::of(b"x.bin");
    Arc::new(flash_core::file::File::new(
        stamp,
        media,
        None,
        false,
        (&HeaderTemplate::default(), None),
        content,
    ))
}

impl AsFd for Latch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl OpenFile for Latch {
    fn window_now(&self, _: &Stamp, _: Range<u64>) -> Window {
        Window::Absent
    }

    fn load_window(&self, _: &Stamp, _: Range<u64>, _: bool) -> Window {
        // A test that has failed is not there any more to be told, or to let go.
        let _ = self.begun.send(());
        let _ = self.open.lock().recv_timeout(PATIENCE);
        Window::Warmed
    }

    fn wait_for_window(&self, _: &Stamp, window: Range<u64>, _: u64) -> Window {
        Window::Resident(window)
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}

/// A file whose disk has a bug.
#[derive(Debug)]
struct Buggy(File);

impl AsFd for Buggy {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl OpenFile for Buggy {
    fn window_now(&self, _: &Stamp, _: Range<u64>) -> Window {
        Window::Absent
    }

    fn load_window(&self, _: &Stamp, _: Range<u64>, _: bool) -> Window {
        panic!("a bug, on purpose")
    }

    fn wait_for_window(&self, _: &Stamp, window: Range<u64>, _: u64) -> Window {
        Window::Resident(window)
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}

fn load(file: &Arc<flash_core::file::File>, start: u64, copy: bool) -> Job {
    let (file, window, goes_to) = (Arc::clone(file), start..start + 10, start + 10);
    Job::Load(Load { site: None, file, window, goes_to, copy, completes: None })
}

fn client(number: u8) -> ClientNetwork {
    ClientNetwork::of(Peer::Inet(([10, 0, 0, number], 1).into()))
}

/// A second look.
fn look(path: &str) -> Job {
    let Job::Find(job) = find(path) else { unreachable!() };
    let known = Arc::new(Entry::new(Resource::Missing, 0));
    Job::Find(Find { known: Some(known), ..job })
}

fn find(path: &str) -> Job {
    Job::Find(Find::first(SiteId(0), SitePath::parse(path.as_bytes()).unwrap().into_owned()))
}

#[test]
fn equal_jobs_are_done_once_and_everybody_is_told() {
    let mut bench = Bench::new(4, 64);
    let (file, has_begun, let_go) = gated();
    assert!(bench.submit(&load(&file, 0, false), 1));
    has_begun.recv_timeout(PATIENCE).unwrap();
    assert!(bench.submit(&load(&file, 0, false), 2));
    assert!(bench.submit(&load(&file, 0, false), 3));
    assert!(bench.submit_for_nobody(load(&file, 0, false)).is_ok(), "nobody has to wait for a job");
    assert!(bench.completions.drain().next().is_none());
    let_go.send(()).unwrap();
    assert_eq!(bench.completed(3), [1, 2, 3]);
    assert!(bench.results.iter().all(|(_, outcome)| matches!(outcome.done, Done::Window(Window::Warmed))));
    assert_eq!(bench.metrics(), (1, 3, 0, 0));
    assert!(has_begun.try_recv().is_err(), "it was done once");
    // And after it has ended, the next one is a job of its own.
    let_go.send(()).unwrap();
    assert!(bench.submit(&load(&file, 0, false), 4));
    assert_eq!(bench.completed(4), [1, 2, 3, 4]);
}

#[test]
fn jobs_that_differ_are_not_joined() {
    let mut bench = Bench::new(8, 16);
    let (file, has_begun, let_go) = gated();
    let (other, other_has_begun, other_let_go) = gated();
    for (token, job) in
        [load(&file, 0, false), load(&file, 10, false), load(&file, 0, true)].iter().enumerate()
    {
        assert!(bench.submit(job, token as u64));
    }
    assert!(bench.submit(&load(&other, 0, false), 3));
    for _ in 0..3 {
        // All of them wait behind the same latch, one after the other or not.
        let_go.send(()).unwrap();
    }
    other_let_go.send(()).unwrap();
    assert_eq!(bench.completed(4), [0, 1, 2, 3]);
    assert_eq!((has_begun.try_iter().count(), other_has_begun.try_iter().count()), (3, 1));
    assert_eq!(bench.metrics().1, 0);
}

#[test]
fn equal_paths_of_two_sites_are_two_jobs() {
    let mut state = PoolState::default();
    let mut is_new = |site| {
        let Job::Find(find) = find("/a") else { unreachable!() };
        let job = Job::Find(Find { site, ..find });
        match state.join(Submission { job, waiter: None, came: Instant::now() }) {
            Ok(()) => false,
            Err((key, submission)) => {
                state.queue_up(key, submission);
                true
            }
        }
    };
    assert!(is_new(SiteId(0)) && is_new(SiteId(1)), "no site receives another's file");
    assert!(!is_new(SiteId(0)) && !is_new(SiteId(1)));
}

#[test]
fn steps_of_one_listing_are_joined_and_pages_of_it_are_jobs_of_their_own() {
    let mut state = PoolState::default();
    let bench = Bench::new(1, 16);
    let list = |listing, order, page| {
        let path = SitePath::parse(b"/").unwrap().into_owned();
        let job = Job::List(List { site: SiteId(0), path, order, asked_ms: 0, listing, page });
        Submission { job, waiter: None, came: Instant::now() }
    };
    let (by_name, other) = (Order::default(), Order { descending: true, ..Order::default() });
    let mut is_new = |submission: Submission| match state.join(submission) {
        Ok(()) => false,
        Err((key, submission)) => {
            state.queue_up(key, submission);
            true
        }
    };
    assert!(is_new(list(None, by_name, 0)) && !is_new(list(None, by_name, 0)));
    assert!(is_new(list(None, other, 0)), "another order");
    // One that has begun by now, and is ready after its first step.
    let Done::Listed(Listed { listing, .. }) = bench.pool.shared.disk.run(&list(None, by_name, 0).job).done
    else {
        panic!("no listing");
    };
    assert!(listing.is_ready());
    let ready = || Some(Arc::clone(&listing));
    assert!(is_new(list(ready(), by_name, 0)) && !is_new(list(ready(), by_name, 0)));
    assert!(is_new(list(ready(), by_name, 1)), "another page");
}

#[test]
fn a_full_queue_refuses_and_recovers() {
    let mut bench = Bench::new(1, 2);
    let (file, has_begun, let_go) = gated();
    assert!(bench.submit(&load(&file, 0, false), 0));
    has_begun.recv_timeout(PATIENCE).unwrap();
    assert!(bench.submit(&load(&file, 10, false), 1));
    assert!(bench.submit(&load(&file, 20, false), 2));
    assert!(!bench.submit(&load(&file, 30, false), 3), "two wait already");
    assert!(bench.submit(&load(&file, 20, false), 4), "one that is joined takes no place");
    assert_eq!(bench.metrics(), (0, 1, 1, 0));
    for _ in 0..3 {
        let_go.send(()).unwrap();
    }
    assert_eq!(bench.completed(4), [0, 1, 2, 4], "who was refused is not told later");
    let_go.send(()).unwrap();
    assert!(bench.submit(&load(&file, 30, false), 5));
    assert_eq!(bench.completed(5), [0, 1, 2, 4, 5]);
}

#[test]
fn a_request_does_not_get_what_was_looked_up_long_before() {
    let mut bench = Bench::new(1, 16);
    std::fs::write(bench.folder.path().join("a.txt"), "a").unwrap();
    assert!(bench.submit(&find("/a.txt"), 0));
    bench.completed(1);
    // A look that takes long, and two requests that come while it is under way.
    let mut state = bench.pool.state.lock();
    let begun = Instant::now();
    let job = find("/a.txt");
    let submission = |token, came| {
        let waiter = Waiter {
            completions: Arc::clone(&bench.completions),
            token,
            exchange: ExchangeId::default(),
            client: ClientNetwork::default(),
        };
        Submission { job: job.clone(), waiter: Some(waiter), came }
    };
    let Err((key, first)) = state.join(submission(1, begun)) else { panic!("nothing is under way") };
    state.queue_up(key, first);
    let (task, charge) = state.queue.pop(50).unwrap();
    let clock = Arc::new(CurrentClock::new(CpuClock::of_this_thread()));
    state.begin(task.number, charge, server_us(begun), clock);
    let good_for = Duration::from_millis(Settings::default().revalidate_ms);
    assert!(state.join(submission(2, begun + good_for)).is_ok());
    assert!(state.join(submission(3, begun + good_for + Duration::from_millis(1))).is_ok());
    drop(state);
    let Done::Found(old) = bench.results[0].1.done.clone() else { panic!("it is there") };
    let outcome = Some(Done::Found(Arc::clone(&old)).into());
    std::fs::write(bench.folder.path().join("a.txt"), "changed").unwrap();
    bench.pool.finish(&task, begun, outcome, || begun + 2 * good_for);
    assert_eq!(bench.completed(4), [0, 1, 2, 3]);
    for (token, outcome) in &bench.results[1..] {
        let Done::Found(entry) = &outcome.done else { panic!("{outcome:?}") };
        assert_eq!(Arc::ptr_eq(entry, &old), *token != 3, "{token}");
    }
}

#[test]
fn there_are_as_many_helpers_as_jobs_need_and_no_more_than_allowed() {
    let mut bench = Bench::new(3, 16);
    let (file, has_begun, let_go) = gated();
    for token in 0..5 {
        assert!(bench.submit(&load(&file, token * 10, false), token));
    }
    // A latch lets one wait at a time: the second of its helpers is not in it, but is there.
    has_begun.recv_timeout(PATIENCE).unwrap();
    bench.wait_until("all are there", |bench| bench.pool.state.lock().helpers == 3);
    for _ in 0..5 {
        let_go.send(()).unwrap();
    }
    assert_eq!(bench.completed(5), [0, 1, 2, 3, 4]);
    bench.wait_until("all are idle", |bench| bench.pool.state.lock().idle == 3);
    let_go.send(()).unwrap();
    assert!(bench.submit(&load(&file, 0, false), 5));
    bench.completed(6);
    assert_eq!(bench.pool.state.lock().started, 3, "an idle one took it");
}

#[test]
fn idle_helpers_leave_but_one_and_others_are_started() {
    let mut bench = Bench::new(2, 16);
    assert!(bench.submit(&find("/missing"), 0));
    bench.completed(1);
    let idle_since = Instant::now();
    bench.wait_until("all but one leave", |bench| bench.pool.state.lock().helpers == 1);
    assert!(idle_since.elapsed() > IDLE_MAX / 2, "not at once: the next job may be near");
    assert_eq!(bench.pool.state.lock().idle, 1);
    assert!(bench.submit(&find("/missing"), 1));
    assert_eq!(bench.completed(2), [0, 1]);
    bench.wait_until("there is a spare one again", |bench| bench.pool.state.lock().started == 3);
}

#[test]
fn a_panic_fails_its_own_job_and_no_other() {
    let mut bench = Bench::new(1, 16);
    let buggy = made(Content::Open(Arc::new(Buggy(File::open("/dev/null").unwrap()))));
    std::fs::write(bench.folder.path().join("a.txt"), "a").unwrap();
    assert!(bench.submit(&load(&buggy, 0, false), 0));
    assert!(bench.submit(&find("/a.txt"), 1));
    assert_eq!(bench.completed(2), [0, 1]);
    for (token, Outcome { done, .. }) in &bench.results {
        match token {
            0 => assert!(matches!(done, Done::Failed(Failure::Broken))),
            _ => assert!(matches!(done, Done::Found(_))),
        }
    }
    assert_eq!(bench.metrics(), (2, 0, 0, 1));
    assert_eq!(bench.pool.state.lock().started, 1, "its helper lives on");
    assert!(bench.pool.state.lock().pending.is_empty());
}

#[test]
fn what_a_helper_finds_the_site_remembers() {
    let mut bench = Bench::new(1, 16);
    std::fs::write(bench.folder.path().join("a.txt"), "a").unwrap();
    assert!(bench.submit_for_nobody(find("/a.txt")).is_ok());
    bench.wait_until("it is found", |bench| bench.pool.shared.configuration().server.paths.entries() == 1);
    assert!(bench.completions.drain().next().is_none());
}

#[test]
fn a_device_that_hangs_is_down_until_a_job_comes_back() {
    // Long enough for a helper of low priority to begin a job on a busy machine.
    let mut bench = Bench::with_deadline(4, 16, 2_000);
    let (file, has_begun, let_go) = gated();
    assert!(bench.submit(&load(&file, 0, false), 0));
    has_begun.recv_timeout(PATIENCE).unwrap();
    let probe = || load(&file, 10, false);
    assert!(bench.watch(), "a helper is at work");
    // Asked with a queue, the breaker lets no probe pass.
    let state = |bench: &Bench| bench.pool.breaker.ask(server_us(Instant::now()), true);
    assert_eq!(state(&bench), BreakerState::Closed);
    bench.wait_until("it is down", |bench| {
        bench.watch();
        state(bench) == BreakerState::Open
    });
    // The next request is let through to see; its client is not kept waiting.
    assert_eq!(bench.submit_for_nobody(probe()), Err(SubmitError::DeviceDown));
    bench.wait_until("it is tried", |bench| bench.pool.state.lock().helpers == 3);
    assert_eq!(bench.submit_for_nobody(probe()), Err(SubmitError::DeviceDown));
    // Both hang at the same latch. It opens for one of them, and then for the other.
    let_go.send(()).unwrap();
    let_go.send(()).unwrap();
    bench.completed(1);
    bench.wait_until("it is up again", |bench| bench.submit_for_nobody(find("/a")).is_ok());
    bench.pool.shared.error_log.clone().close();
    let said = std::fs::read_to_string(bench.folder.path().join("errors")).unwrap();
    assert_eq!(said.matches("does not answer").count(), 1, "{said}");
    assert_eq!(said.matches("answers again").count(), 1, "{said}");
}

/// A pool whose only helper is in a read, and a request behind it that has waited for twice the deadline.
fn one_too_late() -> (Bench, Arc<flash_core::file::File>, Receiver<()>, Sender<()>) {
    let deadline = Duration::from_secs(10);
    let bench = Bench::with_deadline(1, 16, deadline.as_millis() as u64);
    let (file, has_begun, let_go) = gated();
    assert!(bench.submit(&load(&file, 0, false), 0));
    has_begun.recv_timeout(PATIENCE).unwrap();
    assert!(bench.submit_at(&load(&file, 10, false), 1, Instant::now() - 2 * deadline));
    (bench, file, has_begun, let_go)
}

fn is_late(outcome: &Outcome) -> bool {
    matches!(outcome.done, Done::Failed(Failure::TimedOut))
}

#[test]
fn who_waited_too_long_for_a_helper_costs_the_disk_nothing() {
    let (mut bench, _file, has_begun, let_go) = one_too_late();
    let_go.send(()).unwrap();
    bench.completed(2);
    for (token, outcome) in &bench.results {
        assert_eq!(is_late(outcome), *token == 1, "{token}: {outcome:?}");
    }
    assert!(has_begun.try_recv().is_err(), "the second was not begun");
}

#[test]
fn who_joins_a_job_late_has_the_time_of_its_own() {
    let (mut bench, file, _has_begun, let_go) = one_too_late();
    assert!(bench.submit(&load(&file, 10, false), 2));
    (0..2).for_each(|_| let_go.send(()).unwrap());
    bench.completed(3);
    assert!(bench.results.iter().all(|(_, outcome)| !is_late(outcome)), "{:?}", bench.results);
}
