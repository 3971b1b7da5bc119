//! Thousands of clients at once, from a seed. The seed decides what they request, how they read and leave, and when the
//! disk does what. Time is virtual.
//!
//! What a client got is judged when its connection has ended; see [`judge`].

mod judge;
mod places;
mod script;

use std::collections::{BTreeMap, BTreeSet};

use self::judge::{Counted, is_answer};
use self::places::{PATHS, Places};
use self::script::{Ending, Reading, Script};
use super::*;
use crate::cache::{CacheLimits, PathCache};
use crate::clients::deadline::CREDIT_MS_MAX;
use crate::file::Window;
use crate::file::entry::Entry;
use crate::job::{Done, List};
use crate::listing::cache::ListingCache;
use crate::site::id::SiteId;
use crate::testing::{Random, each_seed};

#[test]
fn whatever_happens_each_client_gets_its_answers() {
    each_seed(1..7, |seed| drop(Simulation::new(seed, 2_000).run()));
}

#[test]
fn a_seed_makes_the_same_of_everything() {
    let course = Simulation::new(1, 2_000).run();
    let all = [200, 204, 206, 301, 304, 400, 403, 404, 405, 408, 413, 416, 417, 500, 501, 503];
    assert!(course.answers.iter().eq(&all), "some never happens: {:?}", course.answers);
    assert_eq!(course, Simulation::new(1, 2_000).run());
}

struct Simulation {
    random: Random,
    world: World,
    places: Places,
    /// Events by time. Events at the same time happen in any order.
    events: BTreeMap<(u64, u64), Event>,
    guests: Vec<Option<Box<Guest>>>,
    /// The HTML of whole listings.
    listings: Vec<(&'static str, Vec<u8>)>,
    course: Course,
}

/// A summary of what happened.
#[derive(Debug, Default, PartialEq, Eq)]
struct Course {
    answers: BTreeSet<u16>,
    /// When each connection ended, and after how many bytes.
    ends: Vec<(u64, usize)>,
}

#[derive(Debug)]
enum Event {
    Connect,
    /// The client puts its next piece on the wire.
    Speak(usize),
    /// It shuts its side.
    Shut(usize),
    /// It takes what has come.
    Read(usize),
    Vanish(usize),
    /// The driver looks at the connection without a reason, as after a spurious event.
    Look(usize),
    /// The job is done. Its result takes a while to arrive.
    DoJob(usize),
    Result(usize, Done),
    Expire(usize),
    ChangeFile,
    Drain,
}

/// A client with its connection, and what the simulation knows of both.
struct Guest {
    client: Client,
    waits: Waits,
    script: Script,
    /// How many of its pieces are on the wire.
    pieces: usize,
    spoken: usize,
    /// How many of those bytes the connection has been given.
    heard: usize,
    shut: Told,
    /// A job is under way.
    job: Work,
    /// The result of the last job, and its exchange.
    told: Option<(ExchangeId, Done)>,
    read_is_planned: bool,
    deadline_ms: u64,
    /// Responses that have begun.
    begun: usize,
    begun_before_draining: Option<usize>,
    counted: Counted,
    records: Vec<Record>,
    /// The statuses that failed jobs must have led to, by the number of their response.
    faults: BTreeMap<usize, u16>,
    /// Which response, if any, may be a 408.
    too_slow: Option<usize>,
    /// Whether responses may be missing or incomplete, because of an earlier event.
    may_be_cut: bool,
    events: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    No,
    OnTheWire,
    Yes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    None,
    UnderWay,
    /// The deadline answered before the job.
    Abandoned,
}

/// More than any client has a reason for.
const EVENTS_MAX: usize = 20_000;
const SECOND_US: u64 = 1_000_000;
/// How late a driver's timers may be.
const TICK_US: u64 = 250_000;
const CONNECTING_SECONDS: u64 = 60;

impl Simulation {
    fn new(seed: u64, guests: usize) -> Self {
        let mut random = Random::new(seed);
        let mut disk = Disk::new(MEMORY_FILE_BYTES_MAX);
        let places = Places::new(&mut disk, &mut random);
        let revalidate_ms = *random.pick(&[0, 200, 1_000]);
        let goes_with_jobs = random.chance(30);
        let access_log = Some(LogNumber(0));
        let mut world = World::new(Settings { access_log, revalidate_ms, ..Settings::default() }, disk);
        let mut listing = |path| (path, reply(&world.ask(get(path))).body);
        let listings = places::LISTED.iter().copied().map(&mut listing).collect();
        world.tally = Tally::default();
        world.jobs = Jobs::Later;
        world.disk.short_steps = random.chance(50);
        // Now and then there is not enough memory for more than a listing or two.
        world.disk.listings = ListingCache::new(revalidate_ms, *random.pick(&[1 << 20, 60_000]));
        if random.chance(20) {
            let nothing =
                CacheLimits { entries_max: 0, bytes_max: 0, descriptors_max: 0, threads: 1, local_caches: 1 };
            world.server.paths = PathCache::new(nothing).into();
        }
        let local = if random.chance(70) { local_cache_without_collisions() } else { LocalCache::new(0) };
        world.local = (!goes_with_jobs).then_some(local);
        let mut simulation = Self {
            random,
            world,
            places,
            events: BTreeMap::new(),
            guests: Vec::new(),
            listings,
            course: Course::default(),
        };
        simulation.plan(guests);
        simulation
    }

