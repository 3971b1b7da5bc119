//! The background thread: what upstreams need and no event loop may wait for.
//!
//! It waits for I/O that takes time, runs what may take a lock, and closes what has been idle for long. Others queue a
//! command and go on. It sleeps while there is nothing to do. What the I/O is for, its owners know.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use flash_os::channel::Channel;
use flash_os::poller::{Interest, Poller};
use flash_process::Reporter;

/// The queue of commands to the background thread.
#[derive(Debug)]
pub(crate) struct CommandChannel {
    channel: Channel<Command>,
    /// Whether the background thread wakes up periodically.
    is_ticking: AtomicBool,
}

pub(crate) enum Command {
    /// Waits for I/O that is under way.
    Wait(Box<dyn PendingIo>),
    /// Tries again to connect to a socket that was full.
    Retry(Box<dyn FullSocket>),
    /// What may take a lock or start a process.
    Run(Box<dyn FnOnce() + Send>),
    /// From now on these are looked at, too. Those that were dropped are forgotten.
    Maintain(Vec<Weak<dyn Maintained>>),
    Tick,
    Close,
}

/// I/O that takes time. The thread waits for its stream's events.
pub(crate) trait PendingIo: Send {
    fn stream(&self) -> &OwnedFd;
    fn interest(&self) -> Interest;
    fn give_up_at(&self) -> Instant;

    /// How late [`PendingIo::give_up`] may come.
    fn deadline_slack(&self) -> Duration {
        TICK
    }

    /// Goes on after an event. Returns whether that was all.
    fn advance(&mut self) -> bool;

    /// It has advanced to its end, and the thread has forgotten its stream.
    fn finish(self: Box<Self>);

    /// It has taken too long.
    fn give_up(self: Box<Self>);

    /// The thread ends.
    fn close(self: Box<Self>);
}

/// A connection attempt that is tried again, because the listen queue of a Unix socket is full, or because the connector was killed or
/// has not looked the name up yet. No event tells when that has changed.
pub(crate) trait FullSocket: Send {
    /// Of the server.
    fn name(&self) -> &str;
    fn give_up_at(&self) -> Instant;

    /// Tries again. Returns itself if it has to wait on.
    fn retry(self: Box<Self>, now: Instant) -> Option<Box<dyn FullSocket>>;

    /// The thread ends.
    fn close(self: Box<Self>);
}

/// What the thread looks at periodically.
pub(crate) trait Maintained: Send + Sync {
    /// Closes what has been idle for long. Returns whether anything is left.
    fn expire_idle(self: Arc<Self>, now: Instant) -> bool;

    /// The thread ends.
    fn close(&self);
}

pub(crate) struct BackgroundThread {
    commands: Arc<CommandChannel>,
    poller: Poller,
    maintained: Vec<Weak<dyn Maintained>>,
    reporter: Arc<Reporter>,
    tokens: u64,
    /// I/O whose next event is pending, by its token in the poller.
    pending: HashMap<u64, Box<dyn PendingIo>>,
    /// Connection attempts to Unix sockets with a full listen queue, oldest first.
    waiting: VecDeque<Box<dyn FullSocket>>,
    next_tick_at: Instant,
}

const COMMANDS: u64 = 0;
const EVENTS_MAX: usize = 64;
/// How often idle and late connections are looked for.
const TICK: Duration = Duration::from_secs(1);
/// How often a full Unix socket is tried: no event tells when its listen queue has room.
const FULL_PAUSE: Duration = Duration::from_millis(2);

