//! The keeper's thread: all it knows, and what it does with it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_core::program::Refusal;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use super::complaints::{Complaints, Heard};
use super::{Hearing, Letter, Limits, Mail, Order, Running, Started, Stdio, Watcher};
use crate::post::{self, Received};
use crate::start_record::{LastStarted, StartRecord};
use crate::wire::{Ask, Begin, Ended, NULL, Tell, What};

pub(super) struct Desk {
    mail: Arc<Mail>,
    /// Where a fork helper is met.
    door: OwnedFd,
    limits: Limits,
    hearing: Hearing,
    epoll: OwnedFd,
    helper: Option<Helper>,
    /// The number of the last order.
    numbers: u64,
    asked: BTreeMap<u64, Asked>,
    running: HashMap<u64, Live>,
    /// Programs whose complaints are looked at again then. A program that ends sooner is read once, at its end: most
    /// are short, and have nothing to complain about.
    quiet: VecDeque<(Instant, u64)>,
    /// Programs that are left to end by themselves until then.
    finished: VecDeque<(Instant, u64)>,
    /// When watchers are asked next, while there are any.
    ask_at: Instant,
}

/// The fork helper, as it is now.
struct Helper {
    socket: OwnedFd,
    record: StartRecord,
    /// What it has not taken yet, and about which order.
    unsent: VecDeque<(u64, Vec<u8>, Vec<OwnedFd>)>,
    is_full: bool,
}

/// An order that was given to the fork helper.
struct Asked {
    order: Order,
    stream: Option<OwnedFd>,
    complaints: OwnedFd,
    /// How many fork helpers ended when they had this, and had begun nothing.
    helpers_lost: u8,
}

struct Live {
    name: Arc<str>,
    watcher: Box<dyn Watcher>,
    pid: i32,
    pidfd: Option<OwnedFd>,
    is_counted: bool,
    is_ending: bool,
    /// It is closed when the program has ended.
    stream: Option<OwnedFd>,
    complaints: Option<Complaints>,
}

const BELL: u64 = 0;
const HELPER: u64 = 1;
const EVENTS_MAX: usize = 64;
/// As much as a pipe holds.
const COMPLAINT_BYTES: usize = 64 << 10;
/// How long complaints may wait to be read at first, and those of a program that floods each time.
const QUIET: Duration = Duration::from_millis(50);
/// How often it is asked whether programs are wanted, or have finished.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// An order at which so many fork helpers ended is not given to another.
const HELPERS_LOST_MAX: u8 = 2;