    fn plan(&mut self, guests: usize) {
        let until_us = CONNECTING_SECONDS * SECOND_US;
        for _ in 0..guests {
            let after_us = self.random.within(0..until_us);
            self.after(after_us, Event::Connect);
        }
        for _ in 0..60 {
            let after_us = self.random.within(0..until_us);
            self.after(after_us, Event::ChangeFile);
        }
        if self.random.chance(70) {
            let after_us = self.random.within(until_us / 4..until_us);
            self.after(after_us, Event::Drain);
        }
    }

    fn after(&mut self, us: u64, event: Event) {
        let tie = self.random.next();
        self.events.insert((self.world.now.us + us, tie), event);
    }

    fn run(mut self) -> Course {
        while let Some(((at_us, _), event)) = self.events.pop_first() {
            self.world.now.advance(at_us);
            self.happens(event);
            // Time passes before the next one, and pages may leave the cache.
            self.world.disk.forget_vouched();
        }
        assert!(self.guests.iter().all(Option::is_none), "a connection without a future is still there");
        self.comes_to_rest()
    }

    /// Whatever has happened, each later client gets what is there now, and no memory is held.
    fn comes_to_rest(mut self) -> Course {
        self.world.drain = Drain::No;
        self.world.jobs = Jobs::AtOnce;
        for path in PATHS {
            self.world.now.advance(self.world.now.us + 10 * SECOND_US);
            let reply = reply(&self.world.ask(get(path)));
            match self.places.now(path) {
                None => assert_eq!(reply.status, 404),
                Some(version) => assert!(reply.body == *version.bytes, "{path} is out of date"),
            }
        }
        let World { server, local, disk, .. } = self.world;
        drop((server, local));
        assert_eq!(disk.open_files(), 0, "somebody still holds a file");
        self.course
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Connect if self.world.drain.is_on() => {}
            Event::Connect => self.connect(),
            Event::ChangeFile => self.places.change(&mut self.world.disk, &mut self.random),
            Event::Drain => {
                self.world.drain = Drain::AtOnce;
                for number in 0..self.guests.len() {
                    self.with(number, |_, guest| guest.begun_before_draining = Some(guest.begun));
                }
            }
            Event::Speak(number) => self.with(number, |simulation, guest| simulation.speak(number, guest)),
            Event::Shut(number) => self.with(number, |_, guest| guest.shut = Told::OnTheWire),
            Event::Look(number) => self.with(number, |_, _| {}),
            Event::Read(number) => self.with(number, |simulation, guest| {
                guest.read_is_planned = false;
                if let Reading::Slowly { bytes, .. } = guest.script.reading {
                    let bytes = simulation.random.within(1..bytes + 1) as usize;
                    guest.waits = simulation.world.make_room(&mut guest.client, bytes);
                }
            }),
            Event::Vanish(number) => self.with(number, |simulation, guest| {
                guest.may_be_cut = true;
                simulation.world.with(&mut guest.client, |connection, cx| connection.abort(cx));
            }),
            Event::DoJob(number) => self.with(number, |simulation, guest| simulation.do_job(number, guest)),
            Event::Result(number, done) => {
                self.with(number, |simulation, guest| simulation.tell(guest, done))
            }
            Event::Expire(number) => self.with(number, |simulation, guest| simulation.expire(guest)),
        }
    }

