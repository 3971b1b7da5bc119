//! Simulates a loop without a kernel, from a seed. Connections open and close, so the loop reuses its slots. Events, results
//! and deadlines reach it in any order, some of them long after their connection is closed.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use flash_core::cache::memory_budget;
use flash_core::connection::output::{Front, Output};
use flash_core::file::compressed::Compressed;
use flash_core::file::entry::{Entry, Resource, Variants};
use flash_core::file::header::HeaderTemplate;
use flash_core::file::{Content, File, Stamp};
use flash_core::job::{Done, Job};
use flash_core::record::Peer;
use flash_http::negotiate::CodingSet;
use parking_lot::Mutex;
use tempfile::TempDir;

use super::*;
use crate::connections::socket::{Received, Sent};
use crate::poller;
use crate::testing::{self, Random, each_seed};
use crate::{Limits, Listener};

#[test]
fn no_connection_gets_the_event_of_another() {
    let folder = TempDir::new().unwrap();
    let limits = Limits { connections_max: SLOTS_MAX, handshakes_max: 100, ..Limits::default() };
    let shared = testing::shared(folder.path(), limits, DISK_DEADLINE_MS);
    each_seed(1..10, |seed| Simulation::new(seed, Arc::clone(&shared)).run(4_000));
}

/// A thousand busy clients would otherwise delay those whose work is deferred for as long as they are busy.
#[test]
fn deferred_work_keeps_up_with_events() {
    let folder = TempDir::new().unwrap();
    let limits = Limits { connections_max: SLOTS_MAX, handshakes_max: 100, ..Limits::default() };
    let shared = testing::shared(folder.path(), limits, DISK_DEADLINE_MS);
    let mut event_loop = Simulation::new(1, shared).event_loop;
    event_loop.deferred.extend((0..100).map(Deferred::NextTurn));
    event_loop.run_deferred(1);
    assert_eq!(event_loop.deferred.len(), 96);
    event_loop.run_deferred(200);
    assert_eq!(event_loop.deferred.len(), 46);
}

struct Simulation {
    random: Random,
    event_loop: EventLoop<Hold, Wires>,
    completions: Arc<CompletionQueue>,
    held: Held,
    /// Those that were done lately.
    told: Vec<Asked>,
    /// Tokens of connections that were there once.
    old: Vec<u64>,
    answered: usize,
    /// How many gave up their permits.
    evicted: usize,
}

/// Jobs that nobody has done yet, and for which connection's exchange they are.
type Held = Arc<Mutex<Vec<Asked>>>;
type Asked = (u64, ExchangeId, Job);

struct Hold {
    held: Held,
    random: Random,
}

/// The other ends of all connections.
struct Wires {
    random: Random,
    wires: HashMap<RawFd, Wire>,
    /// Those of connections that have ended.
    ended: Vec<Wire>,
    buffer: Vec<u8>,
}

struct Wire {
    _other_end: UnixStream,
    token: u64,
    /// What is asked for, and how much of that has been said.
    asked: Vec<u64>,
    input: Vec<u8>,
    sent: usize,
    received: usize,
    room: usize,
    /// How much comes at a time.
    pace: usize,
    send: Sending,
    got: Vec<u8>,
    shut: bool,
    /// It was not patient, or the server was not.
    is_over: bool,
}

/// A send that says later what became of it.
enum Sending {
    None,
    Opened(Vec<u8>),
    Done(u64),
}

/// Few, so that they are used again and again.
const SLOTS_MAX: usize = 6;
const DISK_DEADLINE_MS: u64 = 2_000;
const PATHS: u64 = 50;

impl Simulation {
    fn new(seed: u64, shared: Arc<ServerState>) -> Self {
        let mut random = Random::new(seed);
        let (completions, held) = (Arc::new(CompletionQueue::new().unwrap()), Held::default());
        let hold = Hold { held: Arc::clone(&held), random: Random::new(random.next()) };
        let event_loop = EventLoop::new(shared, Arc::clone(&completions), hold).unwrap();
        Self {
            random,
            event_loop,
            completions,
            held,
            told: Vec::new(),
            old: Vec::new(),
            answered: 0,
            evicted: 0,
        }
    }

