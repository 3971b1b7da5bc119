//! Simulates a pool without threads, from a seed. Loops queue jobs, and helpers take and finish them, in any order and at
//! virtual times. After each step a plain model checks the pool's state.

use std::collections::{HashMap, HashSet};

use flash_core::ExchangeId;
use flash_core::cache::memory_budget::BudgetedBytes;
use flash_core::file::entry::{Entry, Resource};
use flash_core::file::header::HeaderTemplate;
use flash_core::file::{Content, File, Stamp};
use flash_core::job::{Find, List, Load};
use flash_core::listing::Order;
use flash_core::path::SitePath;
use flash_core::record::Peer;
use flash_core::server::Settings;
use flash_core::site::id::SiteId;
use tempfile::TempDir;

use super::*;
use crate::Limits;
use crate::completion_queue::CompletionQueue;
use crate::fair_queue::ClientNetwork;
use crate::testing::{self, Random, each_seed};

#[test]
fn every_waiter_gets_one_result_and_the_breaker_opens_as_specified() {
    let folder = TempDir::new().unwrap();
    let limits = Limits { connections_max: 1, handshakes_max: 100, ..Limits::default() };
    let shared = testing::shared(folder.path(), limits, DEADLINE_US / 1000);
    each_seed(1..40, |seed| Simulation::new(seed, &shared).run(2_000));
}

struct Simulation {
    random: Random,
    pool: Pool,
    completions: Arc<CompletionQueue>,
    jobs: Vec<Job>,
    base: Instant,
    now_us: u64,
    /// What helpers are at, with the number of the result that they will bring.
    in_flight: Vec<InFlight>,
    model: Model,
}

struct InFlight {
    task: Task,
    begun: Instant,
    number: u64,
    /// The helper uses the processor, and is in no call to the device for long.
    runs: bool,
    /// When the watcher last saw it move, or saw it first.
    seen_us: Option<u64>,
    moved_us: u64,
}

/// What is known without looking into the pool.
#[derive(Default)]
struct Model {
    /// Who waits, for which job, since when.
    waiting: HashMap<u64, (usize, u64)>,
    tokens: u64,
    /// Results, by number: the job, when it began, and the last token that was given out when its helper came back.
    results: HashMap<u64, (usize, u64, u64)>,
    came_back_us: Vec<u64>,
    is_down: bool,
    probed_us: Option<u64>,
    /// Helpers that could not be started since the last one was.
    missing: bool,
}

const DEADLINE_US: u64 = 2_000_000;
const PROBE_EVERY_US: u64 = 3_000_000;
/// A helper that has used the processor for less since the last look has not moved.
const PROGRESS_US: u64 = 50;

impl Simulation {
    fn new(seed: u64, shared: &Arc<ServerState>) -> Self {
        let mut random = Random::new(seed);
        let limits = HelperLimits {
            helpers_max: random.within(1..6) as usize,
            queue_max: random.within(1..12) as usize,
        };
        let pool = Pool::without_helpers(
            Device::ELSEWHERE,
            limits,
            Arc::clone(shared),
            Arc::new(Watchdog::new(DEADLINE_US / 1000)),
            None,
        );
        pool.state.lock().add_helper();
        let base = Instant::now();
        Self {
            random,
            pool,
            completions: Arc::new(CompletionQueue::new().unwrap()),
            jobs: jobs(),
            base,
            now_us: server_us(base),
            in_flight: Vec::new(),
            model: Model::default(),
        }
    }

    fn run(mut self, steps: usize) {
        for _ in 0..steps {
            self.time_passes();
            match self.random.within(0..100) {
                0..=4 => self.watch(),
                5..=44 => self.ask(),
                45..=69 => _ = self.take(),
                70..=94 => self.come_back(),
                _ => _ = self.pool.state.lock().may_leave(),
            }
            self.check_completions();
            self.check();
        }
        // Then all come back, and none is sent for that did not get its due.
        while !self.in_flight.is_empty() || self.take() {
            self.come_back();
            self.check_completions();
            self.check();
        }
        assert!(self.model.waiting.is_empty(), "forgotten: {:?}", self.model.waiting);
        assert_eq!(self.pool.waiting.load(Ordering::Relaxed), 0);
        assert!(self.pool.state.lock().pending.is_empty());
    }

    fn time_passes(&mut self) {
        self.now_us += match self.random.within(0..100) {
            0..=39 => 0,
            40..=94 => self.random.within(0..30_000),
            _ => self.random.within(0..2 * DEADLINE_US),
        };
    }

    fn now(&self) -> Instant {
        self.base + Duration::from_micros(self.now_us - server_us(self.base))
    }

