//! What models are interpreted on: processors, disks, a link, caches, locks, and the clients.
//!
//! - `entities`: whoever moves through it. `setup` puts them in their places.
//! - `interpret`: takes a runner through the program until it needs time.
//! - `schedule`: who gets a processor.
//! - `content`, `caches`, `memory`: what is cached, for whom, and what fits.
//! - `throttle`: how many reads a disk may do.
//! - `tally`, `report`: what is counted, and what there is to say at the end.
//!
//! Clients live at no distance and never rest: the paper's "sends a next request as soon as the previous request is completed".
//! There is no memory bandwidth, no cache line that moves between processors, no interrupt: what these cost must be in the
//! parameters.

mod caches;
mod content;
mod entities;
mod interpret;
mod lock;
mod memory;
mod prices;
mod report;
mod schedule;
mod setup;
mod stream;
mod tally;
#[cfg(test)]
mod tests;
mod throttle;

use rand::rngs::Xoshiro256PlusPlus;

pub use self::memory::Division;

use self::caches::Caches;
use self::entities::{Desk, NONE, Processor, Request, RunQueue, Runner};
use self::lock::Lock;
use self::prices::Prices;
use self::stream::Stream;
use self::tally::Tally;
use self::throttle::Throttle;
use crate::engine::{Events, Level, Links, Station, Time};
use crate::model::{Model, Read};
use crate::outcome::{Event, Moment};
use crate::{Demand, Outcome, Parameters, SimulationError};

/// What happens at a moment of its own; everything else follows from it at once.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// A processor has given the time that it was asked for.
    Given(u32),
    /// A disk has done what it was doing for this request.
    DiskDone { disk: u32, request: u32 },
    /// The link has sent the window of this request.
    LinkDone { request: u32 },
    /// The window of this request has been on the wire for its time.
    Arrived { request: u32 },
    /// The clients' processor has done what it does for a response.
    Received { client: u32 },
}

/// One run.
struct World<'a> {
    parameters: &'a Parameters,
    model: Model,
    division: Division,
    prices: Prices,
    time_slice: Time,
    stream: Stream<'a>,
    random: Xoshiro256PlusPlus,
    events: Events<Happening>,
    caches: Caches,

    requests: Vec<Request>,
    request_links: Links,
    runners: Vec<Runner>,
    runner_links: Links,
    /// Role by role; `first_desk` says where each one's begin, and how many they are.
    desks: Vec<Desk>,
    first_desk: Vec<(u32, u32)>,
    processors: Vec<Processor>,
    /// Processors that have a runner.
    occupied: Level,
    /// Requests that a runner has.
    in_hands: Level,
    /// Requests that wait for a disk, the wire or the clients' processor without a runner.
    travelling: Level,
    run_queues: Vec<RunQueue>,
    /// Processors that got work from another processor.
    kicked: Vec<u32>,
    /// Clients that have their response. They send the next request when the runner that served them has turned to other work.
    answered: Vec<u32>,
    locks: Vec<Lock>,
    disks: Vec<Station>,
    throttles: Vec<Throttle>,
    link: Option<Station>,
    /// Whose time clients need for a response, if they need any.
    clients_processor: Option<Station>,

    next_lane: u32,
    tally: Tally,
    /// The client whose request is followed.
    followed: u32,
    timeline: Vec<Moment>,
}

pub(crate) fn simulate(parameters: &Parameters, demand: &Demand) -> Result<Outcome, SimulationError> {
    let mut world = World::new(parameters, demand)?;
    let run = &parameters.run;
    let measured = u64::from(run.measured_requests.get());
    let settling = run.settling_requests.unwrap_or((20 * u64::from(run.clients)).max(measured / 10));
    world.open();
    world.until_answered(settling);
    world.reset(demand.follow);
    world.until_answered(measured);
    Ok(world.outcome())
}

