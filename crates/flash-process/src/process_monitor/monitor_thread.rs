//! The monitor's thread: its programs, its requests that wait for the fork helper, and the connection to it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_core::upstream::OpenError;
use flash_os::poller::{Interest, Poller};
use flash_os::socket;
use rustix::io::Errno;
use rustix::net::SocketType;

use super::request::{
    CommandChannel, Limits, MonitorCommand, ProcessHandle, ProcessObserver, SpawnRequest, Started, Stdio,
};
use super::stderr_pipe::{ReadOutcome, StderrPipe};
use crate::codec::Reader;
use crate::ipc::{self, Message, Received};
use crate::protocol::{Event, ExitStatus, NULL, PIPE, ProgramRef, REQUEST_BYTES_MAX, Request, StartRequest};
use crate::reporter::Reporter;
use crate::start_record::{LastStarted, StartRecord};

pub(super) struct MonitorThread {
    commands: Arc<CommandChannel>,
    /// The rendezvous socket: where this process registers with a fork helper.
    rendezvous: OwnedFd,
    limits: Limits,
    reporter: Arc<Reporter>,
    poller: Poller,
    helper: Option<Helper>,
    /// Without a fork helper: what the last one started last, and when this process registers with the next one.
    lost: Option<(Option<LastStarted>, Instant)>,
    /// The number of the last request.
    numbers: u64,
    pending: BTreeMap<u64, Pending>,
    processes: HashMap<u64, Process>,
    /// When each program's standard error is watched. A program that ends sooner is read once, at its end: most are
    /// short, and write nothing there.
    unread: VecDeque<(Instant, u64)>,
    /// Programs that are left to end by themselves until then.
    finished: VecDeque<(Instant, u64)>,
    /// When observers are called next, while programs run.
    check_at: Instant,
}

/// The fork helper, as it is now.
struct Helper {
    socket: OwnedFd,
    record: StartRecord,
    /// What it has not taken yet, and about which request.
    unsent: VecDeque<(u64, Vec<u8>, Vec<OwnedFd>)>,
    is_full: bool,
}

/// A request that was sent to the fork helper.
struct Pending {
    request: SpawnRequest,
    stream: Option<OwnedFd>,
    /// How many fork helpers ended when they had this request, and had started nothing.
    helpers_lost: u8,
}

struct Process {
    name: Arc<str>,
    observer: Box<dyn ProcessObserver>,
    pidfd: Option<OwnedFd>,
    is_counted: bool,
    is_ending: bool,
    /// It is closed when the program has ended.
    stream: Option<OwnedFd>,
    stderr: Option<StderrPipe>,
}

const COMMANDS: u64 = 0;
const HELPER: u64 = 1;
const EVENTS_MAX: usize = 64;
/// As much as a pipe holds.
const STDERR_BYTES: usize = 64 << 10;
/// How long standard error may wait to be read at first, and again whenever a program floods it.
const STDERR_PAUSE: Duration = Duration::from_millis(50);
/// How often observers are asked whether their programs are wanted.
const CHECK_EVERY: Duration = Duration::from_secs(1);
const REGISTER_AFTER: Duration = Duration::from_millis(100);
/// After so many fork helpers ended at a request, it is not sent to another.
const HELPERS_LOST_MAX: u8 = 2;

impl MonitorThread {
    pub(super) fn new(
        commands: Arc<CommandChannel>,
        rendezvous: OwnedFd,
        limits: Limits,
        reporter: Arc<Reporter>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add_waker(commands.channel.waker(), COMMANDS)?;
        let helper = Some(Helper::connect(&rendezvous, &poller)?);
        Ok(Self {
            commands,
            rendezvous,
            limits,
            reporter,
            poller,
            helper,
            lost: None,
            numbers: HELPER,
            pending: BTreeMap::new(),
            processes: HashMap::new(),
            unread: VecDeque::new(),
            finished: VecDeque::new(),
            check_at: Instant::now(),
        })
    }

