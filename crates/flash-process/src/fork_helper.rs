//! The fork helper's loop: it starts the programs that server processes request, and reports how they end.
//!
//! Each server process has a socket of its own to the fork helper. A new server process registers over the rendezvous
//! socket. When a server process goes, its programs are ended. When the last has gone and no other can come, the fork
//! helper ends. It reads nothing but these messages, and waits for no disk: [threads](spawn_threads) start the
//! programs. The [`supervisor`](crate::supervisor) restarts it.

mod children;
mod spawn_threads;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use flash_core::upstream::OpenError;
use flash_os::channel::Channel;
use flash_os::poller::{self, Interest, Poller};
use flash_os::spawn::SpawnMethod;
use flash_os::{pidfd, signals};
use rustix::io::Errno;

use self::children::{Children, ProgramId};
use self::spawn_threads::{Busy, Outcome, SpawnThreads, Start, StartError, StartOutcome, Wait};
use crate::codec::Writer;
use crate::ipc::{self, Message, Received};
use crate::protocol::{Event, ExitStatus, Request, StartRequest};
use crate::script::Scripts;
use crate::setup::Setup;
use crate::start_record::StartRecord;

/// What runs the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelperMode {
    /// A process of its own.
    Process,
    /// A thread of the server, which forks for each program: what the process apart is there to avoid.
    Thread,
}

struct Helper {
    setup: Arc<Setup>,
    poller: Rc<Poller>,
    /// `None` when no server process is left that could register.
    rendezvous: Option<OwnedFd>,
    children: Children,
    threads: SpawnThreads,
    outcomes: Arc<Channel<Outcome>>,
    /// Readable when children have ended, without pidfds.
    child_ends: Option<OwnedFd>,
    servers: HashMap<u64, Server>,
    /// In the order in which they came.
    queue: VecDeque<Queued>,
    tokens: u64,
}

/// A server process.
struct Server {
    socket: OwnedFd,
    record: Arc<StartRecord>,
    /// With what comes along.
    unsent: VecDeque<(Event, Vec<Rc<OwnedFd>>)>,
    /// The socket is full; an event tells when it is not.
    is_full: bool,
}

/// A request that waits until fewer programs run, or until its thread is free.
struct Queued {
    start: Start,
    thread: usize,
    since: Instant,
}

impl Queued {
    fn is_counted(&self) -> bool {
        self.start.request.what.is_counted()
    }
}

const RENDEZVOUS: u64 = 0;
const OUTCOMES: u64 = 1;
const CHILD_ENDS: u64 = 2;
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
pub(crate) fn run(rendezvous: OwnedFd, setup: Arc<Setup>, mode: HelperMode) -> io::Result<()> {
    let poller = Rc::new(Poller::new()?);
    let outcomes = Arc::new(Channel::new()?);
    poller.add(&rendezvous, RENDEZVOUS, Interest::INPUT)?;
    poller.add_waker(outcomes.waker(), OUTCOMES)?;
    // Pidfds tell of the ends of their processes.
    let child_ends = match mode {
        HelperMode::Process if !pidfd::are_there() => Some(signals::child_ends()?),
        HelperMode::Process | HelperMode::Thread => None,
    };
    if let Some(ends) = &child_ends {
        poller.add(ends, CHILD_ENDS, Interest::INPUT)?;
    }
    let (method, is_subreaper) = match mode {
        HelperMode::Process => (SpawnMethod::Vfork, true),
        HelperMode::Thread => (SpawnMethod::Fork, false),
    };
    let mut helper = Helper {
        children: Children::new(Rc::clone(&poller), is_subreaper, setup.grace),
        threads: SpawnThreads::new(Arc::clone(&setup), method, Arc::clone(&outcomes))?,
        setup,
        poller,
        rendezvous: Some(rendezvous),
        outcomes,
        child_ends,
        servers: HashMap::new(),
        queue: VecDeque::new(),
        tokens: CHILD_ENDS,
    };
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut buffer = ipc::buffer();
    while helper.is_needed() {
        let timeout = helper.due_at().map(|at| at.saturating_duration_since(Instant::now()));
        helper.poller.wait(&mut events, timeout)?;
        helper.handle_events(&events, &mut buffer);
    }
    Ok(())
}

