//! A pool without threads, from a seed: loops ask, helpers take and come back, in any order and at virtual times, and
//! after each step a plain model says what must be so.

use std::collections::{HashMap, HashSet};

use flash_core::file::{Content, File, Stamp};
use flash_core::header::HeaderTemplate;
use flash_core::job::{Find, List, Load};
use flash_core::listing::Order;
use flash_core::path::SitePath;
use flash_core::room::Held;
use tempfile::TempDir;

use super::*;
use crate::inbox::Inbox;
use crate::testing::{self, Random, each_seed};
use crate::{Limits, Offload};

#[test]
fn everybody_is_told_once_and_sickness_is_what_it_is_said_to_be() {
    let folder = TempDir::new().unwrap();
    let limits = Limits { connections_max: 1, drain: Duration::ZERO };
    let shared = testing::shared(folder.path(), limits, DEADLINE_US / 1000);
    each_seed(1..40, |seed| Simulation::new(seed, &shared).run(2_000));
}

struct Simulation {
    random: Random,
    pool: Pool,
    inbox: Arc<Inbox>,
    jobs: Vec<Job>,
    base: Instant,
    now_us: u64,
    /// What helpers are at, with the number of the result that they will bring.
    under_way: Vec<(Task, Instant, u64)>,
    model: Model,
}

/// What is known without looking into the pool.
#[derive(Default)]
struct Model {
    /// Who waits, for which job.
    waiting: HashMap<u64, usize>,
    tokens: u64,
    /// Results, by number: the job, and the last token that was given out when its helper came back.
    results: HashMap<u64, (usize, u64)>,
    came_back_us: Vec<u64>,
    noticed: bool,
    probed_us: Option<u64>,
    /// Helpers that could not be started since the last one was.
    missing: bool,
}

const DEADLINE_US: u64 = 2_000_000;
const PROBE_EVERY_US: u64 = 3_000_000;

impl Simulation {
    fn new(seed: u64, shared: &Arc<Shared>) -> Self {
        let mut random = Random::new(seed);
        let limits = HelperLimits {
            helpers_max: random.within(1..6) as usize,
            queue_max: random.within(1..12) as usize,
            single_flight: random.chance(80),
            offload: Offload::Needed,
        };
        let pool = Pool::without_helpers(Device::ELSEWHERE, limits, Arc::clone(shared), None);
        pool.desk.lock().enrol();
        let base = Instant::now();
        Self {
            random,
            pool,
            inbox: Arc::new(Inbox::new().unwrap()),
            jobs: jobs(),
            base,
            now_us: server_us(base),
            under_way: Vec::new(),
            model: Model::default(),
        }
    }

    fn run(mut self, steps: usize) {
        for _ in 0..steps {
            self.time_passes();
            match self.random.within(0..100) {
                0..=44 => self.ask(),
                45..=69 => _ = self.take(),
                70..=94 => self.come_back(),
                _ => _ = self.pool.desk.lock().may_leave(),
            }
            self.hear();
            self.check();
        }
        // Then all come back, and none is sent for that did not get its due.
        while !self.under_way.is_empty() || self.take() {
            self.come_back();
            self.hear();
            self.check();
        }
        assert!(self.model.waiting.is_empty(), "forgotten: {:?}", self.model.waiting);
        assert_eq!(self.pool.waiting.load(Ordering::Relaxed), 0);
        assert!(self.pool.desk.lock().asked.is_empty());
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
        let waiter = Waiter { inbox: Arc::clone(&self.inbox), token: self.model.tokens };
        let queued = self.pool.waiting.load(Ordering::Relaxed);
        let arrival = Arrival { job: self.jobs[which].clone(), waiter: Some(waiter), came: self.now() };
        let answer = self.pool.submit(arrival);
        let is_probe = answer.is_err() && self.pool.waiting.load(Ordering::Relaxed) > queued;
        let queue_max = self.pool.limits.queue_max;
        if self.is_sick() {
            let is_due = self.model.noticed
                && queued == 0
                && self.model.probed_us.is_none_or(|at| self.now_us >= at + PROBE_EVERY_US);
            assert_eq!(answer, Err(Refusal::Sick));
            assert_eq!(is_probe, is_due, "one at a time is let through to see");
            self.model.noticed = true;
            if is_probe {
                self.model.probed_us = Some(self.now_us);
            }
            return;
        }
        match answer {
            Ok(()) => drop(self.model.waiting.insert(self.model.tokens, which)),
            Err(refusal) => assert!(refusal == Refusal::Full && queued == queue_max, "{refusal:?}, {queued}"),
        }
        self.model.tokens += 1;
    }