    fn run(mut self, steps: usize) {
        for _ in 0..steps {
            match self.random.within(0..100) {
                0..=9 => self.come(),
                10..=39 => self.with_wire(|random, wire| wire.send(random)),
                40..=54 => self.with_wire(|random, wire| wire.room += random.within(1..20_000) as usize),
                55..=64 => self.with_wire(|_, wire| wire.finish_send()),
                65..=67 => self.with_wire(|_, wire| wire.shut = true),
                68..=69 => self.leave(),
                70..=84 => self.do_job(),
                85..=92 => self.handle_completions(),
                93..=94 => self.stray(),
                _ => self.time_passes(),
            }
            self.others_go_on();
            self.judge_ended();
        }
        self.come_to_rest();
    }

    fn come(&mut self) {
        let Some(permit) = self.event_loop.worker.shared.permit().or_else(|| self.take_permit()) else {
            return;
        };
        let (socket, other_end) = UnixStream::pair().unwrap();
        let asked: Vec<u64> = (0..self.random.within(1..6)).map(|_| self.random.within(0..PATHS)).collect();
        let input =
            asked.iter().map(|path| format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n")).collect::<String>();
        let wire = Wire {
            _other_end: other_end,
            token: 0,
            asked,
            input: input.into_bytes(),
            sent: 0,
            received: 0,
            room: 0,
            pace: *self.random.pick(&[1, 20, 300]),
            send: Sending::None,
            got: Vec::new(),
            shut: false,
            is_over: false,
        };
        let socket = OwnedFd::from(socket);
        assert!(self.event_loop.poller.wires.insert(socket.as_raw_fd(), wire).is_none());
        self.event_loop.open_connection(socket, TransportInfo::plain(Peer::Unix), permit);
    }

    /// One gives up its permit. What it was asked for is there, unless its client was behind: with taking, or with a rest that is dropped.
    fn take_permit(&mut self) -> Option<ConnectionPermit> {
        let permit = self.event_loop.take_permit()?;
        let wire = self.event_loop.poller.ended.last().expect("a connection has ended");
        let received = &wire.input[..wire.received];
        let (answers, heads) = (wire.judge(), received.windows(4).filter(|four| four == b"\r\n\r\n").count());
        let takes_nothing = wire.room == 0 || !matches!(wire.send, Sending::None);
        assert!(answers == heads || takes_nothing || answers == heads + 1, "{answers} of {heads}");
        self.evicted += 1;
        Some(permit)
    }

    /// Something happens at a connection's other end, and the loop hears of it.
    fn with_wire(&mut self, what: impl FnOnce(&mut Random, &mut Wire)) {
        let Some(wire) = self.event_loop.poller.any() else { return };
        what(&mut self.random, wire);
        let token = wire.token;
        self.event_loop.handle(Event { token, readiness: true });
    }

    fn leave(&mut self) {
        let Some(wire) = self.event_loop.poller.any() else { return };
        wire.is_over = true;
        let token = wire.token;
        self.event_loop.handle(Event { token, readiness: false });
    }

    fn do_job(&mut self) {
        let mut held = self.held.lock();
        if held.is_empty() {
            return;
        }
        let place = self.random.within(0..held.len() as u64) as usize;
        let (token, exchange, job) = held.remove(place);
        self.completions.push(token, Completion::Done(exchange, Outcome::from(done(&job))));
        self.told.push((token, exchange, job));
    }

    fn handle_completions(&mut self) {
        self.event_loop.handle(Event { token: COMPLETIONS, readiness: true });
    }

    /// An event that the kernel had ready when its connection was closed.
    fn stray(&mut self) {
        if !self.old.is_empty() {
            let token = *self.random.pick(&self.old);
            self.event_loop.handle(Event { token, readiness: self.random.chance(50) });
        }
        // And what came of jobs before, for the same connections' earlier exchanges.
        for (token, exchange, job) in self.told.drain(..) {
            self.completions.push(token, Completion::Done(exchange, Outcome::from(done(&job))));
        }
    }

    fn time_passes(&mut self) {
        let us = self.event_loop.worker.clock.now.us + self.random.within(0..300_000);
        self.event_loop.worker.clock.now.advance(us);
        self.event_loop.expire();
    }

    fn others_go_on(&mut self) {
        self.event_loop.run_deferred(0);
    }

    fn judge_ended(&mut self) {
        for wire in std::mem::take(&mut self.event_loop.poller.ended) {
            self.answered += wire.judge();
            self.old.push(wire.token);
        }
        assert_eq!(self.event_loop.slots.len(), self.event_loop.poller.wires.len());
    }

    /// Everything that was begun ends; then whoever is still there has all its answers.
    fn come_to_rest(mut self) {
        for _ in 0..100 {
            while !self.held.lock().is_empty() {
                self.do_job();
            }
            self.handle_completions();
            for (token, _) in self.event_loop.poller.tokens() {
                // Events are edges: where nothing has happened there is none.
                if self.event_loop.poller.of(token).is_some_and(Wire::has_no_limits) {
                    self.event_loop.handle(Event { token, readiness: true });
                }
            }
            self.others_go_on();
            self.judge_ended();
        }
        for wire in self.event_loop.poller.wires.values() {
            let received = wire.received == wire.input.len();
            assert!(received && wire.judge() == wire.asked.len(), "an answer is missing");
        }
        let us = self.event_loop.worker.clock.now.us + 100_000_000;
        self.event_loop.worker.clock.now.advance(us);
        self.event_loop.expire();
        self.judge_ended();
        assert!(self.event_loop.slots.is_empty(), "a connection is forgotten");
        let permits: Vec<_> = (0..SLOTS_MAX).map_while(|_| self.event_loop.worker.shared.permit()).collect();
        assert_eq!(permits.len(), SLOTS_MAX, "a permit is lost");
        assert!(self.answered > 100, "hardly anybody was answered");
        assert!(self.evicted > 5, "hardly anybody gave up a permit");
    }
}

impl Wire {
    fn send(&mut self, random: &mut Random) {
        let most = random.within(1..200) as usize;
        self.sent = self.input.len().min(self.sent + most);
    }