    fn ask(&mut self) {
        let which = self.random.within(0..self.jobs.len() as u64) as usize;
        let client = *self.random.pick(&[1, 1, 1, 2, 3]);
        let client = ClientNetwork::of(Peer::Inet(([192, 0, 2, client], 1).into()));
        let waiter = Waiter {
            completions: Arc::clone(&self.completions),
            token: self.model.tokens,
            exchange: ExchangeId::default(),
            client,
        };
        let queued = self.pool.waiting.load(Ordering::Relaxed);
        let submission = Submission { job: self.jobs[which].clone(), waiter: Some(waiter), came: self.now() };
        let answer = self.pool.submit(submission);
        let is_probe = answer.is_err() && self.pool.waiting.load(Ordering::Relaxed) > queued;
        let queue_max = self.pool.limits.queue_max;
        if self.model.is_down {
            let is_due =
                queued == 0 && self.model.probed_us.is_none_or(|at| self.now_us >= at + PROBE_EVERY_US);
            assert_eq!(answer, Err(SubmitError::DeviceDown));
            assert_eq!(is_probe, is_due, "one at a time is let through to see");
            if is_probe {
                self.model.probed_us = Some(self.now_us);
            }
            return;
        }
        match answer {
            Ok(()) => drop(self.model.waiting.insert(self.model.tokens, (which, self.now_us))),
            Err(refusal) => {
                assert!(refusal == SubmitError::Full && queued >= queue_max, "{refusal:?}, {queued}");
                let state = self.pool.state.lock();
                assert!(
                    !is_look(&self.jobs[which]) || state.queue.tasks().all(|task| revalidates(&task.job)),
                    "a second look was refused, and a new name waits"
                );
            }
        }
        self.model.tokens += 1;
    }

    /// A helper without work looks for some. Returns whether there was a reason to.
    fn take(&mut self) -> bool {
        if self.pool.state.lock().idle == 0 || !self.pool.work.wait(Duration::ZERO) {
            return false;
        }
        let now = self.now();
        let clock = Arc::new(CurrentClock::new(CpuClock::of_this_thread()));
        if let Some((task, begun, another)) = self.pool.take(&clock, || now) {
            let number = self.model.results.len() as u64 + 1;
            let moved_us = server_us(begun);
            self.model.results.insert(number, (self.which(&task.job), moved_us, 0));
            let runs = self.random.chance(20);
            self.in_flight.push(InFlight { task, begun, number, runs, seen_us: None, moved_us });
            self.reported();
            if another.is_some() {
                self.model.missing = self.random.chance(10);
                if self.model.missing {
                    self.pool.state.lock().remove_helper();
                }
            }
        }
        true
    }

    fn come_back(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let place = self.random.within(0..self.in_flight.len() as u64) as usize;
        let InFlight { task, begun, number, .. } = self.in_flight.remove(place);
        self.model.results.get_mut(&number).unwrap().2 = self.model.tokens;
        let spent = Spent { read_ns: number, ..Spent::default() };
        let done = match (&task.job, self.random.chance(50)) {
            (Job::Find(_), true) => Done::Found(missing()),
            _ => Done::Failed(Failure::Broken),
        };
        // Some lead to where this pool does not go.
        let outcome =
            (is_look(&task.job) || !self.random.chance(5)).then_some(Outcome { done, spent, error: None });
        let now = self.now();
        self.pool.finish(&task, begun, outcome, || now);
        self.model.came_back_us.push(server_us(begun));
        self.reported();
    }

    /// The watcher comes by.
    fn watch(&mut self) {
        for job in &mut self.in_flight {
            match job.seen_us {
                None => job.seen_us = Some(self.now_us),
                Some(seen_us) if job.runs && self.now_us >= seen_us + PROGRESS_US => {
                    (job.seen_us, job.moved_us) = (Some(self.now_us), self.now_us);
                }
                Some(_) => {}
            }
        }
        let in_flight = &self.in_flight;
        let cpu_ns = |number: u64, _| {
            let runs = |job: &InFlight| job.runs && job.task.number == number;
            // What runs has had all the time since the beginning of time.
            Some(if in_flight.iter().any(runs) { self.now_us * 1_000_000 } else { 7 })
        };
        let at_work = self.pool.watch(self.now(), cpu_ns, |_| false);
        assert_eq!(at_work, !self.in_flight.is_empty());
        self.model.is_down |= self.is_late();
        self.reported();
    }

    /// Each job that begins or comes back shows whether the device answers again.
    fn reported(&mut self) {
        if !self.is_late() {
            (self.model.is_down, self.model.probed_us) = (false, None);
        }
    }

