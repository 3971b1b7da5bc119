//! The fork helper's loop: it begins what servers ask for, and tells them what became of it.
//!
//! Each server process has a socket of its own to it, so that there can be any number of them; a new one presents itself
//! at the door. When one goes its programs are ended, and when the last has gone, and nobody can come any more, so is the
//! fork helper. It reads nothing but these messages, and waits for no disk: [threads](spawn_threads) start the programs.
//! Its life as a process is [`guard`](crate::guard)'s business.

mod crew;
mod spawn_threads;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use flash_core::program::Refusal;
use flash_os::channel::Channel;
use flash_os::spawn::SpawnMethod;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::Pid;

use self::crew::{Crew, Name};
use self::spawn_threads::{Busy, Fate, Outcome, Refused, SpawnThreads, Start};
use crate::post::{self, Received};
use crate::script::Scripts;
use crate::setup::Setup;
use crate::start_record::StartRecord;
use crate::wire::{Ask, Begin, Ended, Tell};

/// Who runs the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A process of its own.
    Apart,
    /// A thread of the server, which forks for each program: what the process apart is there to avoid.
    Inside,
}

struct Helper {
    setup: Arc<Setup>,
    epoll: Rc<OwnedFd>,
    /// `None` when nobody is left who could come.
    door: Option<OwnedFd>,
    crew: Crew,
    threads: SpawnThreads,
    outcomes: Arc<Channel<Outcome>>,
    servers: HashMap<u64, Server>,
    /// In the order in which they came.
    queue: VecDeque<Waiting>,
    tokens: u64,
}

/// A server process.
struct Server {
    socket: OwnedFd,
    record: Arc<StartRecord>,
    untold: VecDeque<(Tell, Option<Rc<OwnedFd>>)>,
    /// It takes no more for now; an event says when it does.
    is_full: bool,
}

/// A request that waits until fewer programs run, or until its thread is free.
struct Waiting {
    start: Start,
    thread: usize,
    until: Instant,
}

impl Waiting {
    fn is_counted(&self) -> bool {
        self.start.begin.what.is_counted()
    }
}

const DOOR: u64 = 0;
const OUTCOMES: u64 = 1;
const EVENTS_MAX: usize = 64;

/// Opens the folders of scripts.
///
/// # Errors
/// The first that cannot be opened.
pub(crate) fn open_scripts(setup: &Setup) -> io::Result<Vec<Scripts>> {
    let open = |folder: &crate::setup::Folder| {
        Scripts::open(folder)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.path.display())))
    };
    setup.folders.iter().map(open).collect()
}

/// Helps until all servers are gone.
///
/// # Errors
/// When the kernel has no room for the few things that this needs.
pub(crate) fn run(door: OwnedFd, setup: Arc<Setup>, place: Place) -> io::Result<()> {
    let epoll = Rc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
    let outcomes = Arc::new(Channel::new()?);
    epoll::add(&*epoll, &door, epoll::EventData::new_u64(DOOR), epoll::EventFlags::IN)?;
    let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&*epoll, outcomes.eventfd(), epoll::EventData::new_u64(OUTCOMES), edge)?;
    let (method, inherits) = match place {
        Place::Apart => (SpawnMethod::Vfork, true),
        Place::Inside => (SpawnMethod::Fork, false),
    };
    let mut helper = Helper {
        crew: Crew::new(Rc::clone(&epoll), inherits, setup.grace),
        threads: SpawnThreads::new(Arc::clone(&setup), method, Arc::clone(&outcomes))?,
        setup,
        epoll,
        door: Some(door),
        outcomes,
        servers: HashMap::new(),
        queue: VecDeque::new(),
        tokens: OUTCOMES,
    };
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut buffer = post::buffer();
    while helper.is_needed() {
        let timeout = helper.due_at().map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        events.clear();
        match epoll::wait(&*helper.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Err(Errno::INTR) => continue,
            result => result?,
        };
        helper.turn(&events, &mut buffer);
    }
    Ok(())
}

impl Helper {
    fn is_needed(&self) -> bool {
        let is_over = self.door.is_none() && self.servers.is_empty() && self.crew.is_idle();
        !is_over || self.started_until().is_some_and(|until| Instant::now() < until)
    }

    /// Until when this process, no longer needed, waits for programs that are being started.
    fn started_until(&self) -> Option<Instant> {
        self.threads.busy().map(|(_, busy)| busy.since + self.setup.grace).max()
    }

    fn due_at(&self) -> Option<Instant> {
        let waiting = self.queue.front().map(|waiting| waiting.until);
        let starting = self.threads.busy().filter(|(_, busy)| !busy.is_refused);
        let starting = starting.map(|(_, busy)| busy.since + self.setup.queue_wait).min();
        let left = if self.servers.is_empty() { self.started_until() } else { None };
        self.crew.due_at().into_iter().chain(waiting).chain(starting).chain(left).min()
    }

