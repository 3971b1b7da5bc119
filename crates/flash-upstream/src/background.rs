//! The background thread: what upstreams need and no event loop may wait for.
//!
//! It finishes connections that take time, starts applications and handles their ends, and closes what has been idle
//! for long. Others queue a command and go on. It sleeps while there is nothing to do.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flash_core::upstream::{OpenError, Opened};
use flash_os::channel::Channel;
use flash_process::Reporter;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::address::connect_result;
use crate::app_pool::{AppPool, Draining, Event};
use crate::fastcgi::{Dial, Server};

/// The queue of commands to the background thread.
#[derive(Debug)]
pub(crate) struct CommandChannel {
    channel: Channel<Command>,
    /// Whether the background thread wakes up periodically.
    is_ticking: AtomicBool,
}

pub(crate) enum Command {
    /// With a connection that is under way, or for a Unix socket that is full.
    Dial(Dial, Option<OwnedFd>),
    Pool(Arc<AppPool>, Event),
    /// The rest of an application's answer, which has no reader any more.
    Drain(Draining),
    Tick,
    Close,
}

pub(crate) struct BackgroundThread {
    commands: Arc<CommandChannel>,
    epoll: OwnedFd,
    servers: Vec<Arc<Server>>,
    pools: Vec<Arc<AppPool>>,
    reporter: Arc<Reporter>,
    tokens: u64,
    /// Connections whose next event is pending, by their tokens in the epoll set.
    pending: HashMap<u64, PendingIo>,
    /// Connection attempts to Unix sockets with a full listen queue, oldest first.
    waiting: VecDeque<Dial>,
    next_tick_at: Instant,
}

enum PendingIo {
    Dial(Dial, OwnedFd),
    Draining(Draining),
}

const COMMANDS: u64 = 0;
const EVENTS_MAX: usize = 64;
/// How often idle and late connections are looked for.
const TICK: Duration = Duration::from_secs(1);
/// How often a full Unix socket is tried: no event tells when its listen queue has room.
const FULL_PAUSE: Duration = Duration::from_millis(2);
/// How finely deadlines of connections are kept.
const DIAL_PAUSE: Duration = Duration::from_millis(100);

impl CommandChannel {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { channel: Channel::new()?, is_ticking: AtomicBool::new(false) })
    }

    pub(crate) fn send(&self, command: Command) {
        self.channel.send(command);
    }

    /// Something is kept that has to be looked at periodically.
    pub(crate) fn tick(&self) {
        // Looking first keeps the cache line with all who look.
        if !self.is_ticking.load(Ordering::Relaxed) && !self.is_ticking.swap(true, Ordering::Relaxed) {
            self.send(Command::Tick);
        }
    }
}

