//! Blocks summed up: by call, cause and path, over time, and by stack. Its size is limited whatever comes in.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use flash_sleep::Cause;

use crate::block::{Block, Frames, ThreadTotals};

/// All blocks of a watch.
#[derive(Default)]
pub struct Summary {
    groups: HashMap<Key, Group>,
    stacks: HashMap<(u32, Frames), Weight>,
    over_time: BTreeMap<(u32, Cause, u64), Weight>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    thread: u32,
    call: Arc<str>,
    cause: Cause,
    path: Option<Arc<str>>,
}

#[derive(Clone, Default)]
struct Group {
    /// Powers of two, each in eighths: small, as there may be a group for each file.
    counts: BTreeMap<u16, u32>,
    weight: Weight,
    max_us: u64,
    ready: u64,
    ready_known: u64,
}

/// How many sleeps, and how long in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    pub count: u64,
    pub us: u64,
}

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    pub call: Arc<str>,
    pub cause: Cause,
    pub path: Option<Arc<str>>,
    pub weight: Weight,
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    /// Other connections that were ready when a block ended, on average.
    pub ready: Option<f64>,
}

/// Groups, beyond which paths are no longer told apart.
const GROUPS_MAX: usize = 100_000;
const STACKS_MAX: usize = 20_000;
/// A loop that is in trouble blocks in idle ways too, but hardly ever more often than it waits.
const IDLE_PER_WAIT: u64 = 4;
const IDLE_MORE: u64 = 20;
/// The shortest time that figures tell apart.
pub(crate) const STEP_US: u64 = 100_000;

impl Weight {
    fn add(&mut self, us: u64) {
        self.count += 1;
        self.us += us;
    }
}

impl Summary {
    /// Adds a block.
    pub fn add(&mut self, block: &Block) {
        let mut key = Key {
            thread: block.thread,
            call: Arc::clone(&block.call),
            cause: block.cause,
            path: block.path.clone(),
        };
        if self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&key) {
            key.path = Some(OTHERS.into());
        }
        let group = self.groups.entry(key).or_default();
        *group.counts.entry(step_of(block.us)).or_default() += 1;
        group.weight.add(block.us);
        group.max_us = group.max_us.max(block.us);
        if let Some(ready) = block.ready {
            group.ready += u64::from(ready);
            group.ready_known += 1;
        }
        if self.stacks.len() < STACKS_MAX {
            self.stacks.entry((block.thread, Arc::clone(&block.stack))).or_default().add(block.us);
        }
        let step = block.time_us / STEP_US;
        self.over_time.entry((block.thread, block.cause, step)).or_default().add(block.us);
    }

    /// Lines by call, cause and path, those with the longest sleeps in all first.
    pub fn rows(&self, threads: &dyn Fn(u32) -> bool) -> Vec<Row> {
        self.rows_by(threads, &|key| key.path.clone())
    }

    /// Lines by call and cause.
    pub fn rows_by_cause(&self, threads: &dyn Fn(u32) -> bool) -> Vec<Row> {
        self.rows_by(threads, &|_| None)
    }

    fn rows_by(&self, threads: &dyn Fn(u32) -> bool, path: &dyn Fn(&Key) -> Option<Arc<str>>) -> Vec<Row> {
        let mut merged: HashMap<Key, Group> = HashMap::new();
        for (key, group) in self.groups.iter().filter(|(key, _)| threads(key.thread)) {
            // One line for all threads.
            let key = Key { thread: 0, path: path(key), ..key.clone() };
            merged.entry(key).or_default().merge(group);
        }
        let mut rows: Vec<Row> = merged
            .into_iter()
            .map(|(Key { call, cause, path, .. }, group)| Row {
                call,
                cause,
                path,
                weight: group.weight,
                p50_us: group.percentile(50.0),
                p99_us: group.percentile(99.0),
                max_us: group.max_us,
                ready: (group.ready_known > 0).then(|| group.ready as f64 / group.ready_known as f64),
            })
            .collect();
        rows.sort_by(|a, b| {
            b.weight.us.cmp(&a.weight.us).then_with(|| (&a.call, &a.path).cmp(&(&b.call, &b.path)))
        });
        rows
    }

    /// The whole of some threads.
    pub fn total(&self, threads: &dyn Fn(u32) -> bool) -> Weight {
        let mut total = Weight::default();
        for (_, group) in self.groups.iter().filter(|(key, _)| threads(key.thread)) {
            total.count += group.weight.count;
            total.us += group.weight.us;
        }
        total
    }

    /// Connections that waited, over all blocks of some threads.
    pub fn ready(&self, threads: &dyn Fn(u32) -> bool) -> u64 {
        self.groups.iter().filter(|(key, _)| threads(key.thread)).map(|(_, group)| group.ready).sum()
    }

    pub(crate) fn stacks(&self, threads: &dyn Fn(u32) -> bool) -> Vec<(Frames, Weight)> {
        let of = self.stacks.iter().filter(|((thread, _), _)| threads(*thread));
        of.map(|((_, stack), weight)| (Arc::clone(stack), *weight)).collect()
    }

    /// Sleeps in each step of time, by cause.
    pub(crate) fn over_time(&self, threads: &dyn Fn(u32) -> bool) -> BTreeMap<Cause, BTreeMap<u64, Weight>> {
        let mut causes: BTreeMap<Cause, BTreeMap<u64, Weight>> = BTreeMap::new();
        for ((_, cause, step), weight) in self.over_time.iter().filter(|((thread, _, _), _)| threads(*thread))
        {
            let sum = causes.entry(*cause).or_default().entry(*step).or_default();
            sum.count += weight.count;
            sum.us += weight.us;
        }
        causes
    }

    /// Removes threads from the loops that only ask for events now and then. Their idle time is in `accept`, in a blocking read
    /// or in a lock, like that of a pool's workers.
    pub fn settle_loops(&self, threads: &mut [ThreadTotals]) {
        let mut idle: HashMap<u32, u64> = HashMap::new();
        for (key, group) in self.groups.iter().filter(|(key, _)| key.cause.is_idle()) {
            *idle.entry(key.thread).or_default() += group.weight.count;
        }
        for thread in threads {
            let idle = idle.get(&thread.thread).copied().unwrap_or(0);
            thread.is_loop &= idle <= IDLE_MORE + IDLE_PER_WAIT * thread.waits;
        }
    }
}