impl Desk {
    pub(super) fn new(mail: Arc<Mail>, door: OwnedFd, limits: Limits, hearing: Hearing) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, mail.letters.eventfd(), epoll::EventData::new_u64(BELL), flags)?;
        let helper = Some(Helper::meet(&door, &epoll)?);
        Ok(Self {
            mail,
            door,
            limits,
            hearing,
            epoll,
            helper,
            numbers: HELPER,
            asked: BTreeMap::new(),
            running: HashMap::new(),
            quiet: VecDeque::new(),
            finished: VecDeque::new(),
            ask_at: Instant::now(),
        })
    }

    pub(super) fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut buffer = post::buffer();
        loop {
            let timeout = self.due_at().map(|at| {
                let left = at.saturating_duration_since(Instant::now());
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
            });
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            if let Err(error) = epoll::wait(&self.epoll, spare, timeout.as_ref())
                && error != Errno::INTR
            {
                (self.hearing.say)(format_args!("the keeper of programs ended: {error}"));
                break;
            }
            for event in &events {
                match event.data.u64() {
                    BELL => {}
                    HELPER => self.listen(&mut buffer),
                    number => self.hear(number, &mut buffer[..COMPLAINT_BYTES]),
                }
            }
            let now = Instant::now();
            let mail = Arc::clone(&self.mail);
            for letter in mail.letters.drain() {
                match letter {
                    Letter::Begin(order) => self.begin(*order),
                    Letter::End(number, stream) => {
                        if let Some(live) = self.running.get_mut(&number) {
                            live.stream = stream;
                        }
                        self.end(number);
                    }
                    Letter::Close => return self.close(),
                }
            }
            self.finished.extend(mail.finished.drain().map(|number| (now + self.limits.linger, number)));
            self.advance(now);
        }
        self.close();
    }

    fn due_at(&self) -> Option<Instant> {
        let first = |line: &VecDeque<(Instant, u64)>| line.front().map(|&(at, _)| at);
        let ask = (!self.running.is_empty()).then_some(self.ask_at);
        first(&self.quiet).into_iter().chain(first(&self.finished)).chain(ask).min()
    }

    fn close(&mut self) {
        // The fork helper ends the programs when it sees this.
        self.helper = None;
        self.refuse_all(|_, _| true, Refusal::Busy);
    }

    fn begin(&mut self, order: Order) {
        self.numbers += 1;
        if self.asked.len() >= self.limits.asked_max || self.helper.is_none() {
            let mut order = order;
            return order.watcher.begun(Err(Refusal::Busy));
        }
        self.give(self.numbers, order, 0);
    }

    /// Gives an order to the fork helper.
    fn give(&mut self, number: u64, mut order: Order, helpers_lost: u8) {
        let prepared = prepare(number, &order);
        let Ok(Prepared { bytes, theirs, stream, complaints }) = prepared else {
            // No descriptor left: a matter of time.
            return order.watcher.begun(Err(Refusal::Busy));
        };
        self.asked.insert(number, Asked { order, stream, complaints, helpers_lost });
        self.send(number, bytes, theirs);
    }

    fn send(&mut self, number: u64, bytes: Vec<u8>, descriptors: Vec<OwnedFd>) {
        if let Some(helper) = &mut self.helper {
            helper.unsent.push_back((number, bytes, descriptors));
        }
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(number) = self.helper.as_mut().and_then(|helper| helper.flush(&self.epoll)) {
            self.refused(number, Refusal::Broken, "its variables are too long");
        }
    }

    fn end(&mut self, number: u64) {
        if let Some(live) = self.running.get_mut(&number)
            && !live.is_ending
        {
            live.is_ending = true;
            self.send(number, Ask::End { number }.to_bytes(), Vec::new());
        }
    }

    /// Takes one message of the fork helper.
    fn listen(&mut self, buffer: &mut [u8]) {
        self.flush();
        let Some(helper) = &self.helper else { return };
        let (bytes, descriptors) = match post::receive(&helper.socket, buffer) {
            Ok(Received::Message { bytes, descriptors }) => (bytes, descriptors),
            // Those programs cannot be handed to another fork helper.
            Ok(Received::Incomplete { bytes }) => (bytes, Vec::new()),
            Ok(Received::Nothing) => return,
            Ok(Received::Gone) | Err(_) => return self.meet_next(),
        };
        let (mut rest, mut descriptors) = (bytes, descriptors.into_iter());
        while let Some(tell) = Tell::take(&mut rest) {
            match tell {
                Tell::Begun { number, pid, name_bytes } => {
                    let pidfd = if pid == 0 { None } else { descriptors.next() };
                    self.begun(number, pid, pidfd, name_bytes as usize);
                }
                Tell::Refused { number, why, reason } => self.refused(number, why, &reason),
                Tell::Ended { number, how } => self.ended(number, how),
            }
        }
    }

    fn begun(&mut self, number: u64, pid: i32, pidfd: Option<OwnedFd>, name_bytes: usize) {
        let Some(Asked { order, stream, complaints, .. }) = self.asked.remove(&number) else { return };
        let Order { what, name, mut watcher, .. } = order;
        watcher.begun(Ok(Started { stream, name_bytes, running: Running::new(number, &self.mail) }));
        let is_counted = matches!(what, What::Script { .. });
        let complaints = Some(Complaints::new(complaints));
        let (is_ending, stream) = (false, None);
        self.running
            .insert(number, Live { name, watcher, pid, pidfd, is_counted, is_ending, stream, complaints });
        self.quiet.push_back((Instant::now() + QUIET, number));
    }

    fn refused(&mut self, number: u64, why: Refusal, reason: &str) {
        let Some(mut asked) = self.asked.remove(&number) else { return };
        if !reason.is_empty() {
            (self.hearing.say)(format_args!("{}: {reason}", asked.order.name));
        }
        asked.order.watcher.begun(Err(why));
    }

    fn refuse_all(&mut self, which: impl Fn(u64, &Asked) -> bool, why: Refusal) {
        let (refused, kept) =
            std::mem::take(&mut self.asked).into_iter().partition(|(number, asked)| which(*number, asked));
        self.asked = kept;
        let refused: BTreeMap<u64, Asked> = refused;
        refused.into_values().for_each(|mut asked| asked.order.watcher.begun(Err(why)));
    }

    fn ended(&mut self, number: u64, how: Ended) {
        let Some(mut live) = self.running.remove(&number) else { return };
        if let Some(complaints) = &mut live.complaints {
            complaints.ignore(&self.epoll);
            let say = |line: &[u8]| (self.hearing.complaint)(&live.name, line);
            let mut buffer = vec![0; COMPLAINT_BYTES];
            if complaints.hear(&mut buffer, say) != Heard::End {
                // Whoever holds it still has made itself independent, and speaks for no request.
                complaints.end(say);
            }
        }
        live.watcher.ended(how);
    }

    /// Reads a program's complaints.
    fn hear(&mut self, number: u64, buffer: &mut [u8]) {
        let Some(live) = self.running.get_mut(&number) else { return };
        let Some(complaints) = &mut live.complaints else { return };
        match complaints.hear(buffer, |line| (self.hearing.complaint)(&live.name, line)) {
            Heard::All => {}
            Heard::Much => {
                // A program that writes faster than it is read waits; this thread has others to look after.
                complaints.ignore(&self.epoll);
                self.quiet.push_back((Instant::now() + QUIET, number));
            }
            Heard::End => {
                complaints.ignore(&self.epoll);
                live.complaints = None;
            }
        }
    }

    fn advance(&mut self, now: Instant) {
        while let Some(number) = pop_due(&mut self.quiet, now) {
            let live = self.running.get_mut(&number);
            if let Some(complaints) = live.and_then(|live| live.complaints.as_mut()) {
                complaints.watch(&self.epoll, number);
            }
        }
        while let Some(number) = pop_due(&mut self.finished, now) {
            if let Some(live) = self.running.get(&number) {
                let linger = self.limits.linger;
                (self.hearing.say)(format_args!(
                    "{}: it ran {linger:?} longer than its answer: ended",
                    live.name
                ));
                self.end(number);
            }
        }
        if self.ask_at <= now {
            self.ask_at = now + ASK_EVERY;
            let mut unwanted = Vec::new();
            for (&number, live) in &mut self.running {
                if !live.watcher.is_wanted(now) {
                    unwanted.push(number);
                }
            }
            unwanted.into_iter().for_each(|number| self.end(number));
        }
    }

    /// The fork helper is gone: presents itself to the next one.
    fn meet_next(&mut self) {
        let last_started = self.helper.take().map(|helper| helper.record.read());
        match Helper::meet(&self.door, &self.epoll) {
            Ok(helper) => self.helper = Some(helper),
            Err(error) => {
                (self.hearing.say)(format_args!(
                    "no program can be begun any more: the fork helper is gone ({error})"
                ));
                let lost: Vec<u64> = self.running.keys().copied().collect();
                lost.into_iter().for_each(|number| self.ended(number, Ended::Unknown));
                return self.refuse_all(|_, _| true, Refusal::Busy);
            }
        }
        // Of each folder and command, at most one request may or may not have been started. No request is made twice.
        let may_have_started = |number: u64, asked: &Asked| {
            last_started.as_ref().is_none_or(|last| last.may_include(&asked.order.what, number))
        };
        self.refuse_all(may_have_started, Refusal::Broken);
        let (mut lost, mut ending) = (Vec::new(), Vec::new());
        let mut adopted = Vec::new();
        for (&number, live) in &self.running {
            match live.pidfd.as_ref().map(OwnedFd::try_clone) {
                Some(Ok(pidfd)) => {
                    let ask = Ask::Adopt { number, pid: live.pid, is_counted: live.is_counted };
                    adopted.push((number, ask.to_bytes(), vec![pidfd]));
                }
                _ => lost.push(number),
            }
            if live.is_ending {
                ending.push(number);
            }
        }
        adopted.into_iter().for_each(|(number, bytes, pidfd)| self.send(number, bytes, pidfd));
        ending.into_iter().for_each(|number| self.send(number, Ask::End { number }.to_bytes(), Vec::new()));
        lost.into_iter().for_each(|number| self.ended(number, Ended::Unknown));
        for (number, asked) in std::mem::take(&mut self.asked) {
            let Asked { mut order, helpers_lost, .. } = asked;
            let helpers_lost =
                helpers_lost + u8::from(last_started.as_ref().is_some_and(LastStarted::is_none));
            match helpers_lost < HELPERS_LOST_MAX {
                true => self.give(number, order, helpers_lost),
                false => order.watcher.begun(Err(Refusal::Broken)),
            }
        }
    }
}

