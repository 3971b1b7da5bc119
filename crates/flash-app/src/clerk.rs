//! The clerk: a thread that does for programs what no loop may wait for.
//!
//! It finishes connections that take their time, starts applications and hears how they end, and closes what has been
//! idle for long. Whoever wants something leaves a letter and
//! goes on. It sleeps as long as there is nothing of all that.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flash_core::program::{Begun, Refusal};
use flash_os::channel::Channel;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::address::decided;
use crate::fastcgi::{Dial, Server};
use crate::pool::{Event, Pool, Winding};
use crate::programs::Hears;

/// Where letters to the clerk go.
#[derive(Debug)]
pub(crate) struct Mail {
    letters: Channel<Letter>,
    /// Whether the clerk wakes up by itself now and then.
    is_ticking: AtomicBool,
}

pub(crate) enum Letter {
    /// With a connection that is under way, or for a Unix socket that is full.
    Dial(Dial, Option<OwnedFd>),
    Pool(Arc<Pool>, Event),
    /// What an application says to a request that nobody wants any more.
    Wind(Winding),
    Tick,
    Close,
}

pub(crate) struct Clerk {
    mail: Arc<Mail>,
    epoll: OwnedFd,
    servers: Vec<Arc<Server>>,
    pools: Vec<Arc<Pool>>,
    hears: Hears,
    tokens: u64,
    /// Whose next event is awaited, by the tokens in the epoll set.
    awaited: HashMap<u64, Awaited>,
    /// Those for whom a Unix socket had no room, in the order in which they came.
    waiting: VecDeque<Dial>,
    next_tick_at: Instant,
}

enum Awaited {
    Dial(Dial, OwnedFd),
    Winding(Winding),
}

const BELL: u64 = 0;
const EVENTS_MAX: usize = 64;
/// How often it is looked for what is idle, or late.
const TICK: Duration = Duration::from_secs(1);
/// How often a Unix socket that was full is tried: nothing tells when it has room again.
const FULL_PAUSE: Duration = Duration::from_millis(2);
/// How finely deadlines of connections are kept.
const DIAL_PAUSE: Duration = Duration::from_millis(100);

impl Mail {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { letters: Channel::new()?, is_ticking: AtomicBool::new(false) })
    }

    pub(crate) fn put(&self, letter: Letter) {
        self.letters.send(letter);
    }

    /// Something is kept that is to be looked at now and then.
    pub(crate) fn tick(&self) {
        // Looking first keeps the cache line with all who look.
        if !self.is_ticking.load(Ordering::Relaxed) && !self.is_ticking.swap(true, Ordering::Relaxed) {
            self.put(Letter::Tick);
        }
    }
}