    pub(super) fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut buffer = ipc::buffer();
        loop {
            let timeout = self.due_at().map(|at| at.saturating_duration_since(Instant::now()));
            if let Err(error) = self.poller.wait(&mut events, timeout) {
                self.reporter.log(format_args!("the process monitor ended: {error}"));
                break;
            }
            for event in &events {
                match event.token {
                    COMMANDS => {}
                    HELPER => self.receive(&mut buffer),
                    number => self.read_stderr(number, &mut buffer[..STDERR_BYTES]),
                }
            }
            let now = Instant::now();
            let commands = Arc::clone(&self.commands);
            for command in commands.channel.drain() {
                match command {
                    MonitorCommand::Spawn(request) => self.spawn(*request),
                    MonitorCommand::Kill(number, stream) => {
                        if let Some(process) = self.processes.get_mut(&number) {
                            process.stream = stream;
                        }
                        self.kill(number);
                    }
                    MonitorCommand::Close => return self.close(),
                }
            }
            self.finished.extend(commands.finished.drain().map(|number| (now + self.limits.linger, number)));
            self.advance(now);
        }
        self.close();
    }

    fn due_at(&self) -> Option<Instant> {
        let first = |line: &VecDeque<(Instant, u64)>| line.front().map(|&(at, _)| at);
        let check = (!self.processes.is_empty()).then_some(self.check_at);
        let register = self.lost.as_ref().map(|&(_, at)| at);
        first(&self.unread).into_iter().chain(first(&self.finished)).chain(check).chain(register).min()
    }

    fn close(&mut self) {
        // The fork helper ends the programs when it sees this.
        self.helper = None;
        self.reject_all(|_, _| true, OpenError::Busy);
    }

    fn spawn(&mut self, request: SpawnRequest) {
        self.numbers += 1;
        if self.pending.len() >= self.limits.pending_max || self.helper.is_none() {
            let mut request = request;
            return request.observer.started(Err(OpenError::Busy));
        }
        self.submit(self.numbers, request, 0);
    }

    /// Sends a request to the fork helper.
    fn submit(&mut self, number: u64, mut request: SpawnRequest, helpers_lost: u8) {
        let prepared = prepare(number, &request);
        let Ok(Prepared { bytes, theirs, stream }) = prepared else {
            // No descriptor left: a matter of time.
            return request.observer.started(Err(OpenError::Busy));
        };
        self.pending.insert(number, Pending { request, stream, helpers_lost });
        self.send(number, bytes, theirs);
    }

    fn send(&mut self, number: u64, bytes: Vec<u8>, descriptors: Vec<OwnedFd>) {
        if let Some(helper) = &mut self.helper {
            helper.unsent.push_back((number, bytes, descriptors));
        }
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(number) = self.helper.as_mut().and_then(|helper| helper.flush(&self.poller)) {
            self.rejected(number, OpenError::Broken, "its variables are too long");
        }
    }

    fn kill(&mut self, number: u64) {
        if let Some(process) = self.processes.get_mut(&number)
            && !process.is_ending
        {
            process.is_ending = true;
            self.send(number, Request::End { number }.to_bytes(), Vec::new());
        }
    }

    /// Receives one message of the fork helper.
    fn receive(&mut self, buffer: &mut [u8]) {
        self.flush();
        let Some(helper) = &self.helper else { return };
        let (bytes, descriptors) = match ipc::try_receive(&helper.socket, buffer) {
            // Those programs cannot be handed to another fork helper.
            Ok(Received::Message(Message { bytes, is_incomplete: true, .. })) => (bytes, Vec::new()),
            Ok(Received::Message(Message { bytes, descriptors, .. })) => (bytes, descriptors),
            Ok(Received::Nothing) => return,
            Ok(Received::Gone) | Err(_) => return self.lose_helper(),
        };
        let (mut rest, mut descriptors) = (Reader(&bytes), descriptors.into_iter());
        while let Some(tell) = Event::take(&mut rest) {
            match tell {
                Event::Started { number, pid, name_bytes, has_pidfd, queue_us } => {
                    let mut next = |is_sent: bool| if is_sent { descriptors.next() } else { None };
                    let (pidfd, stderr) = (next(has_pidfd), next(pid != 0));
                    let of_script = (name_bytes as usize, Duration::from_micros(queue_us));
                    self.started(number, pidfd, stderr, of_script);
                }
                Event::Rejected { number, why, reason } => self.rejected(number, why, &reason),
                Event::Exited { number, how } => self.exited(number, how),
            }
        }
    }

    fn started(
        &mut self,
        number: u64,
        pidfd: Option<OwnedFd>,
        stderr: Option<OwnedFd>,
        (name_bytes, queued): (usize, Duration),
    ) {
        let Some(Pending { request, stream, .. }) = self.pending.remove(&number) else { return };
        let SpawnRequest { what, name, mut observer, .. } = request;
        observer.started(Ok(Started {
            stream,
            name_bytes,
            queued,
            handle: ProcessHandle::new(number, &self.commands),
        }));
        let is_counted = matches!(what, ProgramRef::Script { .. });
        let is_nonblocking = |stderr: &OwnedFd| rustix::io::ioctl_fionbio(stderr, true).is_ok();
        let stderr = stderr.filter(is_nonblocking).map(StderrPipe::new);
        let (is_ending, stream) = (false, None);
        let process = Process { name, observer, pidfd, is_counted, is_ending, stream, stderr };
        self.processes.insert(number, process);
        self.unread.push_back((Instant::now() + STDERR_PAUSE, number));
    }

    fn rejected(&mut self, number: u64, why: OpenError, reason: &str) {
        let Some(mut pending) = self.pending.remove(&number) else { return };
        if !reason.is_empty() {
            self.reporter.log(format_args!("{}: {reason}", pending.request.name));
        }
        pending.request.observer.started(Err(why));
    }

    fn reject_all(&mut self, which: impl Fn(u64, &Pending) -> bool, why: OpenError) {
        let (refused, kept) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|(number, pending)| which(*number, pending));
        self.pending = kept;
        let refused: BTreeMap<u64, Pending> = refused;
        refused.into_values().for_each(|mut pending| pending.request.observer.started(Err(why)));
    }

    fn exited(&mut self, number: u64, how: ExitStatus) {
        let Some(mut process) = self.processes.remove(&number) else { return };
        if let Some(stderr) = &mut process.stderr {
            stderr.ignore(&self.poller);
            let say = |line: &[u8]| self.reporter.stderr_line(&process.name, line);
            let mut buffer = vec![0; STDERR_BYTES];
            if stderr.read(&mut buffer, say) != ReadOutcome::Eof {
                // A process that still holds it has left the group, and speaks for no request.
                stderr.end(say);
            }
        }
        process.observer.exited(how);
    }

    /// Reads a program's standard error.
    fn read_stderr(&mut self, number: u64, buffer: &mut [u8]) {
        let Some(process) = self.processes.get_mut(&number) else { return };
        let Some(stderr) = &mut process.stderr else { return };
        match stderr.read(buffer, |line| self.reporter.stderr_line(&process.name, line)) {
            ReadOutcome::Drained => {}
            ReadOutcome::More => {
                // A program that writes faster than it is read waits; this thread has others to look after.
                stderr.ignore(&self.poller);
                self.unread.push_back((Instant::now() + STDERR_PAUSE, number));
            }
            ReadOutcome::Eof => {
                stderr.ignore(&self.poller);
                process.stderr = None;
            }
        }
    }

    fn advance(&mut self, now: Instant) {
        while let Some(number) = pop_due(&mut self.unread, now) {
            let process = self.processes.get_mut(&number);
            if let Some(stderr) = process.and_then(|process| process.stderr.as_mut()) {
                stderr.watch(&self.poller, number);
            }
        }
        while let Some(number) = pop_due(&mut self.finished, now) {
            if let Some(process) = self.processes.get(&number) {
                let linger = self.limits.linger;
                self.reporter
                    .log(format_args!("{}: it ran {linger:?} longer than its answer: ended", process.name));
                self.kill(number);
            }
        }
        if self.lost.as_ref().is_some_and(|&(_, at)| at <= now) && self.register() {
            self.reporter.log(format_args!("programs can be started again"));
        }
        if self.check_at <= now {
            self.check_at = now + CHECK_EVERY;
            let mut unwanted = Vec::new();
            for (&number, process) in &mut self.processes {
                if !process.observer.is_wanted(now) {
                    unwanted.push(number);
                }
            }
            unwanted.into_iter().for_each(|number| self.kill(number));
        }
    }

    fn lose_helper(&mut self) {
        let last_started = self.helper.take().map(|helper| {
            self.poller.disarm(&helper.socket);
            helper.record.read()
        });
        self.lost = Some((last_started, Instant::now()));
        if !self.register() && self.lost.is_some() {
            self.reporter
                .log(format_args!("no program can be started until the next fork helper is reached"));
        }
    }

    /// Registers with the next fork helper. Without memory or a descriptor for that, it is tried again after a moment.
    fn register(&mut self) -> bool {
        match Helper::connect(&self.rendezvous, &self.poller) {
            Ok(helper) => {
                self.helper = Some(helper);
                let last_started = self.lost.take().and_then(|(last_started, _)| last_started);
                self.hand_over(last_started);
                return true;
            }
            Err(error) if is_shortage(&error) => {
                if let Some((_, at)) = &mut self.lost {
                    *at = Instant::now() + REGISTER_AFTER;
                }
            }
            Err(error) => {
                self.lost = None;
                self.reporter
                    .log(format_args!("no program can be begun any more: the fork helper is gone ({error})"));
                let lost: Vec<u64> = self.processes.keys().copied().collect();
                lost.into_iter().for_each(|number| self.exited(number, ExitStatus::Unknown));
                self.reject_all(|_, _| true, OpenError::Busy);
            }
        }
        false
    }

    /// Has a new fork helper look after the programs of the last one, and asks it for those that were not started.
    fn hand_over(&mut self, last_started: Option<LastStarted>) {
        // Of each folder and command, at most one request may or may not have been started. No request is made twice.
        let may_have_started = |number: u64, pending: &Pending| {
            last_started.as_ref().is_none_or(|last| last.may_include(&pending.request.what, number))
        };
        self.reject_all(may_have_started, OpenError::Broken);
        let (mut lost, mut ending) = (Vec::new(), Vec::new());
        let mut adopted = Vec::new();
        for (&number, process) in &self.processes {
            match process.pidfd.as_ref().map(OwnedFd::try_clone) {
                Some(Ok(pidfd)) => {
                    let request = Request::Adopt { number, is_counted: process.is_counted };
                    adopted.push((number, request.to_bytes(), vec![pidfd]));
                }
                _ => lost.push(number),
            }
            if process.is_ending {
                ending.push(number);
            }
        }
        adopted.into_iter().for_each(|(number, bytes, pidfd)| self.send(number, bytes, pidfd));
        ending
            .into_iter()
            .for_each(|number| self.send(number, Request::End { number }.to_bytes(), Vec::new()));
        lost.into_iter().for_each(|number| self.exited(number, ExitStatus::Unknown));
        for (number, pending) in std::mem::take(&mut self.pending) {
            let Pending { mut request, helpers_lost, .. } = pending;
            let helpers_lost =
                helpers_lost + u8::from(last_started.as_ref().is_some_and(LastStarted::is_none));
            match helpers_lost < HELPERS_LOST_MAX {
                true => self.submit(number, request, helpers_lost),
                false => request.observer.started(Err(OpenError::Broken)),
            }
        }
    }
}