    fn connect(&mut self) {
        let script = Script::random(&mut self.random, &self.places);
        let mut client = self.world.connect();
        client.socket = match script.reading {
            Reading::Everything => Socket::WIDE,
            _ => Socket::with_room(self.random.within(0..20_000) as usize),
        };
        let number = self.guests.len();
        if let Ending::Vanishes { after_us } = script.ending {
            self.after(after_us, Event::Vanish(number));
        }
        let pause_us = script.pieces[0].0;
        self.after(pause_us, Event::Speak(number));
        self.guests.push(Some(Box::new(Guest::new(client, script))));
        self.with(number, |_, _| {});
    }

    /// An event happens to a connection, which then continues for as long as it can.
    fn with(&mut self, number: usize, what: impl FnOnce(&mut Self, &mut Guest)) {
        let Some(mut guest) = self.guests[number].take() else { return };
        guest.events += 1;
        assert!(guest.events < EVENTS_MAX, "it never ends: {:?}", guest.client.connection);
        what(self, &mut guest);
        guest.waits = self.world.turn(&mut guest.client);
        self.hear(&mut guest);
        guest.begun += std::mem::take(&mut self.world.tally.responses) as usize;
        guest.counted.take(&mut self.world.tally);
        guest.records.append(&mut self.world.tally.records);
        if guest.waits == Waits::Closed {
            self.course.ends.push((self.world.now.us, guest.client.got.len()));
            self.course.answers.extend(judge::judge(&guest, &self.places, &self.listings));
            return;
        }
        guest.check(self.world.now.ms(), self.world.drain.is_on());
        self.plan_for(number, &mut guest);
        self.guests[number] = Some(guest);
    }

    /// The connection takes what is on the wire, in pieces.
    fn hear(&mut self, guest: &mut Guest) {
        while guest.waits == Waits::ForBytes {
            if guest.heard < guest.spoken {
                let most = (guest.spoken - guest.heard) as u64;
                let piece = if self.random.chance(70) { most } else { self.random.within(1..most + 1) };
                let from = guest.heard;
                guest.heard += piece as usize;
                guest.waits = self.world.receive(&mut guest.client, &guest.script.input[from..guest.heard]);
            } else if guest.shut == Told::OnTheWire {
                guest.shut = Told::Yes;
                guest.waits = self.world.end(&mut guest.client);
            } else {
                break;
            }
        }
    }

    fn plan_for(&mut self, number: usize, guest: &mut Guest) {
        if guest.client.pending.is_some() && guest.job == Work::None {
            guest.job = Work::UnderWay;
            let after_us = self.job_delay_us();
            self.after(after_us, Event::DoJob(number));
        }
        if let (Waits::ForRoom, Reading::Slowly { pause_us, .. }, false) =
            (guest.waits, guest.script.reading, guest.read_is_planned)
        {
            guest.read_is_planned = true;
            self.after(pause_us, Event::Read(number));
        }
        let deadline_ms = guest.client.connection.deadline_ms();
        if deadline_ms != guest.deadline_ms {
            guest.deadline_ms = deadline_ms;
            let late_us = self.random.within(0..TICK_US);
            let after_us = (deadline_ms * 1000).saturating_sub(self.world.now.us);
            self.after(after_us + late_us, Event::Expire(number));
        }
        if self.random.chance(5) {
            let after_us = self.random.within(0..SECOND_US);
            self.after(after_us, Event::Look(number));
        }
    }