impl Clerk {
    pub(crate) fn new(
        mail: Arc<Mail>,
        (servers, pools): (Vec<Arc<Server>>, Vec<Arc<Pool>>),
        hears: Hears,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, mail.letters.eventfd(), epoll::EventData::new_u64(BELL), flags)?;
        Ok(Self {
            mail,
            epoll,
            servers,
            pools,
            hears,
            tokens: BELL,
            awaited: HashMap::new(),
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
                    self.hears.say(format_args!("the clerk for programs ended: {error}"));
                    break;
                }
            }
            let now = Instant::now();
            for event in &events {
                self.meet(event.data.u64());
            }
            let mail = Arc::clone(&self.mail);
            let mut letters = mail.letters.drain();
            while let Some(letter) = letters.next() {
                match letter {
                    Letter::Dial(dial, Some(stream)) => self.dial(dial, stream),
                    Letter::Dial(dial, None) => self.waiting.push_back(dial),
                    Letter::Pool(pool, event) => pool.hear(event),
                    Letter::Wind(winding) => self.wait_for(Awaited::Winding(winding), epoll::EventFlags::IN),
                    Letter::Tick => self.next_tick_at = now + TICK,
                    Letter::Close => return self.close(letters),
                }
            }
            self.try_full(now);
            self.give_up(now);
            if now >= self.next_tick_at {
                self.tick(now);
            }
        }
        let mail = Arc::clone(&self.mail);
        self.close(mail.letters.drain());
    }

    fn timeout(&self) -> Option<Timespec> {
        let has_dials = self.awaited.values().any(|awaited| matches!(awaited, Awaited::Dial(..)));
        let pause = match () {
            () if !self.waiting.is_empty() => Some(FULL_PAUSE),
            () if has_dials => Some(DIAL_PAUSE),
            () if self.mail.is_ticking.load(Ordering::Relaxed) || !self.awaited.is_empty() => Some(TICK),
            () => None,
        };
        pause.map(|pause| Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() })
    }

    /// Nobody is left who could ask for anything: what was asked for and not done is refused.
    fn close(&mut self, letters: impl Iterator<Item = Letter>) {
        let unread = letters.filter_map(|letter| match letter {
            Letter::Dial(dial, _) => Some(dial),
            _ => None,
        });
        let awaited = self.awaited.drain().filter_map(|(_, awaited)| match awaited {
            Awaited::Dial(dial, _) => Some(dial),
            _ => None,
        });
        let busy = |dial: Dial| dial.end(Begun::Failed(Refusal::Busy));
        unread.chain(awaited).chain(self.waiting.drain(..)).for_each(busy);
        self.pools.iter().for_each(|pool| pool.close());
    }

    fn dial(&mut self, dial: Dial, stream: OwnedFd) {
        self.wait_for(Awaited::Dial(dial, stream), epoll::EventFlags::OUT);
    }

    fn wait_for(&mut self, awaited: Awaited, flags: epoll::EventFlags) {
        self.tokens += 1;
        let stream = match &awaited {
            Awaited::Dial(_, stream) => stream,
            Awaited::Winding(winding) => &winding.stream,
        };
        // Without the kernel's memory for it, time decides.
        let _ = epoll::add(&self.epoll, stream, epoll::EventData::new_u64(self.tokens), flags);
        self.awaited.insert(self.tokens, awaited);
    }

    fn meet(&mut self, token: u64) {
        match self.awaited.remove(&token) {
            None => {}
            Some(Awaited::Dial(dial, stream)) => match decided(&stream) {
                None => drop(self.awaited.insert(token, Awaited::Dial(dial, stream))),
                Some(result) => {
                    // From now on it is somebody else's.
                    let _ = epoll::delete(&self.epoll, &stream);
                    if let Some((dial, stream)) = dial.decided(stream, result) {
                        self.dial(dial, stream);
                    }
                }
            },
            Some(Awaited::Winding(winding)) => {
                if let Some(winding) = winding.read() {
                    self.awaited.insert(token, Awaited::Winding(winding));
                }
            }
        }
    }

    /// Tries those sockets again that were full.
    fn try_full(&mut self, now: Instant) {
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
    fn give_up(&mut self, now: Instant) {
        let is_late = |awaited: &Awaited| match awaited {
            Awaited::Dial(dial, _) => now >= dial.give_up_at,
            Awaited::Winding(winding) => now >= winding.give_up_at,
        };
        let late: Vec<u64> =
            self.awaited.iter().filter(|(_, awaited)| is_late(awaited)).map(|(&token, _)| token).collect();
        for token in late {
            match self.awaited.remove(&token) {
                Some(Awaited::Dial(dial, stream)) => {
                    if let Some((dial, stream)) = dial.decided(stream, Err(Errno::TIMEDOUT)) {
                        self.dial(dial, stream);
                    }
                }
                Some(Awaited::Winding(winding)) => winding.give_up(),
                None => {}
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        self.next_tick_at = now + TICK;
        // Before looking, so that what is kept afterwards rings the bell again.
        self.mail.is_ticking.store(false, Ordering::Relaxed);
        let mut is_needed = false;
        for server in &self.servers {
            is_needed |= server.tidy(now);
        }
        for pool in &self.pools {
            is_needed |= pool.tidy(now);
        }
        if is_needed {
            self.mail.is_ticking.store(true, Ordering::Relaxed);
        }
    }
}