impl World<'_> {
    /// Every client sends its first request.
    fn open(&mut self) {
        self.answered.extend((0..self.parameters.run.clients).rev());
        self.follow_up();
    }

    fn until_answered(&mut self, requests: u64) {
        while self.tally.requests < requests {
            match self.events.advance().expect("a client waits, so that somebody works for it") {
                Happening::Given(processor) => self.run(processor),
                Happening::DiskDone { disk, request } => self.disk_done(disk, request),
                Happening::LinkDone { request } => self.link_done(request),
                Happening::Arrived { request } => self.waited(request),
                Happening::Received { client } => self.received(client),
            }
            self.follow_up();
        }
    }

    /// Everything else that happens at this moment.
    fn follow_up(&mut self) {
        loop {
            if let Some(processor) = self.kicked.pop() {
                self.run(processor);
            } else if let Some(client) = self.answered.pop() {
                self.ask(client);
            } else {
                break;
            }
        }
        debug_assert!(self.run_queues.iter().all(RunQueue::wastes_nothing));
    }

    fn now(&self) -> Time {
        self.events.now()
    }

    /// A request joins a disk's queue. Files are spread over the disks.
    fn wait_for_disk(&mut self, number: u32) {
        let now = self.now();
        let request = &self.requests[number as usize];
        let disk = request.file % self.disks.len() as u32;
        if request.read == Read::Content {
            self.caches.begin_read(request.process, request.file, now);
        }
        self.tell(number, |_| Event::WaitsForDisk { disk });
        if self.disks[disk as usize].arrive(&mut self.request_links, number, now) {
            self.read_disk(disk, number);
        }
    }

    /// Access and transfer. A file that another request has brought in meanwhile is read from the cache.
    fn read_disk(&mut self, disk: u32, number: u32) {
        let request = &self.requests[number as usize];
        let there = request.read == Read::Content && self.caches.has_content(request.process, request.file);
        let bytes = match request.read {
            Read::Directory => 0,
            Read::Content => self.caches.bytes(request.file),
        };
        let time = match there {
            true => 0,
            false => {
                let (reads, time) = self.prices.read(&self.parameters.machine.disks[disk as usize], bytes);
                self.tally.reads += reads;
                let now = self.now();
                self.throttles[disk as usize].wait(reads, now) + time
            }
        };
        self.tell(number, |_| Event::Reads { disk, ms: time as f64 / 1e6 });
        self.events.after(time, Happening::DiskDone { disk, request: number });
    }

    fn disk_done(&mut self, disk: u32, request: u32) {
        let now = self.now();
        if let Some(next) = self.disks[disk as usize].depart(&mut self.request_links, now) {
            self.read_disk(disk, next);
        }
        self.waited(request);
    }

    /// A window leaves the processor. False if it is with the client at once.
    fn travel(&mut self, request: u32) -> bool {
        let now = self.now();
        let bytes = self.requests[request as usize].window_bytes;
        match &mut self.link {
            Some(link) => {
                if link.arrive(&mut self.request_links, request, now) {
                    let time = self.prices.link(bytes);
                    self.events.after(time, Happening::LinkDone { request });
                }
            }
            None => match self.prices.wire(bytes) {
                0 => return false,
                time => self.events.after(time, Happening::Arrived { request }),
            },
        }
        self.tell(request, |_| Event::OnTheWire);
        true
    }

    fn link_done(&mut self, request: u32) {
        let now = self.now();
        let link = self.link.as_mut().expect("what was on the link came over it");
        if let Some(next) = link.depart(&mut self.request_links, now) {
            let time = self.prices.link(self.requests[next as usize].window_bytes);
            self.events.after(time, Happening::LinkDone { request: next });
        }
        match self.prices.wire(self.requests[request as usize].window_bytes) {
            0 => self.waited(request),
            time => self.events.after(time, Happening::Arrived { request }),
        }
    }

    /// The last byte is with the clients' machine.
    fn answer(&mut self, client: u32) {
        let now = self.now();
        match &mut self.clients_processor {
            None => self.know_answer(client),
            Some(processor) => {
                self.travelling.add(1, now);
                if processor.arrive(&mut self.request_links, client, now) {
                    self.receive(client);
                }
            }
        }
    }

    fn receive(&mut self, client: u32) {
        let time = self.prices.client(self.caches.bytes(self.requests[client as usize].file));
        self.events.after(time, Happening::Received { client });
    }

    fn received(&mut self, client: u32) {
        let now = self.now();
        self.travelling.remove(1, now);
        let processor = self.clients_processor.as_mut().expect("it has received this");
        if let Some(next) = processor.depart(&mut self.request_links, now) {
            self.receive(next);
        }
        self.know_answer(client);
    }

    /// The client has its response.
    fn know_answer(&mut self, client: u32) {
        let request = &self.requests[client as usize];
        self.tally.answered(request.began, self.now(), self.caches.bytes(request.file));
        self.tell(client, |_| Event::Done);
        if client == self.followed {
            self.followed = NONE;
        }
        self.answered.push(client);
    }

    /// A request's wait is over. The runner that waited with it continues, or the request queues for a runner.
    fn waited(&mut self, request: u32) {
        match std::mem::replace(&mut self.requests[request as usize].waiter, NONE) {
            NONE => {
                let now = self.now();
                self.travelling.remove(1, now);
                self.queue(request, self.requests[request as usize].desk);
            }
            runner => self.ready(runner),
        }
    }

    /// Notes what happens to the request that is followed.
    fn tell(&mut self, request: u32, event: impl FnOnce(&Model) -> Event) {
        if request == self.followed && request != NONE {
            let at_us = (self.now() - self.requests[request as usize].began) as f64 / 1e3;
            self.timeline.push(Moment { at_us, event: event(&self.model) });
        }
    }
}