    /// Most are done at once, some take a moment, and a few outlast the deadline.
    fn job_delay_us(&mut self) -> u64 {
        match self.random.within(0..100) {
            0..=59 => 0,
            60..=89 => self.random.within(0..20_000),
            90..=97 => self.random.within(0..3 * SECOND_US),
            _ => self.random.within(8 * SECOND_US..25 * SECOND_US),
        }
    }

    fn speak(&mut self, number: usize, guest: &mut Guest) {
        guest.spoken += guest.script.pieces[guest.pieces].1;
        guest.pieces += 1;
        match (guest.script.pieces.get(guest.pieces), guest.script.ending) {
            (Some((pause_us, _)), _) => self.after(*pause_us, Event::Speak(number)),
            (None, Ending::Shuts { after_us }) => self.after(after_us, Event::Shut(number)),
            (None, _) => {}
        }
    }

    fn do_job(&mut self, number: usize, guest: &mut Guest) {
        let (_, job) = guest.client.pending.clone().expect("the job is under way");
        let done = self.done(&job);
        self.world.server.cache_result(&job, &done);
        let is_inline = matches!(done, Done::Window(Window::Resident(_)));
        match is_inline || self.random.chance(60) {
            true => self.tell(guest, done),
            false => {
                let after_us = self.job_delay_us();
                self.after(after_us, Event::Result(number, done));
            }
        }
    }

    fn done(&mut self, job: &Job) -> Done {
        let failures =
            [Failure::Overloaded, Failure::TimedOut, Failure::DeviceDown, Failure::Broken, Failure::NotFound];
        // First looks are few.
        let is_first = matches!(job, Job::Find(find) if find.known.is_none());
        if self.random.chance(if is_first { 60 } else { 5 }) {
            return job.failed(*self.random.pick(&failures));
        }
        let Job::Load(load) = job else { return self.world.disk.help(job) };
        let look = match self.random.within(0..100) {
            _ if self.places.overwritten.contains(&load.file.stamp.inode) => Look::Changed,
            0..=59 => Look::Resident,
            60..=69 => Look::ResidentUpTo(self.random.within(1..300_000)),
            70..=84 => return self.world.disk.help(job),
            85..=98 => Look::Copied,
            _ => Look::Failed,
        };
        self.world.disk.script([look]);
        self.world.disk.try_now(job).expect("this look has an answer")
    }

    fn tell(&mut self, guest: &mut Guest, done: Done) {
        let (id, job) = guest.client.pending.take().expect("its job is under way");
        let answers = std::mem::replace(&mut guest.job, Work::None) == Work::UnderWay;
        let is_broken = matches!(done, Done::Failed(_) | Done::Window(Window::Changed | Window::Failed));
        let is_old =
            |known: &Entry| known.age_ms(self.world.now.ms()) >= 2 * self.world.server.settings.revalidate_ms;
        match (&job, &done) {
            (
                Job::Find(_),
                Done::Unchecked {
                    known,
                    failure: failure @ (Failure::Overloaded | Failure::TimedOut | Failure::NotFound),
                },
            ) if answers && is_old(known) => {
                guest.faults.insert(guest.begun, failure.status().0);
            }
            (job, Done::Failed(failure)) if is_answer(job) => {
                _ = answers.then(|| guest.faults.insert(guest.begun, failure.status().0));
            }
            (Job::Load(_) | Job::List(_), _) => guest.may_be_cut |= is_broken,
            _ => {}
        }
        // What came of an earlier exchange's job comes once more, and is nobody's.
        if let Some((earlier, stale)) = guest.told.replace((id, done.clone())).filter(|(of, _)| *of != id) {
            self.world
                .with(&mut guest.client, |connection, cx| connection.completed(earlier, stale.into(), cx));
        }
        guest.waits = self.world.finish(&mut guest.client, id, done);
        assert!(
            is_answer(&job) || !is_broken || guest.waits == Waits::Closed,
            "a body goes on that is none any more"
        );
    }

