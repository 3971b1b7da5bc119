//! One thread that simulates its share of the clients, in one loop on one epoll. It waits only there, and acts on events,
//! timers and due requests. A due request is sent between two events, not after all of them. So the clients' own work does not
//! count as the server's.

mod answers;
mod client_shard;
mod connection;
mod course;
mod http2;
mod requests;
mod settle;
mod share;

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flash_traffic::Part;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::load::Until;
use crate::tally::{Fault, Tally};
use crate::timers::{Alarm, Timers};
use crate::verify::Originals;
use crate::{Load, Pace};
use client_shard::ClientShard;
use connection::Connection;
pub(crate) use course::Course;
use share::share;

/// Bytes taken from a socket at once.
const BUFFER_BYTES: usize = 128 << 10;
const EVENTS_MAX: usize = 256;
/// Connections that are being opened at once when the clients of a closed loop begin. More would overrun the queue of a
/// listener, and wait a second to try again.
const OPENING_MAX: usize = 100;
/// How long before a request is due its thread stops to sleep.
const EARLY: Duration = Duration::from_micros(50);
/// How soon a thread sees that it shall stop.
const NAP_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The same, where all threads wait for the last one to settle.
const SETTLING_NAP_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
const NO_NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// What epoll calls the clock. No connection has this place.
const CLOCK: u64 = u64::MAX;

/// What a thread shows while it runs: totals since the start.
#[derive(Default)]
#[repr(align(128))] // no two threads write to the same lines of memory
pub(crate) struct Gauge {
    pub(crate) requests: AtomicU64,
    pub(crate) body_bytes: AtomicU64,
    pub(crate) errors: AtomicU64,
}

pub(crate) struct Player<'a> {
    load: &'a Load,
    course: &'a Course,
    gauge: &'a Gauge,
    epoll: OwnedFd,
    /// Ends a wait on time. The wait's own timeout is in whole milliseconds, and an answer may take a tenth of one.
    clock: OwnedFd,
    /// When it rings.
    rings_at: Option<Instant>,
    shards: Vec<ClientShard<'a>>,
    connections: Vec<Connection>,
    /// Connections that are being opened.
    opening: usize,
    timers: Timers,
    random: fastrand::Rng,
    buffer: Box<[u8]>,
    /// What is received before it is decrypted.
    scratch: Box<[u8]>,
    /// Requests that go out together.
    out: Vec<u8>,
    tally: Tally,
    /// What bodies are compared with, by crew.
    originals: Vec<Originals>,
    end: Option<Instant>,
    /// What the times of open loops' requests are counted from.
    origin: Instant,
    /// This thread has nothing of the warm-up under way, in open loops.
    is_settled: bool,
    /// When the measured time begins is known.
    knows_begin: bool,
    /// How long it has waited in the measured time, with nothing to do.
    idle: Duration,
    /// Requests that may still be sent; none where time is the end.
    budget: Option<u64>,
    /// When the next request is due, over all crews; between events this is all that is looked at.
    next_due: Option<Instant>,
}

/// Plays until the end of the run.
pub(crate) fn play(load: &Load, part: Part, course: &Course, gauge: &Gauge) -> Result<Tally, Errno> {
    // The kernel may wake sleepers 50 µs late to save power; here, that would be in every wait.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let player = Player::new(load, part, course, gauge);
    let mut player = player.inspect_err(|_| course.settled(Instant::now()))?;
    let played = player.play();
    player.has_settled(Instant::now());
    played?;
    player.tally.busy = player.busy(Instant::now());
    let of_closed_loops = player.connections.iter().filter(|one| player.shards[one.shard].is_closed_loop());
    player.tally.clients = of_closed_loops.map(|one| one.client).collect();
    Ok(player.tally)
}

