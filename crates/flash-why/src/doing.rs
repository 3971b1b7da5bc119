//! What a sleeping thread is doing: its system call, its kernel stack, and what `/proc` says that the call is about.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

#[cfg(target_arch = "x86_64")]
use flash_sleep::is_remote;
use flash_sleep::{Cause, Stack};

use crate::block::{Block, Frames, Poller, ThreadTotals};
use crate::call::{Call, Events};

/// A call with its arguments, and where in the kernel it is.
#[derive(Clone, Debug)]
pub(crate) struct Doing {
    pub(crate) call: Option<(i64, [u64; 6])>,
    pub(crate) place: SleepPoint,
}

/// Where in the kernel a thread sleeps, and what that means. It costs so much that whoever sees the same stack again keeps it.
#[derive(Clone, Debug)]
pub(crate) struct SleepPoint {
    /// Innermost first, without those of the scheduler.
    pub(crate) frames: Frames,
    cause: Cause,
    is_fault: bool,
}

/// What a call is about: the text that it was given, and the path.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    text: Option<String>,
    path: String,
}

impl SleepPoint {
    pub(crate) fn of(frames: &[Arc<str>]) -> SleepPoint {
        let stack = Stack::new(frames.iter().map(|name| &**name));
        let frames = stack.frames().iter().map(|&name| Arc::from(name)).collect();
        SleepPoint { frames, cause: stack.cause(None), is_fault: stack.is_fault() }
    }

    /// Why a thread sleeps there, if its call is about a file of this type of file system.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn cause_on(&self, filesystem: &str) -> Cause {
        match is_remote(filesystem) {
            true => Stack::new(self.frames.iter().map(|name| &**name)).cause(Some(filesystem)),
            false => self.cause,
        }
    }
}

impl Doing {
    /// Reads what a thread does now from its folder in `/proc`.
    pub(crate) fn read(place: &str) -> Doing {
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
        Doing { call: number.map(|number| (number, args)), place: SleepPoint::of(&frames) }
    }

    /// Whether it waits for events.
    pub(crate) fn is_wait(&self) -> bool {
        let is_call = self.known_call().is_some_and(|call| call.events != Events::No);
        is_call && (self.place.frames.is_empty() || self.cause() == Cause::Events)
    }

    /// Whether its call is one that loops wait in: with poll, one that waits for two descriptors or more.
    pub(crate) fn is_loop(&self) -> bool {
        self.call.is_some_and(|(number, arguments)| asks_for_events(number, &arguments))
    }

    /// What it waits in.
    pub(crate) fn poller(&self) -> Option<Poller> {
        self.call.and_then(|(number, arguments)| poller(number, &arguments))
    }

    /// Whether the thread has ended, and sleeps for good.
    pub(crate) fn is_end(&self) -> bool {
        self.place.frames.iter().any(|name| &**name == "do_exit")
    }

    /// Why it sleeps.
    pub(crate) fn cause(&self) -> Cause {
        self.place.cause
    }

    fn known_call(&self) -> Option<&'static Call> {
        self.call.and_then(|(number, _)| Call::of(number))
    }

    /// What its call is about, as long as the thread is still in it.
    pub(crate) fn subject(&self, place: &str) -> Option<Subject> {
        let (call, (_, args)) = (self.known_call()?, self.call?);
        let argument = |number: u8| args[usize::from(number) - 1];
        if call.path != 0 {
            let path = text_at(place, argument(call.path))?;
            return Some(Subject { text: Some(path.clone()), path });
        }
        if call.descriptor == 0 {
            return None;
        }
        let link = fs::read_link(format!("{place}/fd/{}", argument(call.descriptor) as i32)).ok()?;
        Some(Subject { text: None, path: link.to_string_lossy().into_owned() })
    }

    /// A block without its times.
    pub(crate) fn block(&self, thread: &ThreadTotals, subject: Option<&Subject>) -> Block {
        let call = self.known_call();
        let name = match (call, self.call) {
            (Some(call), _) => call.name.to_owned(),
            (None, Some((number, _))) => format!("call {number}"),
            (None, None) if self.place.is_fault || self.place.frames.is_empty() => "page fault".to_owned(),
            (None, None) => "none".to_owned(),
        };
        let text = subject.and_then(|subject| subject.text.as_deref());
        let args = call.zip(self.call).map(|(call, (_, args))| call.words(&args, text));
        Block {
            time_us: 0,
            pid: thread.pid,
            thread: thread.thread,
            name: thread.name.as_str().into(),
            call: name.into(),
            args: args.unwrap_or_default(),
            path: subject.map(|subject| subject.path.as_str().into()),
            cause: self.cause(),
            us: 0,
            stack: Arc::clone(&self.place.frames),
            waker: None,
            ready: None,
            cpu: 0,
            sampled: false,
            unfinished: false,
        }
    }
}

/// Whether such a call is a loop's.
pub(crate) fn asks_for_events(number: i64, arguments: &[u64; 6]) -> bool {
    match Call::of(number).map_or(Events::No, |call| call.events) {
        Events::No => false,
        Events::Wait | Events::Epoll | Events::Ring => true,
        // A worker that waits for the answer to a question is no loop.
        Events::Poll => arguments[1] >= 2,
    }
}

/// What such a call waits in.
pub(crate) fn poller(number: i64, arguments: &[u64; 6]) -> Option<Poller> {
    match Call::of(number)?.events {
        Events::Epoll => Some(Poller::Epoll(arguments[0] as u32)),
        Events::Ring => Some(Poller::Ring),
        _ => None,
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