fn has_event(events: &[poller::Event], token: u64) -> bool {
    events.iter().any(|event| event.token == token)
}

impl Helper {
    fn is_needed(&self) -> bool {
        let is_over = self.rendezvous.is_none() && self.servers.is_empty() && self.children.is_idle();
        !is_over || self.started_until().is_some_and(|until| Instant::now() < until)
    }

    /// Until when this process, no longer needed, waits for programs that are being started.
    fn started_until(&self) -> Option<Instant> {
        self.threads.busy().map(|(_, busy)| busy.since + self.setup.grace).max()
    }

    fn due_at(&self) -> Option<Instant> {
        let queued = self.queue.front().map(|queued| queued.since + self.setup.queue_wait);
        let starting = self.threads.busy().filter(|(_, busy)| busy.wait == Wait::InTime);
        let starting = starting.map(|(_, busy)| busy.since + self.setup.queue_wait).min();
        // What is past would have the loop spin.
        let left = self.started_until().filter(|&until| self.servers.is_empty() && Instant::now() < until);
        self.children.due_at().into_iter().chain(queued).chain(starting).chain(left).min()
    }

    fn handle_events(&mut self, events: &[poller::Event], buffer: &mut [u8]) {
        let now = Instant::now();
        if let Some(ends) = self.child_ends.as_ref().filter(|_| has_event(events, CHILD_ENDS)) {
            // Before the look at children, so that none ends unnoticed.
            let _ = rustix::io::read(ends, &mut *buffer);
            self.children.sweep_at(now);
        }
        for outcome in Arc::clone(&self.outcomes).drain() {
            self.started(outcome, now);
        }
        // Those that ended make room for others.
        for event in events {
            if let Some((id, how)) = self.children.ended(event.token, now) {
                self.send_event(id.server, Event::Exited { number: id.number, how }, Vec::new());
            }
        }
        let mut ended = Vec::new();
        self.children.advance(now, |id, how| ended.push((id, how)));
        for (id, how) in ended {
            self.send_event(id.server, Event::Exited { number: id.number, how }, Vec::new());
        }
        self.refuse_late(now);
        for event in events {
            match event.token {
                RENDEZVOUS => self.accept_server(buffer),
                OUTCOMES | CHILD_ENDS => {}
                token => self.receive(token, buffer, now),
            }
        }
        self.start_next(now);
        let unsent: Vec<u64> = self
            .servers
            .iter()
            .filter(|(_, server)| !server.unsent.is_empty())
            .map(|(&token, _)| token)
            .collect();
        unsent.into_iter().for_each(|token| self.flush(token));
    }

    /// A server process registers, with a socket and its record of starts.
    fn accept_server(&mut self, buffer: &mut [u8]) {
        let Some(rendezvous) = &self.rendezvous else { return };
        match ipc::try_receive(rendezvous, buffer) {
            Ok(Received::Message(Message { descriptors, .. })) => {
                // A socket that came without its record is closed, which the server process sees.
                let Ok([socket, record]) = <[OwnedFd; 2]>::try_from(descriptors) else { return };
                self.tokens += 1;
                // Without memory for it the socket closes, and the server tries again.
                if self.poller.add(&socket, self.tokens, Interest::INPUT).is_ok() {
                    let record = Arc::new(StartRecord::from_server(record));
                    let server = Server { socket, record, unsent: VecDeque::new(), is_full: false };
                    self.servers.insert(self.tokens, server);
                }
            }
            Ok(Received::Nothing) => {}
            Ok(Received::Gone) | Err(_) => {
                self.poller.disarm(rendezvous);
                self.rendezvous = None;
            }
        }
    }