/// Whether it is a matter of time.
fn is_shortage(error: &io::Error) -> bool {
    use Errno as E;
    let error = Errno::from_io_error(error);
    error.is_some_and(|error| [E::MFILE, E::NFILE, E::NOMEM, E::NOBUFS, E::NOSPC, E::AGAIN].contains(&error))
}

fn pop_due(line: &mut VecDeque<(Instant, u64)>, now: Instant) -> Option<u64> {
    line.front().filter(|(at, _)| *at <= now)?;
    line.pop_front().map(|(_, number)| number)
}

/// A request as the fork helper's protocol has it.
struct Prepared {
    bytes: Vec<u8>,
    theirs: Vec<OwnedFd>,
    stream: Option<OwnedFd>,
}

fn prepare(number: u64, request: &SpawnRequest) -> io::Result<Prepared> {
    let mut begin = StartRequest { number, what: request.what.clone(), ..StartRequest::default() };
    begin.pairs = request.variables.as_pairs().to_vec();
    let mut stream = None;
    let first = match &request.stdio {
        Stdio::Stream => {
            let (ours, theirs) = socket::pair(SocketType::STREAM)?;
            // The program's end blocks, as programs expect.
            rustix::io::ioctl_fionbio(&ours, true)?;
            begin.stdio = [0, 0, PIPE];
            stream = Some(ours);
            theirs
        }
        Stdio::Direct { client, head } => {
            begin.stdio = [NULL, 0, PIPE];
            begin.head = head.clone();
            client.try_clone()?
        }
        Stdio::Listener(listener) => {
            begin.stdio = [0, PIPE, PIPE];
            listener.try_clone()?
        }
    };
    Ok(Prepared { bytes: Request::Start(begin).to_bytes(), theirs: vec![first], stream })
}

