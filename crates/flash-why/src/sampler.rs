//! The third level: samples of `/proc`, which need no right but the same user's. Sleeps shorter than the time between two
//! samples are missed, and lengths are multiples of it.
//!
//! A thread whose count of voluntary switches has not changed between two samples is in the same sleep.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use flash_sleep::{Call, Cause, Events, Stack};

use crate::block::{Block, ThreadTotals};
use crate::error::Error;
use crate::proc;

#[derive(Default)]
pub(crate) struct Instrument {
    pids: BTreeSet<u32>,
    threads: BTreeMap<u32, Sampled>,
    begun: Option<Instant>,
}

#[derive(Default)]
struct Sampled {
    totals: ThreadTotals,
    asleep: Option<Asleep>,
}

struct Asleep {
    switches: u64,
    since: Instant,
    last: Instant,
    block: Option<Block>,
}

/// What a thread is doing now.
struct Doing {
    call: Option<(i64, [u64; 6])>,
    frames: Vec<Arc<str>>,
}

impl Instrument {
    pub(crate) fn new() -> Instrument {
        Instrument { begun: Some(Instant::now()), ..Instrument::default() }
    }

    /// Watches a process, if its threads may be looked at.
    pub(crate) fn watch(&mut self, pid: u32) -> Result<(), Error> {
        if let Err(error) = fs::read_to_string(format!("/proc/{pid}/syscall")) {
            if !proc::is_there(pid) {
                return Err(Error::run(format!("process {pid} has ended")));
            }
            let owner = proc::owner(pid).map_or_else(String::new, |user| format!(" of user {user}"));
            return Err(Error::run(format!(
                "process {pid}{owner} may not be looked at: {error}: sudo, or the capability CAP_SYS_PTRACE, would help"
            )));
        }
        self.pids.insert(pid);
        Ok(())
    }

    pub(crate) fn watched(&self) -> Vec<u32> {
        self.pids.iter().copied().collect()
    }

    /// Takes a sample of every thread.
    pub(crate) fn poll(&mut self, found: &mut dyn FnMut(Block)) {
        let (now, begun) = (Instant::now(), self.begun.expect("it has begun"));
        let children: Vec<u32> = self.pids.iter().flat_map(|&pid| proc::children(pid)).collect();
        self.pids.extend(children);
        let mut seen = BTreeSet::new();
        for &pid in &self.pids {
            for thread in proc::threads(pid) {
                seen.insert(thread);
                let sampled = self.threads.entry(thread).or_default();
                sampled.totals.pid = pid;
                sampled.totals.thread = thread;
                sampled.sample(now, begun, found);
            }
        }
        for (thread, sampled) in &mut self.threads {
            if !seen.contains(thread) {
                sampled.wake(found);
            }
        }
        self.pids.retain(|&pid| proc::is_there(pid));
    }

    pub(crate) fn unfinished(&mut self, found: &mut dyn FnMut(Block)) {
        for sampled in self.threads.values_mut() {
            sampled.wake(&mut |mut block| {
                block.unfinished = true;
                found(block);
            });
        }
    }

    /// The thread's sleep now, if it sleeps outside a wait for events.
    pub(crate) fn asleep_now(pid: u32, thread: u32) -> Option<Block> {
        let mut sampled = Sampled::default();
        (sampled.totals.pid, sampled.totals.thread) = (pid, thread);
        let now = Instant::now();
        sampled.sample(now, now, &mut |_| ());
        sampled.asleep?.block
    }

    pub(crate) fn threads(&self) -> Vec<ThreadTotals> {
        self.threads.values().map(|sampled| sampled.totals.clone()).collect()
    }
}

impl Sampled {
    fn sample(&mut self, now: Instant, begun: Instant, found: &mut dyn FnMut(Block)) {
        let place = format!("/proc/{}/task/{}", self.totals.pid, self.totals.thread);
        let Ok(status) = fs::read_to_string(format!("{place}/status")) else { return self.wake(found) };
        let field = |name| status.lines().find_map(|line: &str| line.strip_prefix(name)).map(str::trim);
        self.totals.name = field("Name:").unwrap_or_default().to_owned();
        let sleeps = field("State:").is_some_and(|state| state.starts_with(['S', 'D']));
        let switches = field("voluntary_ctxt_switches:").and_then(|count| count.parse().ok()).unwrap_or(0);
        if !sleeps {
            return self.wake(found);
        }
        if let Some(asleep) = &mut self.asleep
            && asleep.switches == switches
        {
            asleep.last = now;
            return;
        }
        self.wake(found);
        let doing = Doing::read(&place);
        let is_wait = doing.is_wait();
        self.totals.is_loop |= is_wait;
        let block =
            (!is_wait).then(|| doing.block(&self.totals, &place, now.duration_since(begun).as_micros()));
        self.asleep = Some(Asleep { switches, since: now, last: now, block });
    }