impl CommandChannel {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { channel: Channel::new()?, is_ticking: AtomicBool::new(false) })
    }

    pub(crate) fn send(&self, command: Command) {
        self.channel.send(command);
    }

    /// What the thread would wait for.
    #[cfg(test)]
    pub(crate) fn pending(&self) -> Vec<Box<dyn PendingIo>> {
        let pending = |command| if let Command::Wait(pending) = command { Some(pending) } else { None };
        self.channel.drain().filter_map(pending).collect()
    }

    #[cfg(test)]
    pub(crate) fn is_ticking(&self) -> bool {
        self.is_ticking.load(Ordering::Relaxed)
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
    pub(crate) fn new(commands: Arc<CommandChannel>, reporter: Arc<Reporter>) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add_waker(commands.channel.waker(), COMMANDS)?;
        Ok(Self {
            commands,
            poller,
            maintained: Vec::new(),
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
            if let Err(error) = self.poller.wait(&mut events, self.timeout()) {
                self.reporter.log(format_args!("the background thread for upstreams ended: {error}"));
                break;
            }
            let now = Instant::now();
            for event in &events {
                self.on_ready(event.token);
            }
            let commands = Arc::clone(&self.commands);
            let mut queued = commands.channel.drain();
            while let Some(command) = queued.next() {
                match command {
                    Command::Wait(pending) => self.wait_for(pending),
                    Command::Retry(full) => self.waiting.push_back(full),
                    Command::Run(work) => work(),
                    Command::Maintain(new) => {
                        self.maintained.retain(|maintained| maintained.strong_count() > 0);
                        self.maintained.extend(new);
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

    fn timeout(&self) -> Option<Duration> {
        let slack = self.pending.values().map(|pending| pending.deadline_slack()).min();
        let full = (!self.waiting.is_empty()).then_some(FULL_PAUSE);
        let tick = self.commands.is_ticking.load(Ordering::Relaxed).then_some(TICK);
        slack.into_iter().chain(full).chain(tick).min()
    }

    /// No upstream can be opened any more: what is not done is rejected.
    fn close(&mut self, queued: impl Iterator<Item = Command>) {
        for command in queued {
            match command {
                Command::Wait(pending) => pending.close(),
                Command::Retry(full) => full.close(),
                Command::Run(_) | Command::Maintain(_) | Command::Tick | Command::Close => {}
            }
        }
        self.pending.drain().for_each(|(_, pending)| pending.close());
        self.waiting.drain(..).for_each(|full| full.close());
        self.maintained.iter().filter_map(Weak::upgrade).for_each(|maintained| maintained.close());
    }

    fn wait_for(&mut self, pending: Box<dyn PendingIo>) {
        self.tokens += 1;
        // Without the kernel's memory for it, time decides.
        let _ = self.poller.add(pending.stream(), self.tokens, pending.interest());
        self.pending.insert(self.tokens, pending);
    }

    fn on_ready(&mut self, token: u64) {
        if self.pending.get_mut(&token).is_some_and(|pending| pending.advance())
            && let Some(pending) = self.pending.remove(&token)
        {
            // From now on it belongs to others.
            let _ = self.poller.delete(pending.stream());
            pending.finish();
        }
    }

    /// Tries those sockets again that were full.
    fn retry_full(&mut self, now: Instant) {
        for full in std::mem::take(&mut self.waiting) {
            // Who came first is first.
            let is_full = self.waiting.iter().any(|other| other.name() == full.name());
            let left = if is_full && now < full.give_up_at() { Some(full) } else { full.retry(now) };
            self.waiting.extend(left);
        }
    }

    /// Ends what has taken too long.
    fn expire(&mut self, now: Instant) {
        let late = self.pending.extract_if(|_, pending| now >= pending.give_up_at());
        for (_, pending) in late {
            // It may be waited for again.
            let _ = self.poller.delete(pending.stream());
            pending.give_up();
        }
    }

    fn tick(&mut self, now: Instant) {
        self.next_tick_at = now + TICK;
        // Before looking, so that a connection that is kept afterwards wakes this thread again.
        self.commands.is_ticking.store(false, Ordering::Relaxed);
        let mut is_needed = false;
        for maintained in self.maintained.iter().filter_map(Weak::upgrade) {
            is_needed |= maintained.expire_idle(now);
        }
        if is_needed {
            self.commands.is_ticking.store(true, Ordering::Relaxed);
        }
    }
}
