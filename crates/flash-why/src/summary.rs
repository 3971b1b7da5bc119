//! Blocks summed up: by call, cause and path, over time, and by stack. Its size is limited whatever comes in.
//!
//! A block counts in each step of time that it lasted in, so that no step has more sleep than time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use flash_sleep::Cause;

use crate::block::{Block, Frames};

/// All blocks of a watch.
pub struct Summary {
    groups: HashMap<Key, Group>,
    stacks: HashMap<(u32, Frames), Weight>,
    /// Microseconds asleep, by thread, cause and step.
    over_time: BTreeMap<(u32, Cause, u64), u64>,
    /// Steps are so many times as long as the shortest.
    coarser: u64,
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
/// The shortest time that figures tell apart. A watch of more steps has longer ones.
const STEP_US: u64 = 100_000;
const STEPS_MAX: u64 = 1200;

impl Weight {
    pub(crate) fn add(&mut self, us: u64) {
        self.count += 1;
        self.us += us;
    }
}

impl Default for Summary {
    fn default() -> Summary {
        let (groups, stacks, over_time) = Default::default();
        Summary { groups, stacks, over_time, coarser: 1 }
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
        self.add_over_time(block);
    }

    fn add_over_time(&mut self, block: &Block) {
        let end_us = block.time_us + block.us;
        while end_us >= STEPS_MAX * self.step_us() {
            self.coarser *= 2;
            for ((thread, cause, step), us) in std::mem::take(&mut self.over_time) {
                *self.over_time.entry((thread, cause, step / 2)).or_default() += us;
            }
        }
        let (step_us, mut at_us) = (self.step_us(), block.time_us);
        while at_us < end_us {
            let step = at_us / step_us;
            let until_us = end_us.min((step + 1) * step_us);
            *self.over_time.entry((block.thread, block.cause, step)).or_default() += until_us - at_us;
            at_us = until_us;
        }
    }

    /// The length of a step.
    pub(crate) fn step_us(&self) -> u64 {
        STEP_US * self.coarser
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

    /// Microseconds asleep in each step of time, by cause.
    pub(crate) fn over_time(&self, threads: &dyn Fn(u32) -> bool) -> BTreeMap<Cause, BTreeMap<u64, u64>> {
        let mut causes: BTreeMap<Cause, BTreeMap<u64, u64>> = BTreeMap::new();
        for ((_, cause, step), us) in self.over_time.iter().filter(|((thread, _, _), _)| threads(*thread)) {
            *causes.entry(*cause).or_default().entry(*step).or_default() += us;
        }
        causes
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
fn a_long_sleep_fills_the_steps_that_it_lasts_in() {
    let block = |time_us, us| Block { cause: Cause::PageCacheRead, time_us, us, ..Block::of_thread(7) };
    let mut summary = Summary::default();
    summary.add(&block(50_000, 300_000));
    let steps = |summary: &Summary| summary.over_time(&|_| true)[&Cause::PageCacheRead].clone();
    let expected = [(0, 50_000), (1, 100_000), (2, 100_000), (3, 50_000)];
    assert_eq!(steps(&summary).into_iter().collect::<Vec<_>>(), expected);
    // A day: longer steps, and never more of them.
    summary.add(&block(400_000, 86_400_000_000));
    let (day, step_us) = (steps(&summary), summary.step_us());
    assert!(day.len() as u64 <= STEPS_MAX && day.values().all(|us| *us <= step_us), "{step_us}");
    assert_eq!(day.values().sum::<u64>(), 300_000 + 86_400_000_000);
}