/// A request that is longer than any that a program could be started with is not sent.
fn send_request(socket: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    if bytes.len() > REQUEST_BYTES_MAX {
        return Err(Errno::MSGSIZE);
    }
    ipc::try_send(socket, bytes, descriptors)
}

impl Helper {
    fn connect(rendezvous: &OwnedFd, poller: &Poller) -> io::Result<Self> {
        let (socket, theirs) = ipc::pair()?;
        let record = StartRecord::new()?;
        poller.add(&socket, HELPER, Interest::INPUT)?;
        ipc::try_send(rendezvous, b"server", &[theirs.as_fd(), record.as_fd()])?;
        Ok(Self { socket, record, unsent: VecDeque::new(), is_full: false })
    }

    /// Sends messages until the socket is full. Returns the number of a request that is too long to be sent.
    fn flush(&mut self, poller: &Poller) -> Option<u64> {
        let was_full = std::mem::take(&mut self.is_full);
        let mut too_long = None;
        while let Some((number, bytes, descriptors)) = self.unsent.front() {
            let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            match send_request(&self.socket, bytes, &borrowed) {
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                    self.is_full = true;
                    break;
                }
                Err(Errno::MSGSIZE) => {
                    too_long = Some(*number);
                    self.unsent.pop_front();
                    break;
                }
                // Sent, or the fork helper is gone, which is an event of its own.
                _ => drop(self.unsent.pop_front()),
            }
        }
        if self.is_full != was_full {
            // It can only fail for a socket that was never added.
            let _ = poller.modify(&self.socket, HELPER, Interest::new(true, self.is_full));
        }
        too_long
    }
}