    /// A helper without work looks for some. Returns whether there was a reason to.
    fn take(&mut self) -> bool {
        if self.pool.desk.lock().idle == 0 || !self.pool.work.wait(Duration::ZERO) {
            return false;
        }
        let now = self.now();
        if let Some((task, begun, another)) = self.pool.take(|| now) {
            let number = self.model.results.len() as u64 + 1;
            self.model.results.insert(number, (self.which(&task.job), 0));
            self.under_way.push((task, begun, number));
            self.told();
            if another.is_some() {
                self.model.missing = self.random.chance(10);
                if self.model.missing {
                    self.pool.desk.lock().strike_off();
                }
            }
        }
        true
    }

    fn come_back(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let place = self.random.within(0..self.under_way.len() as u64) as usize;
        let (Task { kind, job, .. }, begun, number) = self.under_way.remove(place);
        self.model.results.get_mut(&number).unwrap().1 = self.model.tokens;
        let spent = Spent { read_ns: number, ..Spent::default() };
        let outcome = Outcome { done: Done::Failed(Failure::Broken), spent };
        // Some lead to where this pool does not go.
        let outcome = (!self.random.chance(5)).then_some(outcome);
        let now = self.now();
        self.pool.finish(&kind, &job, begun, outcome, || now);
        self.model.came_back_us.push(server_us(begun));
        self.told();
    }

    /// Whatever begins or comes back shows whether the device answers again.
    fn told(&mut self) {
        if !self.is_sick() {
            (self.model.noticed, self.model.probed_us) = (false, None);
        }
    }

    fn hear(&mut self) {
        for (token, letter) in self.inbox.empty() {
            let outcome = letter.outcome();
            let which =
                self.model.waiting.remove(&token).expect("whoever is told has asked and was not told yet");
            match (outcome.done, outcome.spent.read_ns) {
                (Done::Failed(Failure::Busy), _) => {}
                (_, number) => {
                    let (of, last) = self.model.results[&number];
                    assert_eq!(of, which, "the result of another job");
                    assert!(token < last, "it asked when its job was over");
                }
            }
        }
    }

    fn check(&self) {
        let desk = self.pool.desk.lock();
        let HelperLimits { helpers_max, queue_max, single_flight, .. } = self.pool.limits;
        let waiting = self.pool.waiting.load(Ordering::Relaxed);
        assert!(desk.queue.len() <= waiting && waiting <= queue_max, "{waiting} wait where {queue_max} may");
        assert!(desk.helpers <= helpers_max);
        assert_eq!(desk.idle + self.under_way.len(), desk.helpers);
        assert!(desk.idle > 0 || desk.helpers == helpers_max || self.model.missing, "nobody is left to ask");
        let mut kinds = HashSet::new();
        let begun = self.under_way.iter().map(|(task, ..)| task);
        assert!(desk.queue.iter().chain(begun).all(|task| kinds.insert(&task.kind)), "the same kind twice");
        let single = kinds.iter().filter(|kind| matches!(kind, Kind::Single(_))).count();
        assert!(single_flight || single == kinds.len(), "equals are joined where they should not be");
        assert_eq!(kinds.len(), desk.asked.len());
    }

    /// The definition. A job has been under way for longer than the deadline, and none that began later has come back;
    /// where every hand is taken there can be none, and then the last of them counts.
    fn is_sick(&self) -> bool {
        let begun: Vec<u64> = self.under_way.iter().map(|(_, begun, _)| server_us(*begun)).collect();
        let is_late = |begun: u64| self.now_us - begun >= DEADLINE_US;
        let nothing_since = |begun: u64| self.model.came_back_us.iter().all(|back| *back < begun);
        let all_taken = begun.len() >= self.pool.limits.helpers_max;
        begun.iter().any(|begun| is_late(*begun) && nothing_since(*begun))
            || (all_taken
                && !begun.iter().any(|begun| nothing_since(*begun))
                && begun.iter().all(|b| is_late(*b)))
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

/// A few, so that equals meet.
fn jobs() -> Vec<Job> {
    let path = |text: &'static str| SitePath::parse(text.as_bytes()).unwrap().into_owned();
    let find = |text| Job::Find(Find { path: path(text), known: None, asked_ms: 0 });
    let list = |text| Job::List(List { path: path(text), order: Order::default(), names: None, from: 0 });
    let content = Content::Memory(Held::from(vec![]).into());
    let media = flash_http::media::of(b"x.bin");
    let file = || {
        let template = HeaderTemplate::default();
        Arc::new(File::new(Stamp::default(), media, None, false, &template, content.clone()))
    };
    let (one, other) = (file(), file());
    let load =
        |file: &Arc<File>, start, copy| Job::Load(Load { file: Arc::clone(file), window: start..9, copy });
    vec![
        find("/a"),
        find("/b"),
        find("/c"),
        find("/d"),
        load(&one, 0, false),
        load(&one, 1, false),
        load(&one, 0, true),
        load(&other, 0, false),
        list("/"),
        list("/a/"),
    ]
}