impl<'a> Player<'a> {
    fn new(load: &'a Load, part: Part, course: &'a Course, gauge: &'a Gauge) -> Result<Player<'a>, Errno> {
        let mut shards = Vec::new();
        let mut connections = Vec::new();
        let mut classes = Vec::new();
        let mut random =
            fastrand::Rng::with_seed(load.seed.wrapping_mul(65_537).wrapping_add(part.index.into()));
        // Numbers tell connections apart over all threads.
        let mut number = part.index as usize;
        for group in &load.groups {
            let shard = ClientShard::new(load, group, part, connections.len(), classes.len(), &mut random);
            classes.extend(group.workload.catalogue().classes.iter().map(|_| group.pace.is_open()));
            for _ in shard.places.clone() {
                connections.push(Connection::new(shards.len(), number, course.start));
                number += part.of as usize;
            }
            shards.push(shard);
        }
        let budget = match load.until {
            Until::Time(_) => None,
            Until::Requests(all) => Some(share(all, part)),
        };
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let clock =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &clock, EventData::new_u64(CLOCK), EventFlags::IN | EventFlags::ET)?;
        Ok(Player {
            load,
            course,
            gauge,
            epoll,
            clock,
            rings_at: None,
            shards,
            connections,
            opening: 0,
            timers: Timers::default(),
            random,
            buffer: vec![0; BUFFER_BYTES].into(),
            scratch: vec![0; if load.server.tls.is_some() { BUFFER_BYTES } else { 0 }].into(),
            out: Vec::new(),
            tally: Tally::new(&classes, course.start),
            originals: load.groups.iter().map(|_| Originals::default()).collect(),
            end: None,
            origin: course.start,
            is_settled: false,
            knows_begin: false,
            idle: Duration::ZERO,
            budget,
            next_due: Some(course.start),
        })
    }