    fn check_completions(&mut self) {
        for (token, completion) in self.completions.drain() {
            let outcome = completion.outcome();
            let (which, came_us) =
                self.model.waiting.remove(&token).expect("whoever is told has asked and was not told yet");
            match (outcome.done, outcome.spent.read_ns) {
                (
                    Done::Failed(Failure::Overloaded) | Done::Unchecked { failure: Failure::Overloaded, .. },
                    _,
                ) => {
                    assert!(!is_look(&self.jobs[which]), "a second look was given up");
                }
                (done, number) => {
                    let (of, begun_us, last) = self.model.results[&number];
                    assert_eq!(of, which, "the result of another job");
                    assert!(token < last, "it asked when its job was over");
                    let good_for_us = Settings::default().revalidate_ms * 1000;
                    let is_old = matches!(done, Done::Found(_)) && came_us > begun_us + good_for_us;
                    assert!(!is_old, "it got what was looked up long before it asked");
                }
            }
        }
    }

    fn check(&self) {
        let state = self.pool.state.lock();
        let HelperLimits { helpers_max, queue_max } = self.pool.limits;
        let waiting = self.pool.waiting.load(Ordering::Relaxed);
        assert!(state.queue.len() <= waiting && waiting <= queue_max + helpers_max, "{waiting} wait");
        assert!(state.helpers <= helpers_max);
        assert_eq!(state.idle + self.in_flight.len(), state.helpers);
        assert!(
            state.idle > 0 || state.helpers == helpers_max || self.model.missing,
            "nobody is left to ask"
        );
        let mut kinds = HashSet::new();
        let begun = self.in_flight.iter().map(|job| &job.task);
        assert!(state.queue.tasks().chain(begun).all(|task| kinds.insert(&task.key)), "the same kind twice");
        assert_eq!(kinds.len(), state.pending.len());
    }

    /// The definition. A helper has not used the processor for longer than the deadline, and no job that began later has come
    /// back. If every helper has a job, no later job can begin; then all of them must be stuck.
    fn is_late(&self) -> bool {
        let is_late = |job: &InFlight| self.now_us - job.moved_us >= DEADLINE_US;
        let nothing_since = |begun: u64| self.model.came_back_us.iter().all(|back| *back < begun);
        let counts = |job: &&InFlight| nothing_since(server_us(job.begun));
        let all_taken = self.in_flight.len() >= self.pool.limits.helpers_max;
        self.in_flight.iter().filter(counts).any(is_late)
            || (all_taken
                && !self.in_flight.iter().any(|job| counts(&job))
                && self.in_flight.iter().all(is_late))
    }

    fn which(&self, job: &Job) -> usize {
        let is_it = |other: &Job| match (job, other) {
            (Job::Find(a), Job::Find(b)) => a.path == b.path,
            (Job::Load(a), Job::Load(b)) => {
                Arc::ptr_eq(&a.file, &b.file) && a.window == b.window && a.copy == b.copy
            }
            (Job::List(a), Job::List(b)) => a.path == b.path,
            _ => false,
        };
        self.jobs.iter().position(is_it).expect("it was asked for")
    }
}

fn missing() -> Arc<Entry> {
    Arc::new(Entry::new(Resource::Missing, 0))
}

/// A second look, or a name that is looked up once more because the first look was too old for some.
fn revalidates(job: &Job) -> bool {
    matches!(job, Job::Find(Find { known: Some(_), .. }))
}

fn is_look(job: &Job) -> bool {
    matches!(job, Job::Find(Find { known: Some(_), path, .. }) if path.as_bytes().starts_with(b"/known"))
}

/// A few, so that equals meet.
fn jobs() -> Vec<Job> {
    let path = |text: &'static str| SitePath::parse(text.as_bytes()).unwrap().into_owned();
    let find = |text| Job::Find(Find::first(SiteId(0), path(text)));
    let look = |text| Job::Find(Find { known: Some(missing()), ..Find::first(SiteId(0), path(text)) });
    let list = |text| {
        let (path, order) = (path(text), Order::default());
        Job::List(List { site: SiteId(0), path, order, asked_ms: 0, listing: None, page: 0 })
    };
    let content = Content::Memory(BudgetedBytes::from(vec![]).into());
    let media = flash_http::media::of(b"x.bin");
    let file = || {
        let template = HeaderTemplate::default();
        Arc::new(File::new(Stamp::default(), media, None, false, (&template, None), content.clone()))
    };
    let (one, other) = (file(), file());
    let load = |file: &Arc<File>, start, copy| {
        Job::Load(Load {
            site: None,
            file: Arc::clone(file),
            window: start..9,
            goes_to: 9,
            copy,
            completes: None,
        })
    };
    vec![
        find("/a"),
        find("/b"),
        find("/c"),
        find("/d"),
        look("/known-a"),
        look("/known-b"),
        load(&one, 0, false),
        load(&one, 1, false),
        load(&one, 0, true),
        load(&other, 0, false),
        list("/"),
        list("/a/"),
    ]
}