    fn expire(&mut self, guest: &mut Guest) {
        let is_due = self.world.now.ms() >= guest.client.connection.deadline_ms();
        match (guest.waits, &guest.client.pending) {
            _ if !is_due => {}
            (Waits::ForJob, Some((_, job))) if is_answer(job) && guest.job == Work::UnderWay => {
                guest.job = Work::Abandoned;
                guest.faults.insert(guest.begun, 503);
            }
            (Waits::ForJob | Waits::ForRoom, _) => guest.may_be_cut = true,
            (
                Waits::ForBytes | Waits::ForRate | Waits::Closed | Waits::ForProgram(_) | Waits::Detached,
                _,
            ) => {}
        }
        // The next deadline is planned for even if it is the same.
        guest.deadline_ms = u64::MAX;
        let unacknowledged = guest.script.unacknowledged_bytes.min(guest.client.got.len() as u64);
        self.world.with(&mut guest.client, |connection, cx| connection.expire(cx, || unacknowledged));
        let is_refused = guest.waits == Waits::ForBytes && self.world.tally.responses > 0;
        guest.too_slow = is_refused.then_some(guest.begun).or(guest.too_slow);
    }
}

impl Guest {
    fn new(client: Client, script: Script) -> Self {
        Self {
            client,
            waits: Waits::ForBytes,
            script,
            pieces: 0,
            spoken: 0,
            heard: 0,
            shut: Told::No,
            job: Work::None,
            told: None,
            read_is_planned: false,
            deadline_ms: u64::MAX,
            begun: 0,
            begun_before_draining: None,
            counted: Counted::default(),
            records: Vec::new(),
            faults: BTreeMap::new(),
            too_slow: None,
            may_be_cut: false,
            events: 0,
        }
    }

    /// What holds whenever a connection waits.
    fn check(&self, now_ms: u64, draining: bool) {
        let connection = &self.client.connection;
        let Settings { idle_timeout_ms, disk_deadline_ms, .. } = Settings::default();
        let patience_ms = match self.waits {
            Waits::ForBytes if connection.is_idle() => idle_timeout_ms,
            Waits::ForBytes | Waits::ForRoom => CREDIT_MS_MAX.into(),
            _ => disk_deadline_ms,
        };
        assert!(connection.deadline_ms() <= now_ms + patience_ms, "it waits for too long: {connection:?}");
        if connection.is_idle() {
            assert_eq!(connection.h1().input().capacity(), 0, "an idle connection holds memory");
            // A new client may send one request.
            let closes_soon = connection.deadline_ms() <= now_ms + 100;
            assert!(!draining || closes_soon, "an idle connection outlives the server");
        }
        assert!(self.records.len() <= self.begun, "a record too many");
    }
}

/// The hash of this cache differs from run to run, and so do collisions. Without collisions, all runs are alike.
fn local_cache_without_collisions() -> LocalCache {
    let missing = Entry::new(crate::file::entry::Resource::Missing, 0);
    let targets: Vec<String> = (0..4)
        .map(|number| format!("/missing-{number}"))
        .chain(PATHS.iter().chain(places::LISTED).chain(&["/closed", "/folder"]).map(|path| path.to_string()))
        .collect();
    loop {
        let mut local = LocalCache::new(1 << 20);
        for target in targets.iter().chain(&targets) {
            local.offer(SiteId(0), target.as_bytes(), &missing, 0, 1);
        }
        if targets.iter().all(|target| local.get(SiteId(0), target.as_bytes(), 0, 0).is_some()) {
            return local;
        }
    }
}