    /// Takes one message, so that no server has to wait for all of another's.
    fn receive(&mut self, token: u64, buffer: &mut [u8], now: Instant) {
        self.flush(token);
        let Some(server) = self.servers.get(&token) else { return };
        let (bytes, descriptors) = match ipc::try_receive(&server.socket, buffer) {
            Ok(Received::Message(Message { bytes, is_incomplete: true, .. })) => (bytes, None),
            Ok(Received::Message(Message { bytes, descriptors, .. })) => (bytes, Some(descriptors)),
            Ok(Received::Nothing) => return,
            Ok(Received::Gone) | Err(_) => return self.disconnect(token, now),
        };
        match (Request::of_bytes(&bytes), descriptors) {
            (Some(Request::Start(request)), Some(descriptors)) => {
                self.enqueue(token, request, descriptors, now)
            }
            (Some(Request::Start(StartRequest { number, .. })), None) => {
                let reason = "the fork helper has no descriptor left".into();
                self.refuse(ProgramId { server: token, number }, StartError(OpenError::Busy, reason));
            }
            (Some(Request::End { number }), _) => {
                self.children.terminate(|id| id == ProgramId { server: token, number }, now)
            }
            (Some(Request::Adopt { number, is_counted }), descriptors) => {
                let id = ProgramId { server: token, number };
                let pidfd = descriptors.and_then(|some| some.into_iter().next());
                self.tokens += 1;
                if !pidfd.is_some_and(|pidfd| self.children.adopt(self.tokens, id, pidfd, is_counted)) {
                    self.send_event(token, Event::Exited { number, how: ExitStatus::Unknown }, Vec::new());
                }
            }
            (None, _) => self.disconnect(token, now),
        }
    }

    /// A server process has gone: no process has a use for its programs any more.
    fn disconnect(&mut self, token: u64, now: Instant) {
        if let Some(server) = self.servers.remove(&token) {
            self.poller.disarm(&server.socket);
        }
        self.queue.retain(|queued| queued.start.id.server != token);
        self.children.terminate(|id| id.server == token, now);
    }

    /// Puts a request into the queue, where it stays for a moment if it can be started at once.
    fn enqueue(&mut self, server: u64, request: StartRequest, descriptors: Vec<OwnedFd>, now: Instant) {
        let id = ProgramId { server, number: request.number };
        let Some(thread) = self.threads.index_of(&request.what) else {
            return self.refuse(id, StartError(OpenError::Broken, "no such folder or command".into()));
        };
        let Some(record) = self.servers.get(&server).map(|server| Arc::clone(&server.record)) else { return };
        let start = Start::new(id, request, descriptors, record);
        self.queue.push_back(Queued { start, thread, since: now });
        self.start_next(now);
        let queued = self.queue.iter().filter(|queued| queued.is_counted()).count();
        let running = self.counted();
        let room = self.setup.running_max.saturating_sub(running);
        if queued > self.setup.queue_max + room
            && let Some(newest) = self.newest_of_longest()
        {
            let reason = format!("{running} programs run and {} wait", queued - 1);
            self.refuse(newest, StartError(OpenError::Busy, reason));
        }
    }

    /// Takes the newest request of the folder with the most requests out of the queue. So a folder that hangs takes no place
    /// from other folders.
    fn newest_of_longest(&mut self) -> Option<ProgramId> {
        let mut lengths: HashMap<usize, usize> = HashMap::new();
        for queued in self.queue.iter().filter(|queued| queued.is_counted()) {
            *lengths.entry(queued.thread).or_default() += 1;
        }
        let longest = lengths.values().max().copied()?;
        let is_of_longest =
            |queued: &Queued| queued.is_counted() && lengths.get(&queued.thread) == Some(&longest);
        let index = self.queue.iter().rposition(is_of_longest)?;
        self.queue.remove(index).map(|queued| queued.start.id)
    }

    /// How many programs run or are being started, of those that are limited in number.
    fn counted(&self) -> usize {
        self.children.counted() + self.threads.busy().filter(|(_, busy)| busy.is_counted).count()
    }

    /// Starts what may be started: of each folder and command the oldest, if its thread is free.
    fn start_next(&mut self, now: Instant) {
        let mut index = 0;
        while let Some(queued) = self.queue.get(index) {
            let has_room = !queued.is_counted() || self.counted() < self.setup.running_max;
            if !has_room || self.threads.is_busy(queued.thread) {
                index += 1;
                continue;
            }
            let Some(Queued { start, thread, since }) = self.queue.remove(index) else { break };
            let id = start.id;
            if let Err(refused) = self.threads.start(thread, start, (since, now)) {
                self.refuse(id, refused);
            }
        }
    }

