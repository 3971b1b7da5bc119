//! Assigns processors to runners, and work to each runner.
//!
//! The runner that has waited longest gets a free processor. Helpers go first, at the next point where a runner can be
//! interrupted: between two requests, or two windows of a response. A runner keeps its processor until it must wait, or until
//! its time slice is over and other runners want to run.

use super::World;
use super::entities::{NONE, Runner};
use crate::model::ServiceMode;
use crate::outcome::Event;

impl World<'_> {
    /// A client sends its next request.
    pub(super) fn ask(&mut self, client: u32) {
        let file = self.stream.next();
        let bytes = self.caches.bytes(file);
        let now = self.now();
        let per_connection = self.parameters.costs.requests_per_connection;
        let lanes = self.first_desk[0].1;
        let request = &mut self.requests[client as usize];
        request.on_connection += 1;
        if request.on_connection >= per_connection {
            request.on_connection = 0;
            // A new connection: they are dealt out to the processors' servers in turn.
            request.lane = self.next_lane;
            self.next_lane = (self.next_lane + 1) % lanes;
        }
        (request.file, request.bytes_left, request.began, request.step) = (file, bytes, now, 0);
        if self.tally.follows_now() {
            self.followed = client;
        }
        let lane = request.lane;
        self.queue(client, lane);
    }

    /// A request joins the queue of a role. A runner that sleeps there wakes up.
    pub(super) fn queue(&mut self, request: u32, desk: u32) {
        let now = self.now();
        let place = &mut self.desks[desk as usize];
        place.line.push(&mut self.request_links, request, now);
        let awake = place.asleep.pop();
        let role = place.role;
        let request_now = &mut self.requests[request as usize];
        request_now.is_parked = self.prices.take_over > 0
            && request_now.on_connection > 0
            && self.model.roles[role].mode == ServiceMode::OneAtATime
            && place.line.len() > free_at(&self.runners, desk);
        self.tell(request, |model| Event::Queued { role: model.roles[role].name.into() });
        if let Some(runner) = awake {
            self.ready(runner);
        }
    }

    /// The desk of a role for the request's connection.
    pub(super) fn desk_of(&self, role: usize, request: u32) -> u32 {
        let (first, number) = self.first_desk[role];
        first + self.requests[request as usize].lane % number
    }

    /// A runner could go on, but for a processor.
    pub(super) fn ready(&mut self, runner: u32) {
        let now = self.now();
        let Runner { run_queue, mode, request, processor, .. } = self.runners[runner as usize];
        let queue = &mut self.run_queues[run_queue as usize];
        let line = match mode {
            ServiceMode::Helper => &mut queue.urgent,
            ServiceMode::OneAtATime | ServiceMode::Multiplexed => &mut queue.ordinary,
        };
        line.push(&mut self.runner_links, runner, now);
        if let Some(processor) = queue.wake(processor) {
            self.occupied.add(1, now);
            self.kicked.push(processor);
        }
        if request != NONE {
            self.tell(request, |_| Event::Ready);
        }
    }

    /// The runner that should run on a processor now. Without one, the processor becomes idle.
    pub(super) fn dispatch(&mut self, number: u32) -> Option<u32> {
        let now = self.now();
        let processor = &mut self.processors[number as usize];
        if processor.runner != NONE {
            return Some(processor.runner);
        }
        let queue = &mut self.run_queues[processor.run_queue as usize];
        let links = &mut self.runner_links;
        let Some(next) = queue.urgent.pop(links, now).or_else(|| queue.ordinary.pop(links, now)) else {
            queue.idle.push(number);
            self.occupied.remove(1, now);
            return None;
        };
        let runner = &mut self.runners[next as usize];
        if processor.last != next {
            runner.debt += runner.switch;
            self.tally.switches += 1;
            self.tally.switching += runner.switch;
        }
        (runner.processor, runner.slice) = (number, 0);
        (processor.runner, processor.last) = (next, next);
        Some(next)
    }

    /// Its runner leaves a processor.
    pub(super) fn vacate(&mut self, processor: u32) {
        self.processors[processor as usize].runner = NONE;
    }

    /// Whether another runner should have this runner's processor.
    pub(super) fn must_yield(&self, runner: u32) -> bool {
        let runner = &self.runners[runner as usize];
        let queue = &self.run_queues[runner.run_queue as usize];
        match runner.mode {
            ServiceMode::Helper => false,
            ServiceMode::OneAtATime | ServiceMode::Multiplexed => {
                !queue.urgent.is_empty() || (runner.slice >= self.time_slice && !queue.ordinary.is_empty())
            }
        }
    }
}

/// How many runners of a desk have no request, whether they sleep or are about to look for one.
fn free_at(runners: &[Runner], desk: u32) -> u64 {
    runners.iter().filter(|runner| runner.desk == desk && runner.request == NONE).count() as u64
}