    fn play(&mut self) -> Result<(), Errno> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        loop {
            let now = Instant::now();
            let over = self.end.is_some_and(|end| now >= end);
            if over || self.course.stop.load(Ordering::Relaxed) {
                self.give_up(self.end.unwrap_or(now).min(now));
                return Ok(());
            }
            self.settle(now);
            self.ring(now);
            self.send_due(now);
            if self.has_finished() {
                return Ok(());
            }
            // Within that time it looks and does not sleep.
            let idle_from = Instant::now();
            let soon = self.next_due.is_some_and(|due| due.saturating_duration_since(idle_from) <= EARLY);
            let nap = match soon {
                true => NO_NAP,
                false if self.is_settling(now) => SETTLING_NAP_MAX,
                false => NAP_MAX,
            };
            if !soon {
                self.set_clock()?;
            }
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&nap)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            let mut now = Instant::now();
            if self.course.is_measured(idle_from) {
                self.idle += now - idle_from;
            }
            for event in events.iter().filter(|event| event.data.u64() != CLOCK) {
                now = self.event(event.data.u64(), event.flags, now);
                if self.next_due.is_some_and(|due| due <= now) {
                    self.send_due(now);
                }
            }
        }
    }

    /// Has the clock ring when there is something to do.
    fn set_clock(&mut self) -> Result<(), Errno> {
        // A sleeper wakes up some time after it is called, so for a request that is due it is called early.
        let due = self.next_due.map(|due| due.checked_sub(EARLY).unwrap_or(due));
        let warm = Some(self.course.warm).filter(|_| !self.knows_begin);
        let wake = [self.timers.next(), due, self.end, warm].into_iter().flatten().min();
        let Some(wake) = wake.filter(|_| wake != self.rings_at) else { return Ok(()) };
        self.rings_at = Some(wake);
        // 0 would be never.
        let left = wake.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let once = Itimerspec { it_interval: never, it_value: left };
        timerfd_settime(&self.clock, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Looks at what the timers say.
    fn ring(&mut self, now: Instant) {
        while let Some((place, alarm)) = self.timers.pop(now) {
            match alarm {
                Alarm::Deadline => self.deadline(place, now),
                Alarm::Resume => self.resume(place, now),
            }
        }
    }

    /// Sends what is due, and lets the clients of a closed loop begin.
    fn send_due(&mut self, now: Instant) {
        if now < self.course.start {
            return;
        }
        self.next_due = None;
        for shard in 0..self.shards.len() {
            while self.opening < OPENING_MAX
                && let Some(place) = self.shards[shard].unstarted.next()
            {
                self.begin(place, now);
            }
            self.queue_due(shard, now);
            while let Some(place) = self.shards[shard].place_for_next() {
                self.connections[place].is_listed = false;
                self.go(place, now);
            }
            if self.knows_begin {
                self.tally.queued += self.shards[shard].newly_waiting();
            }
            let next = self.due(shard);
            self.next_due = self.next_due.into_iter().chain(next).min();
        }
    }

    /// When a group's next request is due. Behind the warm-up there is none until the measured time begins.
    fn due(&self, shard: usize) -> Option<Instant> {
        let due = self.shards[shard].next_due(self.origin)?;
        (self.knows_begin || due < self.course.warm).then_some(due)
    }

    /// Moves the requests that are due to the queue, and takes those out that have waited there for too long.
    fn queue_due(&mut self, shard: usize, now: Instant) {
        while let Some(due) = self.due(shard).filter(|due| *due <= now) {
            let counted = self.course.is_measured(due);
            if !take_from(&mut self.budget, counted) {
                self.shards[shard].exhaust();
                return;
            }
            self.shards[shard].queue(due, &mut self.random);
            self.tally.asked += u64::from(counted);
            self.tally.due += u64::from(counted);
        }
        while let Some((ask, due)) = self.shards[shard].overdue(now, self.load.timeout) {
            self.fault(shard, ask.file, due, now, Fault::Timeout);
        }
    }

    /// A client of a closed loop begins, at once or at a random moment of its first think time. Otherwise all clients would
    /// send together for ever.
    fn begin(&mut self, place: usize, now: Instant) {
        match self.shards[self.connections[place].shard].pace {
            Pace::Closed { think, .. } if !think.is_zero() => {
                let at = now + think.mul_f64(self.random.f64());
                self.rest_until(place, at);
            }
            _ => self.go(place, now),
        }
    }

    /// The part of its measured time, up to now, in which it had something to do.
    fn busy(&self, now: Instant) -> f64 {
        let measured =
            self.course.measured_from().map(|from| now.saturating_duration_since(from).as_secs_f64());
        measured
            .filter(|seconds| *seconds > 0.0)
            .map_or(0.0, |seconds| 1.0 - self.idle.as_secs_f64() / seconds)
    }

    /// Everything has been asked, and answered.
    fn has_finished(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_exhausted() && shard.under_way == 0)
    }

    /// What is under way or due when the run ends counts as unanswered. In an open loop its age is a wait like any other.
    fn give_up(&mut self, end: Instant) {
        self.tally.ended = end;
        for place in 0..self.connections.len() {
            let pending: Vec<_> = self.connections[place].pending.drain(..).collect();
            for pending in pending {
                self.unanswered(self.connections[place].shard, pending.file, pending.due, end);
            }
        }
        for shard in 0..self.shards.len() {
            while let Some((ask, due)) = self.shards[shard].overdue(end, Duration::ZERO) {
                self.unanswered(shard, ask.file, due, end);
            }
        }
    }

    fn unanswered(&mut self, shard: usize, file: u32, due: Instant, end: Instant) {
        if !self.course.is_measured(due) || due > end {
            return;
        }
        self.tally.unanswered += 1;
        if !self.shards[shard].is_closed_loop() {
            let class = self.shards[shard].class(file);
            self.tally.given_up(class, end - due);
        }
    }
}

/// Whether there is one more to be had, where there is a bound at all. What is not counted costs nothing.
fn take_from(budget: &mut Option<u64>, counted: bool) -> bool {
    match budget {
        Some(0) => false,
        Some(left) if counted => {
            *left -= 1;
            true
        }
        _ => true,
    }
}

/// The events that epoll waits for on every socket, registered once.
fn interest() -> EventFlags {
    EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET
}