    /// Refuses what has waited too long, in the queue or for the disk.
    fn refuse_late(&mut self, now: Instant) {
        let queue_wait = self.setup.queue_wait;
        while self.queue.front().is_some_and(|first| first.since + queue_wait <= now) {
            let Some(queued) = self.queue.pop_front() else { break };
            let others = if self.threads.is_busy(queued.thread) { "to start" } else { "to end" };
            let reason = format!("it waited {queue_wait:?} for others {others}");
            self.refuse(queued.start.id, StartError(OpenError::Busy, reason));
        }
        let starting = self.threads.busy().filter(|(_, busy)| busy.wait == Wait::InTime);
        let late = starting.filter(|(_, busy)| busy.since + queue_wait <= now);
        for thread in late.map(|(thread, _)| thread).collect::<Vec<_>>() {
            if let Some(id) = self.threads.give_up(thread) {
                let reason = format!("the disk did not answer for {queue_wait:?}");
                self.refuse(id, StartError(OpenError::Late, reason));
            }
        }
    }

    /// A thread has started a program, or could not.
    fn started(&mut self, Outcome { thread, result }: Outcome, now: Instant) {
        let busy = self.threads.done(thread).expect("a thread is busy with what it starts");
        let Busy { id, is_counted, queued, wait, .. } = busy;
        let is_refused = wait == Wait::Refused;
        let ProgramId { server, number } = id;
        let queue_us = queued.as_micros() as u64;
        match result {
            Ok(StartOutcome::Running { spawned, stderr, name_bytes }) => {
                let pid = spawned.pid;
                self.tokens += 1;
                let pidfd = self.children.add(self.tokens, id, spawned, is_counted, now);
                if is_refused || !self.servers.contains_key(&server) {
                    return self.children.terminate(|other| other == id, now);
                }
                let has_pidfd = pidfd.is_some();
                let along = pidfd.into_iter().chain([Rc::new(stderr)]).collect();
                let started = Event::Started { number, pid, name_bytes, has_pidfd, queue_us };
                self.send_event(server, started, along);
            }
            _ if is_refused => return,
            Ok(StartOutcome::SpawnError) => {
                let started = Event::Started { number, pid: 0, name_bytes: 0, has_pidfd: false, queue_us };
                self.send_event(server, started, Vec::new());
                // As shells say it of a program that cannot be run.
                self.send_event(server, Event::Exited { number, how: ExitStatus::Code(127) }, Vec::new());
            }
            Err(refused) => return self.refuse(id, refused),
        }
        // Now, because unsent events are lost if this process is killed.
        self.flush(server);
    }

    fn refuse(&mut self, ProgramId { server, number }: ProgramId, StartError(why, reason): StartError) {
        self.send_event(server, Event::Rejected { number, why, reason }, Vec::new());
    }

    fn send_event(&mut self, server: u64, event: Event, along: Vec<Rc<OwnedFd>>) {
        if let Some(server) = self.servers.get_mut(&server) {
            server.unsent.push_back((event, along));
        }
    }

    /// Sends events until the socket is full.
    fn flush(&mut self, token: u64) {
        let Some(server) = self.servers.get_mut(&token) else { return };
        let was_full = std::mem::take(&mut server.is_full);
        while !server.unsent.is_empty() && !server.is_full {
            let (mut count, mut bytes, mut all) = (0, Writer::default(), Vec::new());
            for (event, along) in server.unsent.iter().take(ipc::DESCRIPTORS_MAX) {
                if all.len() + along.len() > ipc::DESCRIPTORS_MAX {
                    break;
                }
                event.put(&mut bytes);
                all.extend(along.iter().map(|descriptor| descriptor.as_fd()));
                count += 1;
            }
            match ipc::try_send(&server.socket, &bytes.bytes, &all) {
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => server.is_full = true,
                // Sent, or the server process is gone, which is an event of its own.
                _ => drop(server.unsent.drain(..count)),
            }
        }
        if server.is_full != was_full {
            // It can only fail for a socket that was never added.
            let _ = self.poller.modify(&server.socket, token, Interest::new(true, server.is_full));
        }
    }
}