    fn finish_send(&mut self) {
        if let Sending::Opened(bytes) = std::mem::replace(&mut self.send, Sending::None) {
            self.send = Sending::Done(bytes.len() as u64);
            self.got.extend(bytes);
        }
    }

    /// Says the rest and takes everything. Returns whether that is news.
    fn has_no_limits(&mut self) -> bool {
        let is_news = self.room < 1 << 40 || matches!(self.send, Sending::Opened(_));
        self.sent = self.input.len();
        self.room = usize::MAX;
        self.finish_send();
        is_news
    }

    /// How many answers came, each of which is the right one.
    fn judge(&self) -> usize {
        let (mut got, mut answers) = (self.got.as_slice(), 0);
        while let Some(head_end) = got.windows(4).position(|four| four == b"\r\n\r\n") {
            let (head, rest) = got.split_at(head_end + 4);
            let head = std::str::from_utf8(head).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
            let body = &rest[..rest.len().min(length.parse().unwrap())];
            if head.starts_with("HTTP/1.1 200") {
                let expected = content(self.asked[answers]);
                assert!(expected.starts_with(body), "the answer to something else");
            } else {
                // Its job, or its head, was too late.
                assert!(head.starts_with("HTTP/1.1 503") || head.starts_with("HTTP/1.1 408"), "{head}");
            }
            got = &rest[body.len()..];
            answers += 1;
        }
        assert!(answers <= self.asked.len() + 1);
        answers
    }
}

fn content(path: u64) -> Vec<u8> {
    format!("{path} ").repeat(1 + (path * path * 3) as usize).into_bytes()
}

fn done(job: &Job) -> Done {
    let Job::Find(find) = job else { unreachable!("all files are in memory") };
    let path = std::str::from_utf8(&find.path.as_bytes()[1..]).unwrap().parse().unwrap();
    let bytes = content(path);
    let stamp = Stamp { size: bytes.len() as u64, inode: path, ..Stamp::default() };
    let media = flash_http::media::of(b"x.txt");
    let content = Content::Memory(memory_budget::BudgetedBytes::from(bytes).into());
    let file = File::new(stamp, media, None, false, (&HeaderTemplate::default(), None), content);
    let (identity, compressed) = (Arc::new(file), Compressed::default());
    let variants = Variants { identity, coded: Vec::new(), looked_for: CodingSet::ALL, compressed };
    let resource = Resource::File(variants);
    Done::Found(Arc::new(Entry::new(resource, find.asked_ms)))
}

impl Dispatch for Hold {
    fn dispatch(
        &mut self,
        job: Job,
        token: u64,
        exchange: ExchangeId,
        _: ClientNetwork,
        _: &LoopMetrics,
    ) -> Option<Outcome> {
        if self.random.chance(20) {
            return Some(done(&job).into());
        }
        self.held.lock().push((token, exchange, job));
        None
    }
}

impl Wires {
    fn any(&mut self) -> Option<&mut Wire> {
        let tokens = self.tokens();
        if tokens.is_empty() {
            return None;
        }
        let (token, _) = *self.random.pick(&tokens);
        self.of(token)
    }