impl BackgroundThread {
    pub(crate) fn new(
        commands: Arc<CommandChannel>,
        (servers, pools): (Vec<Arc<Server>>, Vec<Arc<AppPool>>),
        reporter: Arc<Reporter>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, commands.channel.eventfd(), epoll::EventData::new_u64(COMMANDS), flags)?;
        Ok(Self {
            commands,
            epoll,
            servers,
            pools,
            reporter,
            tokens: COMMANDS,
            pending: HashMap::new(),
            waiting: VecDeque::new(),
            next_tick_at: Instant::now(),
        })
    }

    pub(crate) fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            let timeout = self.timeout();
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    self.reporter.log(format_args!("the background thread for upstreams ended: {error}"));
                    break;
                }
            }
            let now = Instant::now();
            for event in &events {
                self.on_ready(event.data.u64());
            }
            let commands = Arc::clone(&self.commands);
            let mut queued = commands.channel.drain();
            while let Some(command) = queued.next() {
                match command {
                    Command::Dial(dial, Some(stream)) => self.dial(dial, stream),
                    Command::Dial(dial, None) => self.waiting.push_back(dial),
                    Command::Pool(pool, event) => pool.handle(event),
                    Command::Drain(draining) => {
                        self.wait_for(PendingIo::Draining(draining), epoll::EventFlags::IN)
                    }
                    Command::Tick => self.next_tick_at = now + TICK,
                    Command::Close => return self.close(queued),
                }
            }
            self.retry_full(now);
            self.expire(now);
            if now >= self.next_tick_at {
                self.tick(now);
            }
        }
        let commands = Arc::clone(&self.commands);
        self.close(commands.channel.drain());
    }

    fn timeout(&self) -> Option<Timespec> {
        let has_dials = self.pending.values().any(|pending| matches!(pending, PendingIo::Dial(..)));
        let pause = match () {
            () if !self.waiting.is_empty() => Some(FULL_PAUSE),
            () if has_dials => Some(DIAL_PAUSE),
            () if self.commands.is_ticking.load(Ordering::Relaxed) || !self.pending.is_empty() => Some(TICK),
            () => None,
        };
        pause.map(|pause| Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() })
    }

    /// No upstream can be opened any more: what is not done is rejected.
    fn close(&mut self, queued: impl Iterator<Item = Command>) {
        let unread = queued.filter_map(|command| match command {
            Command::Dial(dial, _) => Some(dial),
            _ => None,
        });
        let pending = self.pending.drain().filter_map(|(_, pending)| match pending {
            PendingIo::Dial(dial, _) => Some(dial),
            _ => None,
        });
        let busy = |dial: Dial| dial.end(Opened::Failed(OpenError::Busy));
        unread.chain(pending).chain(self.waiting.drain(..)).for_each(busy);
        self.pools.iter().for_each(|pool| pool.close());
    }

    fn dial(&mut self, dial: Dial, stream: OwnedFd) {
        self.wait_for(PendingIo::Dial(dial, stream), epoll::EventFlags::OUT);
    }

    fn wait_for(&mut self, pending: PendingIo, flags: epoll::EventFlags) {
        self.tokens += 1;
        let stream = match &pending {
            PendingIo::Dial(_, stream) => stream,
            PendingIo::Draining(draining) => &draining.stream,
        };
        // Without the kernel's memory for it, time decides.
        let _ = epoll::add(&self.epoll, stream, epoll::EventData::new_u64(self.tokens), flags);
        self.pending.insert(self.tokens, pending);
    }

    fn on_ready(&mut self, token: u64) {
        match self.pending.remove(&token) {
            None => {}
            Some(PendingIo::Dial(dial, stream)) => match connect_result(&stream) {
                None => drop(self.pending.insert(token, PendingIo::Dial(dial, stream))),
                Some(result) => {
                    // From now on it belongs to the request.
                    let _ = epoll::delete(&self.epoll, &stream);
                    if let Some((dial, stream)) = dial.connect_result(stream, result) {
                        self.dial(dial, stream);
                    }
                }
            },
            Some(PendingIo::Draining(draining)) => {
                if let Some(draining) = draining.read() {
                    self.pending.insert(token, PendingIo::Draining(draining));
                }
            }
        }
    }

    /// Tries those sockets again that were full.
    fn retry_full(&mut self, now: Instant) {
        let mut still_full: Vec<Arc<Server>> = Vec::new();
        for dial in std::mem::take(&mut self.waiting) {
            // Who came first is first.
            let is_full = still_full.iter().any(|server| Arc::ptr_eq(server, &dial.server));
            let left = if is_full && now < dial.give_up_at { Some(dial) } else { dial.again(now) };
            if let Some(dial) = left {
                still_full.push(Arc::clone(&dial.server));
                self.waiting.push_back(dial);
            }
        }
    }

    /// Ends what has taken too long.
    fn expire(&mut self, now: Instant) {
        let is_late = |pending: &PendingIo| match pending {
            PendingIo::Dial(dial, _) => now >= dial.give_up_at,
            PendingIo::Draining(draining) => now >= draining.give_up_at,
        };
        let late: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| is_late(pending)).map(|(&token, _)| token).collect();
        for token in late {
            match self.pending.remove(&token) {
                Some(PendingIo::Dial(dial, stream)) => {
                    if let Some((dial, stream)) = dial.connect_result(stream, Err(Errno::TIMEDOUT)) {
                        self.dial(dial, stream);
                    }
                }
                Some(PendingIo::Draining(draining)) => draining.give_up(),
                None => {}
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        self.next_tick_at = now + TICK;
        // Before looking, so that a connection that is kept afterwards wakes this thread again.
        self.commands.is_ticking.store(false, Ordering::Relaxed);
        let mut is_needed = false;
        for server in &self.servers {
            is_needed |= server.expire_idle(now);
        }
        for pool in &self.pools {
            is_needed |= pool.expire_idle(now);
        }
        if is_needed {
            self.commands.is_ticking.store(true, Ordering::Relaxed);
        }
    }
}
