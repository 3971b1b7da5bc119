//! What there is to say at the end, and the laws that it has to obey.

use super::World;
use super::tally::Tally;
use crate::engine::{Station, Time, WaitQueue, as_seconds};
use crate::outcome::{self, Checks, Latency, Outcome, Processors, Queue};

impl World<'_> {
    /// Measuring begins: the past is forgotten, and everything stays where it is.
    pub(super) fn reset(&mut self, follow: Option<u64>) {
        let now = self.now();
        self.tally = Tally::new(self.parameters.run.measured_requests.get());
        (self.tally.began, self.tally.events) = (now, self.events.announced());
        self.tally.until_followed = follow;
        // What the processors are in the middle of belongs to them still.
        self.tally.given = self.being_given(now);
        for processor in &mut self.processors {
            processor.spinning = processor.spinning.map(|_| now);
        }
        for level in [&mut self.occupied, &mut self.in_hands, &mut self.travelling] {
            level.reset(now);
        }
        self.desks.iter_mut().for_each(|desk| desk.line.reset(now));
        for queue in &mut self.run_queues {
            queue.urgent.reset(now);
            queue.ordinary.reset(now);
        }
        self.locks.iter_mut().for_each(|lock| lock.reset(now));
        self.disks
            .iter_mut()
            .chain(&mut self.link)
            .chain(&mut self.clients_processor)
            .for_each(|station| station.reset(now));
    }

    pub(super) fn outcome(self) -> Outcome {
        let now = self.now();
        let tally = &self.tally;
        let time = now - tally.began;
        let seconds = as_seconds(time);
        let checks = self.checks(now);
        debug_assert!(checks.littles_law_error < 1e-9, "{checks:?}");
        debug_assert!(checks.work_conservation_error < 1e-9, "{checks:?}");
        let (files, content_bytes) = self.caches.cached();
        let books_bytes = files as f64 * self.division.entry_bytes;
        Outcome {
            requests: tally.requests,
            seconds,
            requests_per_s: tally.requests as f64 / seconds,
            mbit_per_s: tally.bytes as f64 * 8e-6 / seconds,
            latency: Latency {
                mean_ms: tally.latency as f64 / tally.requests as f64 / 1e6,
                p50_ms: tally.latency_us.value_at_quantile(0.5) as f64 / 1e3,
                p99_ms: tally.latency_us.value_at_quantile(0.99) as f64 / 1e3,
                max_ms: tally.latency_max as f64 / 1e6,
            },
            service_inversion: tally.service_inversion(),
            data_hit_rate: tally.data.rate(),
            path_hit_rate: tally.path.rate(),
            reads_per_request: tally.reads as f64 / tally.requests as f64,
            data_cache_mb: (self.division.caches_bytes - books_bytes) / 1e6,
            data_cached_mb: content_bytes as f64 / 1e6,
            overhead_mb: (self.division.runners_bytes + books_bytes) / 1e6,
            processors: self.processors(now),
            disks: self.disks.iter().map(|disk| station(disk, now)).collect(),
            link: self.link.as_ref().map(|link| station(link, now)),
            locks: self.locks(now),
            queues: self.queues(now),
            events_per_request: (self.events.announced() - tally.events) as f64 / tally.requests as f64,
            checks,
            timeline: self.timeline,
        }
    }

    fn processors(&self, now: Time) -> Processors {
        let tally = &self.tally;
        let whole = (now - tally.began) as f64 * self.processors.len() as f64;
        let lines = self.run_queues.iter().flat_map(|queue| [&queue.urgent, &queue.ordinary]);
        let (queue_mean, wait_mean_us) = together(lines, now);
        Processors {
            busy: self.occupied.mean(now) / self.processors.len() as f64,
            switching: tally.switching as f64 / whole,
            spinning: tally.spun as f64 / whole,
            switches_per_request: tally.switches as f64 / tally.requests as f64,
            queue_mean,
            wait_mean_us,
        }
    }

    fn locks(&self, now: Time) -> Vec<outcome::Lock> {
        let lock = |lock: &super::Lock| {
            let taken = lock.taken.max(1) as f64;
            outcome::Lock {
                held: lock.held_mean(now),
                taken: lock.taken,
                contended: lock.contended as f64 / taken,
                wait_mean_us: lock.waited as f64 / taken / 1e3,
                queue_mean: lock.line.length_mean(now),
            }
        };
        self.locks.iter().map(lock).collect()
    }

    fn queues(&self, now: Time) -> Vec<Queue> {
        let queue = |(role, &(first, number)): (usize, &(u32, u32))| {
            let desks = &self.desks[first as usize..(first + number) as usize];
            let (queue_mean, wait_mean_us) = together(desks.iter().map(|desk| &desk.line), now);
            Queue { role: self.model.roles[role].name.into(), queue_mean, wait_mean_us }
        };
        self.first_desk.iter().enumerate().map(queue).collect()
    }

    fn checks(&self, now: Time) -> Checks {
        let links = &self.request_links;
        debug_assert!(self.desks.iter().all(|desk| desk.line.obeys_little(links, now)));
        let mut stations = self.disks.iter().chain(&self.link).chain(&self.clients_processor);
        debug_assert!(stations.all(|it| it.line().obeys_little(links, now)));
        let links = &self.runner_links;
        debug_assert!(self.locks.iter().all(|lock| lock.line.obeys_little(links, now)));
        debug_assert!(self.run_queues.iter().all(|queue| {
            queue.urgent.obeys_little(links, now) && queue.ordinary.obeys_little(links, now)
        }));

        // How many requests were where, over time, against how long each took.
        let there: u64 = self.desks.iter().map(|desk| desk.line.area(now)).sum();
        let there = there + self.in_hands.area(now) + self.travelling.area(now);
        let began = self.tally.began;
        let open = self.requests.iter().map(|request| now - request.began.max(began));
        let took = self.tally.since_reset + open.sum::<u64>();
        // What runners asked for, against how long processors had one.
        let spinning = self.processors.iter().filter_map(|processor| processor.spinning);
        let spun = self.tally.spun + spinning.map(|since| now - since).sum::<Time>();
        let passed = self.occupied.area(now) + self.being_given(now);
        Checks {
            littles_law_error: apart(there, took),
            work_conservation_error: apart(passed, self.tally.given + spun),
        }
    }

    /// Time that processors have promised, from now on.
    fn being_given(&self, now: Time) -> Time {
        self.processors.iter().map(|processor| processor.until.saturating_sub(now)).sum()
    }
}

fn station(station: &Station, now: Time) -> outcome::Station {
    outcome::Station {
        busy: station.utilisation(now),
        served: station.served(),
        queue_mean: station.line().length_mean(now),
        wait_mean_ms: station.wait_mean() / 1e6,
    }
}

/// As a part of the larger.
fn apart(a: u64, b: u64) -> f64 {
    a.abs_diff(b) as f64 / a.max(b).max(1) as f64
}

/// Mean number, and mean wait in microseconds, over several lines.
fn together<'a>(lines: impl Iterator<Item = &'a WaitQueue>, now: Time) -> (f64, f64) {
    let (mut mean, mut left, mut waited) = (0.0, 0, 0);
    for line in lines {
        mean += line.length_mean(now);
        left += line.left();
        waited += line.waited();
    }
    (mean, waited as f64 / left.max(1) as f64 / 1e3)
}
