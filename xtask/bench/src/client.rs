//! The clients of the hot and cold comparison, in one thread on one epoll. Closed-loop clients request the next cold file as
//! soon as they have one. An open-loop client requests the hot file at fixed times, with or without responses. A wait counts
//! from the intended time. So a server that stalls cannot hide its stalls by slowing the clients.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flash_rig::{fetch, interrupt};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// So many that a server which is slow, but not stuck, is never short of connections to be asked on.
const HOT_CONNECTIONS: usize = 256;
const TIMER: u64 = u64::MAX;
const HEAD_BYTES_MAX: usize = 8192;

/// What is asked, how often, for how long.
pub(crate) struct Plan<'a> {
    pub(crate) port: u16,
    pub(crate) hot_path: &'a str,
    pub(crate) hot_per_second: u32,
    pub(crate) cold_paths: &'a [String],
    pub(crate) cold_clients: usize,
    /// Not counted: caches and queues are still filling.
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What came back in the measured time.
pub(crate) struct Outcome {
    /// Waits for the hot file, in microseconds; those still waiting at the end count with their age.
    pub(crate) hot: Histogram<u64>,
    pub(crate) cold_done: u64,
    pub(crate) errors: u64,
    pub(crate) seconds: f64,
    /// Where the next run goes on in the cold files.
    pub(crate) cold_next: usize,
}

/// What a connection waits for.
#[derive(Clone, Copy)]
enum Wait {
    Nothing,
    Hot { intended: Instant },
    Cold,
}

/// How much of an answer has come.
enum Part {
    Head(Vec<u8>),
    Body { left: usize },
}

struct Connection {
    stream: TcpStream,
    wait: Wait,
    part: Part,
}

struct Clients<'a> {
    plan: &'a Plan<'a>,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Hot connections with nothing to wait for.
    free: VecDeque<usize>,
    /// Intended times of hot requests that no connection was free for.
    queue: VecDeque<Instant>,
    outcome: Outcome,
    counted_from: Instant,
}

/// Runs the plan, from `cold_next` in its cold files.
pub(crate) fn run(plan: &Plan, cold_next: usize) -> Result<Outcome> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let start = Instant::now() + Duration::from_millis(10);
    let hot = Histogram::new_with_bounds(1, 600_000_000, 3)?;
    let outcome = Outcome { hot, cold_done: 0, errors: 0, seconds: plan.measured.as_secs_f64(), cold_next };
    let mut clients = Clients {
        plan,
        epoll,
        connections: Vec::new(),
        free: (0..HOT_CONNECTIONS).collect(),
        queue: VecDeque::new(),
        outcome,
        counted_from: start + plan.warm_up,
    };
    for place in 0..HOT_CONNECTIONS + plan.cold_clients {
        let connection = clients.connect(place)?;
        clients.connections.push(connection);
    }
    clients.run(start)?;
    Ok(clients.outcome)
}