    fn turn(&mut self, events: &[epoll::Event], buffer: &mut [u8]) {
        let now = Instant::now();
        for outcome in Arc::clone(&self.outcomes).drain() {
            self.started(outcome, now);
        }
        // Those that ended make room for others.
        for event in events {
            if let Some((name, how)) = self.crew.ended(event.data.u64(), now) {
                self.tell(name.server, Tell::Ended { number: name.number, how }, None);
            }
        }
        let mut ended = Vec::new();
        self.crew.advance(now, |name, how| ended.push((name, how)));
        for (name, how) in ended {
            self.tell(name.server, Tell::Ended { number: name.number, how }, None);
        }
        self.refuse_late(now);
        for event in events {
            match event.data.u64() {
                DOOR => self.open_door(buffer),
                OUTCOMES => {}
                token => self.listen(token, buffer, now),
            }
        }
        self.start_next(now);
        let told: Vec<u64> = self
            .servers
            .iter()
            .filter(|(_, server)| !server.untold.is_empty())
            .map(|(&token, _)| token)
            .collect();
        told.into_iter().for_each(|token| self.flush(token));
    }

    /// A server process presents itself, with a socket and its record of starts.
    fn open_door(&mut self, buffer: &mut [u8]) {
        let Some(door) = &self.door else { return };
        match post::receive(door, buffer) {
            Ok(Received::Message { descriptors, .. }) => {
                let Ok([socket, record]) = <[OwnedFd; 2]>::try_from(descriptors) else { return };
                self.tokens += 1;
                let data = epoll::EventData::new_u64(self.tokens);
                // Without memory for it the socket closes, and the server tries again.
                if epoll::add(&*self.epoll, &socket, data, epoll::EventFlags::IN).is_ok() {
                    let record = Arc::new(StartRecord::from_server(record));
                    let server = Server { socket, record, untold: VecDeque::new(), is_full: false };
                    self.servers.insert(self.tokens, server);
                }
            }
            // A socket that came without its descriptors is closed, which its server hears.
            Ok(Received::Nothing | Received::Incomplete { .. }) => {}
            Ok(Received::Gone) | Err(_) => self.door = None,
        }
    }

    /// Takes one message, so that no server has to wait for all of another's.
    fn listen(&mut self, token: u64, buffer: &mut [u8], now: Instant) {
        self.flush(token);
        let Some(server) = self.servers.get(&token) else { return };
        let (bytes, descriptors) = match post::receive(&server.socket, buffer) {
            Ok(Received::Message { bytes, descriptors }) => (bytes, Some(descriptors)),
            Ok(Received::Incomplete { bytes }) => (bytes, None),
            Ok(Received::Nothing) => return,
            Ok(Received::Gone) | Err(_) => return self.leave(token, now),
        };
        match (Ask::of_bytes(bytes), descriptors) {
            (Some(Ask::Begin(begin)), Some(descriptors)) => self.ask(token, begin, descriptors, now),
            (Some(Ask::Begin(Begin { number, .. })), None) => {
                let reason = "the fork helper has no descriptor left".into();
                self.refuse(Name { server: token, number }, Refused(Refusal::Busy, reason));
            }
            (Some(Ask::End { number }), _) => {
                self.crew.end(|name| name == Name { server: token, number }, now)
            }
            (Some(Ask::Adopt { number, pid, is_counted }), descriptors) => {
                let name = Name { server: token, number };
                match (descriptors.and_then(|some| some.into_iter().next()), Pid::from_raw(pid)) {
                    (Some(pidfd), Some(pid)) => {
                        self.tokens += 1;
                        self.crew.adopt(self.tokens, name, pid, pidfd, is_counted);
                    }
                    _ => self.tell(token, Tell::Ended { number, how: Ended::Unknown }, None),
                }
            }
            (None, _) => self.leave(token, now),
        }
    }

    /// A server has gone, and nobody waits for its programs any more.
    fn leave(&mut self, token: u64, now: Instant) {
        self.servers.remove(&token);
        self.queue.retain(|waiting| waiting.start.name.server != token);
        self.crew.end(|name| name.server == token, now);
    }

    /// Puts a request into the queue, where it stays for a moment if it can be started at once.
    fn ask(&mut self, server: u64, begin: Begin, descriptors: Vec<OwnedFd>, now: Instant) {
        let name = Name { server, number: begin.number };
        let Some(thread) = self.threads.index_of(&begin.what) else {
            return self.refuse(name, Refused(Refusal::Broken, "no such folder or command".into()));
        };
        let Some(record) = self.servers.get(&server).map(|server| Arc::clone(&server.record)) else { return };
        let start = Start { name, begin, descriptors, record };
        self.queue.push_back(Waiting { start, thread, until: now + self.setup.queue_wait });
        self.start_next(now);
        let waiting = self.queue.iter().filter(|waiting| waiting.is_counted()).count();
        let running = self.counted();
        let room = self.setup.running_max.saturating_sub(running);
        if waiting > self.setup.queue_max + room
            && let Some(newest) = self.newest_of_longest()
        {
            let reason = format!("{running} programs run and {} wait", waiting - 1);
            self.refuse(newest, Refused(Refusal::Busy, reason));
        }
    }