fn pop_due(line: &mut VecDeque<(Instant, u64)>, now: Instant) -> Option<u64> {
    line.front().filter(|(at, _)| *at <= now)?;
    line.pop_front().map(|(_, number)| number)
}

/// An order in the fork helper's words.
struct Prepared {
    bytes: Vec<u8>,
    theirs: Vec<OwnedFd>,
    stream: Option<OwnedFd>,
    complaints: OwnedFd,
}

fn prepare(number: u64, order: &Order) -> io::Result<Prepared> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    let mut begin = Begin { number, what: order.what.clone(), ..Begin::default() };
    begin.pairs = order.variables.as_pairs().to_vec();
    let mut stream = None;
    let first = match &order.stdio {
        Stdio::Stream => {
            let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
            let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
            // The program's end blocks, as programs expect.
            rustix::io::ioctl_fionbio(&ours, true)?;
            begin.stdio = [0, 0, 1];
            stream = Some(ours);
            theirs
        }
        Stdio::Direct { client, head } => {
            begin.stdio = [NULL, 0, 1];
            begin.head = head.clone();
            client.try_clone()?
        }
        Stdio::Listener(listener) => {
            begin.stdio = [0, 1, 1];
            listener.try_clone()?
        }
    };
    Ok(Prepared { bytes: Ask::Begin(begin).to_bytes(), theirs: vec![first, write], stream, complaints: read })
}