    fn wake(&mut self, found: &mut dyn FnMut(Block)) {
        let Some(asleep) = self.asleep.take() else { return };
        // Somewhere between this sample and the ones beside it.
        let us = (asleep.last - asleep.since).as_micros() as u64 + SAMPLE_US / 2;
        match asleep.block {
            None => {
                self.totals.waits += 1;
                self.totals.wait_us += us;
            }
            Some(mut block) => {
                self.totals.blocks += 1;
                self.totals.block_us += us;
                block.us = us;
                found(block);
            }
        }
    }
}

/// The time between two samples.
const SAMPLE_US: u64 = 10_000;

impl Doing {
    fn read(place: &str) -> Doing {
        let syscall = fs::read_to_string(format!("{place}/syscall")).unwrap_or_default();
        let mut words = syscall.split_whitespace();
        let number = words.next().and_then(|word| word.parse::<i64>().ok()).filter(|&number| number >= 0);
        let mut args = [0; 6];
        for (arg, word) in args.iter_mut().zip(words) {
            *arg = u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or(0);
        }
        // Whoever has no right to stacks still sees the innermost function.
        let stack = fs::read_to_string(format!("{place}/stack")).unwrap_or_default();
        let mut frames: Vec<Arc<str>> = stack.lines().filter_map(function).map(Arc::from).collect();
        if frames.is_empty() {
            let innermost = fs::read_to_string(format!("{place}/wchan")).unwrap_or_default();
            frames.extend(Some(innermost.trim()).filter(|name| !matches!(*name, "" | "0")).map(Arc::from));
        }
        Doing { call: number.map(|number| (number, args)), frames }
    }

    fn is_wait(&self) -> bool {
        let is_call =
            self.call.and_then(|(number, _)| Call::of(number)).is_some_and(|call| call.events != Events::No);
        let stack = Stack::new(self.frames.iter().map(|name| &**name));
        match self.frames.is_empty() {
            true => is_call,
            false => is_call && stack.cause(None) == Cause::Events,
        }
    }

    fn block(&self, thread: &ThreadTotals, place: &str, time_us: u128) -> Block {
        let stack = Stack::new(self.frames.iter().map(|name| &**name));
        let call = self.call.and_then(|(number, _)| Call::of(number));
        let (number, args) = self.call.unwrap_or((-1, [0; 6]));
        let text = call.filter(|call| call.path != 0).and_then(|call| {
            let address = args[usize::from(call.path) - 1];
            text_at(place, address)
        });
        let path = match (call, &text) {
            (Some(_), Some(text)) => Some(text.clone()),
            (Some(call), None) if call.descriptor != 0 => {
                let descriptor = args[usize::from(call.descriptor) - 1] as i32;
                let link = fs::read_link(format!("{place}/fd/{descriptor}")).ok();
                link.map(|path| path.to_string_lossy().into_owned())
            }
            _ => None,
        };
        let name = match (call, number) {
            (Some(call), _) => call.name.to_owned(),
            (None, -1) => "page fault".to_owned(),
            (None, number) => format!("call {number}"),
        };
        Block {
            time_us: time_us as u64,
            pid: thread.pid,
            thread: thread.thread,
            name: thread.name.as_str().into(),
            call: name.into(),
            args: call.map(|call| call.words(&args, text.as_deref())).unwrap_or_default(),
            path: path.map(Arc::from),
            cause: stack.cause(None),
            us: 0,
            stack: stack.frames().iter().map(|&name| Arc::from(name)).collect(),
            waker: None,
            ready: None,
            cpu: 0,
            sampled: true,
            unfinished: false,
        }
    }
}

/// `[<0>] ep_poll+0x2f4/0x390`, without what surrounds the name.
fn function(line: &str) -> Option<&str> {
    line.split_once("] ")?.1.split('+').next()
}

/// The text at an address of a thread's memory, up to its end.
fn text_at(place: &str, address: u64) -> Option<String> {
    let memory = fs::File::open(format!("{place}/mem")).ok()?;
    let mut bytes = [0; 256];
    // A text near the end of its page is read up to there.
    let within = 4096 - (address % 4096) as usize;
    let count = memory.read_at(&mut bytes[..within.min(256)], address).ok()?;
    let end = bytes[..count].iter().position(|&byte| byte == 0).unwrap_or(count);
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}