/// What stands for paths beyond the limit.
const OTHERS: &str = "(more paths)";

impl Group {
    fn merge(&mut self, other: &Group) {
        for (&step, &count) in &other.counts {
            *self.counts.entry(step).or_default() += count;
        }
        self.weight.count += other.weight.count;
        self.weight.us += other.weight.us;
        self.max_us = self.max_us.max(other.max_us);
        self.ready += other.ready;
        self.ready_known += other.ready_known;
    }

    fn percentile(&self, percent: f64) -> u64 {
        let wanted = (self.weight.count as f64 * percent / 100.0).ceil() as u64;
        let mut before = 0;
        for (&step, &count) in &self.counts {
            before += u64::from(count);
            if before >= wanted {
                return middle_of(step).min(self.max_us);
            }
        }
        self.max_us
    }
}

/// Eight steps for each power of two.
fn step_of(us: u64) -> u16 {
    if us < 8 {
        return us as u16;
    }
    let power = us.ilog2();
    ((power - 2) * 8 + (us >> (power - 3) & 7) as u32) as u16
}

fn middle_of(step: u16) -> u64 {
    if step < 8 {
        return u64::from(step);
    }
    let (power, eighth) = (u32::from(step) / 8 + 2, u64::from(step) % 8);
    let low = (8 + eighth) << (power - 3);
    low + (1 << (power - 3)) / 2
}

#[test]
fn steps_are_an_eighth_wide() {
    for us in (0..2000).chain([65_535, 65_536, 1 << 40]) {
        let middle = middle_of(step_of(us));
        assert!(middle.abs_diff(us) * 8 <= us, "{us} became {middle}");
    }
}

#[test]
fn workers_of_a_pool_have_no_loop() {
    let mut summary = Summary::default();
    let block = |thread| Block {
        time_us: 0,
        pid: 1,
        thread,
        name: "w".into(),
        call: "accept".into(),
        args: String::new(),
        path: None,
        cause: Cause::PipeOrSocket,
        us: 9,
        stack: Arc::from([]),
        waker: None,
        ready: None,
        cpu: 0,
        sampled: false,
        unfinished: false,
    };
    for _ in 0..200 {
        summary.add(&block(1));
        summary.add(&block(2));
    }
    let thread = |thread, waits| ThreadTotals { thread, waits, is_loop: true, ..ThreadTotals::default() };
    let mut threads = [thread(1, 10), thread(2, 300), thread(3, 0)];
    summary.settle_loops(&mut threads);
    assert_eq!(threads.map(|thread| thread.is_loop), [false, true, true]);
}