impl Clients<'_> {
    fn run(&mut self, start: Instant) -> Result<()> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let period = Duration::from_secs(1) / self.plan.hot_per_second;
        let tick = Timespec { tv_sec: 0, tv_nsec: i64::from(period.subsec_nanos()) };
        // The timer only wakes us; what is due is worked out from the clock, so a late wake-up shifts nothing.
        timerfd_settime(
            &timer,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: tick, it_value: tick },
        )?;
        epoll::add(&self.epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        for place in HOT_CONNECTIONS..self.connections.len() {
            self.ask_cold(place)?;
        }
        let end = self.counted_from + self.plan.measured;
        let mut due = start;
        let mut events: Vec<Event> = Vec::with_capacity(256);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => interrupt::check()?,
                Err(error) => return Err(error.into()),
            }
            let now = Instant::now();
            if now >= end {
                self.count_unanswered(end);
                return Ok(());
            }
            for event in &events {
                match event.data.u64() {
                    TIMER => _ = rustix::io::read(&timer, &mut [0; 8]),
                    place => self.receive(place as usize)?,
                }
            }
            while due <= now {
                self.queue.push_back(due);
                due += period;
            }
            self.ask_hot()?;
        }
    }

    fn connect(&self, place: usize) -> Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", self.plan.port)).context("connecting a client")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll::add(&self.epoll, &stream, EventData::new_u64(place as u64), EventFlags::IN)?;
        Ok(Connection { stream, wait: Wait::Nothing, part: Part::Head(Vec::new()) })
    }

    /// Sends what is due on the connections that are free.
    fn ask_hot(&mut self) -> Result<()> {
        while let (Some(&place), Some(&intended)) = (self.free.front(), self.queue.front()) {
            self.free.pop_front();
            self.queue.pop_front();
            self.ask(place, self.plan.hot_path, Wait::Hot { intended })?;
        }
        Ok(())
    }

    fn ask_cold(&mut self, place: usize) -> Result<()> {
        let path = &self.plan.cold_paths[self.outcome.cold_next % self.plan.cold_paths.len()];
        self.outcome.cold_next += 1;
        self.ask(place, path, Wait::Cold)
    }

    fn ask(&mut self, place: usize, path: &str, wait: Wait) -> Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        self.connections[place].wait = wait;
        self.connections[place].part = Part::Head(Vec::new());
        if send(&self.connections[place].stream, request.as_bytes(), SendFlags::NOSIGNAL).is_err() {
            // The server had closed it while it was idle, as servers may: ask once more on a fresh one.
            self.connections[place] = self.connect(place)?;
            self.connections[place].wait = wait;
            send(&self.connections[place].stream, request.as_bytes(), SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// Reads what has come for a connection, and when that is an answer's end, counts it and goes on.
    fn receive(&mut self, place: usize) -> Result<()> {
        let mut buffer = [0; 65536];
        let connection = &mut self.connections[place];
        let done = match recv(&connection.stream, &mut buffer, RecvFlags::empty()) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Ok((0, _)) | Err(_) => None,
            Ok((n, _)) => connection.part.take(&buffer[..n]),
        };
        match done {
            Some(false) => return Ok(()),
            Some(true) => self.count(place),
            None => {
                let wait = self.connections[place].wait;
                if !matches!(wait, Wait::Nothing) && Instant::now() >= self.counted_from {
                    self.outcome.errors += 1;
                }
                self.connections[place] = self.connect(place)?;
                self.connections[place].wait = wait;
            }
        }
        match std::mem::replace(&mut self.connections[place].wait, Wait::Nothing) {
            Wait::Nothing => Ok(()),
            Wait::Hot { .. } => {
                self.free.push_back(place);
                self.ask_hot()
            }
            Wait::Cold => self.ask_cold(place),
        }
    }

    fn count(&mut self, place: usize) {
        let now = Instant::now();
        match self.connections[place].wait {
            Wait::Hot { intended } => self.count_hot(intended, now),
            Wait::Cold if now >= self.counted_from => self.outcome.cold_done += 1,
            Wait::Cold | Wait::Nothing => {}
        }
    }

    fn count_hot(&mut self, intended: Instant, now: Instant) {
        if intended >= self.counted_from {
            let microseconds = now.saturating_duration_since(intended).as_micros() as u64;
            self.outcome.hot.saturating_record(microseconds.max(1));
        }
    }

    /// Left out, the requests that a stalled server never answered would make it look better.
    fn count_unanswered(&mut self, end: Instant) {
        for place in 0..self.connections.len() {
            if let Wait::Hot { intended } = self.connections[place].wait {
                self.count_hot(intended, end);
            }
        }
        for intended in std::mem::take(&mut self.queue) {
            self.count_hot(intended, end);
        }
    }
}

impl Part {
    /// Takes bytes: true at the answer's end, none for an answer that is not a whole 200.
    fn take(&mut self, bytes: &[u8]) -> Option<bool> {
        let mut body = bytes.len();
        if let Part::Head(head) = self {
            head.extend_from_slice(bytes);
            let Some(end) = fetch::head_end(head) else {
                return (head.len() < HEAD_BYTES_MAX).then_some(false);
            };
            if fetch::status(head) != Some(200) {
                return None;
            }
            let length = fetch::header(&head[..end], "content-length")?.parse().ok()?;
            body = head.len() - end;
            *self = Part::Body { left: length };
        }
        let Part::Body { left } = self else { return None };
        // More than was promised is as wrong as less.
        *left = left.checked_sub(body)?;
        Some(*left == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_followed_at_any_split() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        for split in 1..answer.len() {
            let mut part = Part::Head(Vec::new());
            assert_eq!(part.take(&answer[..split]), Some(false), "{split}");
            assert_eq!(part.take(&answer[split..]), Some(true), "{split}");
        }
    }

    #[test]
    fn wrong_answers_are_errors() {
        let take = |answer: &[u8]| Part::Head(Vec::new()).take(answer);
        assert_eq!(take(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), None);
        assert_eq!(take(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab"), None);
        assert_eq!(take(b"HTTP/1.1 200 OK\r\n\r\n"), None);
    }
}