    /// In an order that is the same in each run.
    fn tokens(&self) -> Vec<(u64, RawFd)> {
        let mut tokens: Vec<_> = self.wires.iter().map(|(fd, wire)| (wire.token, *fd)).collect();
        tokens.sort_unstable();
        tokens
    }

    fn of(&mut self, token: u64) -> Option<&mut Wire> {
        self.wires.values_mut().find(|wire| wire.token == token)
    }

    fn at(&mut self, socket: &OwnedFd) -> &mut Wire {
        self.wires.get_mut(&socket.as_raw_fd()).expect("its other end is here")
    }
}

impl Poller for Wires {
    type SocketState = ();
    type Readiness = bool;

    fn new(_: &Arc<CompletionQueue>, _: u64) -> io::Result<Self> {
        Ok(Self { random: Random::new(0), wires: HashMap::new(), ended: Vec::new(), buffer: Vec::new() })
    }

    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, _: Option<Duration>) -> io::Result<usize> {
        unreachable!("the simulation says what happens")
    }

    fn next(&mut self) -> Option<Event<bool>> {
        None
    }

    fn listen(&mut self, _: &Listener, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn listen_again(&mut self, _: &Listener, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn ignore(&mut self, _: &Listener, _: u64) {}

    fn socket_state() {}

    fn note(&mut self, (): &mut (), is_there: bool) -> bool {
        is_there
    }

    fn receive(&mut self, (): &mut (), socket: &OwnedFd) -> Received {
        let wire = self.at(socket);
        let count = wire.pace.min(wire.sent - wire.received);
        match count {
            0 if wire.shut => Received::End,
            0 => Received::Blocked,
            _ => {
                let bytes = wire.input[wire.received..wire.received + count].to_vec();
                wire.received += count;
                self.buffer = bytes;
                Received::Bytes(count)
            }
        }
    }

    fn received(&self, count: usize) -> &[u8] {
        &self.buffer[..count]
    }

    fn send(
        &mut self,
        (): &mut (),
        socket: &OwnedFd,
        _: u64,
        output: &Output,
        _: &LoopMetrics,
    ) -> Option<Sent> {
        let begins = self.random.chance(40);
        let wire = self.at(socket);
        match std::mem::replace(&mut wire.send, Sending::None) {
            Sending::Done(count) => return Some(Sent::Bytes(count)),
            begun @ Sending::Opened(_) => {
                wire.send = begun;
                return None;
            }
            Sending::None => {}
        }
        let mut slices = [io::IoSlice::new(&[]); 3];
        let Front::Slices { count, .. } = output.front(&mut slices) else {
            unreachable!("nothing is a file")
        };
        let mut bytes = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>();
        bytes.truncate(wire.room);
        if bytes.is_empty() {
            return Some(Sent::Blocked);
        }
        wire.room -= bytes.len();
        if begins {
            wire.send = Sending::Opened(bytes);
            return None;
        }
        wire.got.extend_from_slice(&bytes);
        Some(Sent::Bytes(bytes.len() as u64))
    }

    fn settle(&mut self, (): &mut (), socket: &OwnedFd, token: u64, _: WakeOn) -> io::Result<()> {
        self.at(socket).token = token;
        Ok(())
    }

    fn watch(&mut self, _: &OwnedFd, _: u64, _: poller::Registered) -> io::Result<()> {
        unreachable!("there are no programs here")
    }

    fn goes_on(_: &bool) -> bool {
        true
    }

    fn forget(&mut self, _: &OwnedFd, _: u64) {}

    fn close(&mut self, (): (), socket: OwnedFd, token: u64) {
        let mut wire = self.wires.remove(&socket.as_raw_fd()).expect("its other end is here");
        wire.token = token;
        self.ended.push(wire);
    }
}