    /// Takes the newest request out of the queue, of the folder that has most of them there: a folder that does not
    /// answer takes no place from others.
    fn newest_of_longest(&mut self) -> Option<Name> {
        let mut lengths: HashMap<usize, usize> = HashMap::new();
        for waiting in self.queue.iter().filter(|waiting| waiting.is_counted()) {
            *lengths.entry(waiting.thread).or_default() += 1;
        }
        let longest = lengths.values().max().copied()?;
        let is_of_longest =
            |waiting: &Waiting| waiting.is_counted() && lengths.get(&waiting.thread) == Some(&longest);
        let index = self.queue.iter().rposition(is_of_longest)?;
        self.queue.remove(index).map(|waiting| waiting.start.name)
    }

    /// How many programs run or are being started, of those that are limited in number.
    fn counted(&self) -> usize {
        self.crew.counted() + self.threads.busy().filter(|(_, busy)| busy.is_counted).count()
    }

    /// Starts what may be started: of each folder and command the oldest, if its thread is free.
    fn start_next(&mut self, now: Instant) {
        let mut index = 0;
        while let Some(waiting) = self.queue.get(index) {
            let has_room = !waiting.is_counted() || self.counted() < self.setup.running_max;
            if !has_room || self.threads.is_busy(waiting.thread) {
                index += 1;
                continue;
            }
            let Some(Waiting { start, thread, .. }) = self.queue.remove(index) else { break };
            let name = start.name;
            if let Err(refused) = self.threads.start(thread, start, now) {
                self.refuse(name, refused);
            }
        }
    }

    /// Refuses what has waited too long, in the queue or for the disk.
    fn refuse_late(&mut self, now: Instant) {
        let queue_wait = self.setup.queue_wait;
        while self.queue.front().is_some_and(|first| first.until <= now) {
            let Some(waiting) = self.queue.pop_front() else { break };
            let others = if self.threads.is_busy(waiting.thread) { "to start" } else { "to end" };
            let reason = format!("it waited {queue_wait:?} for others {others}");
            self.refuse(waiting.start.name, Refused(Refusal::Busy, reason));
        }
        let is_late = |busy: &Busy| !busy.is_refused && busy.since + queue_wait <= now;
        let late: Vec<_> = self.threads.busy().filter(|(_, busy)| is_late(busy)).collect();
        for (thread, busy) in late {
            self.threads.mark_refused(thread);
            let reason = format!("the disk did not answer for {queue_wait:?}");
            self.refuse(busy.name, Refused(Refusal::Late, reason));
        }
    }

    /// A thread has started a program, or could not.
    fn started(&mut self, Outcome { thread, name, result }: Outcome, now: Instant) {
        let is_refused = self.threads.done(thread).is_none_or(|busy| busy.is_refused);
        let Name { server, number } = name;
        match result {
            Ok(Fate::Runs { spawned, name_bytes, is_counted }) => {
                let pid = spawned.pid;
                self.tokens += 1;
                let pidfd = self.crew.add(self.tokens, name, spawned, is_counted, now);
                if is_refused || !self.servers.contains_key(&server) {
                    return self.crew.end(|other| other == name, now);
                }
                self.tell(server, Tell::Begun { number, pid, name_bytes }, Some(pidfd));
            }
            _ if is_refused => return,
            Ok(Fate::Died) => {
                self.tell(server, Tell::Begun { number, pid: 0, name_bytes: 0 }, None);
                // As shells say it of a program that cannot be run.
                self.tell(server, Tell::Ended { number, how: Ended::Code(127) }, None);
            }
            Err(refused) => return self.refuse(name, refused),
        }
        // Now, because what is not told is lost should this process be killed.
        self.flush(server);
    }

    fn refuse(&mut self, Name { server, number }: Name, Refused(why, reason): Refused) {
        self.tell(server, Tell::Refused { number, why, reason }, None);
    }

    fn tell(&mut self, server: u64, what: Tell, pidfd: Option<Rc<OwnedFd>>) {
        if let Some(server) = self.servers.get_mut(&server) {
            server.untold.push_back((what, pidfd));
        }
    }

    /// Sends what there is to tell, as far as the server takes it.
    fn flush(&mut self, token: u64) {
        let Some(server) = self.servers.get_mut(&token) else { return };
        let was_full = std::mem::take(&mut server.is_full);
        while !server.untold.is_empty() && !server.is_full {
            let count = server.untold.len().min(post::DESCRIPTORS_MAX);
            let mut bytes = Vec::new();
            let mut pidfds = Vec::new();
            for (tell, pidfd) in server.untold.range(..count) {
                tell.put(&mut bytes);
                pidfds.extend(pidfd.as_ref().map(|pidfd| pidfd.as_fd()));
            }
            match post::send(&server.socket, &bytes, &pidfds) {
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => server.is_full = true,
                // Sent, or for nobody: that it is gone is an event of its own.
                _ => drop(server.untold.drain(..count)),
            }
        }
        if server.is_full != was_full {
            let out = if server.is_full { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(token);
            // It can only fail for a socket that was never added.
            let _ = epoll::modify(&*self.epoll, &server.socket, data, epoll::EventFlags::IN | out);
        }
    }
}