impl Helper {
    fn meet(door: &OwnedFd, epoll: &OwnedFd) -> io::Result<Self> {
        let (socket, theirs) = post::pair()?;
        let record = StartRecord::new()?;
        epoll::add(epoll, &socket, epoll::EventData::new_u64(HELPER), epoll::EventFlags::IN)?;
        post::send(door, b"server", &[theirs.as_fd(), record.as_fd()])?;
        Ok(Self { socket, record, unsent: VecDeque::new(), is_full: false })
    }

    /// Sends what there is, as far as it is taken. Tells of an order that cannot be sent.
    fn flush(&mut self, epoll: &OwnedFd) -> Option<u64> {
        let was_full = std::mem::take(&mut self.is_full);
        let mut too_long = None;
        while let Some((number, bytes, descriptors)) = self.unsent.front() {
            let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            match post::send(&self.socket, bytes, &borrowed) {
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                    self.is_full = true;
                    break;
                }
                Err(Errno::MSGSIZE) => {
                    too_long = Some(*number);
                    self.unsent.pop_front();
                    break;
                }
                // Sent, or for nobody: that it is gone is an event of its own.
                _ => drop(self.unsent.pop_front()),
            }
        }
        if self.is_full != was_full {
            let out = if self.is_full { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(HELPER);
            // It can only fail for a socket that was never added.
            let _ = epoll::modify(epoll, &self.socket, data, epoll::EventFlags::IN | out);
        }
        too_long
    }
}
