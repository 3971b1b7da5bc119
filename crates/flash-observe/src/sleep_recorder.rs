//! The sleep recorder: it records the sleeps of a server's loops with their kernel stacks, and explains them.
//!
//! It takes the right to kernel stacks, which a server with `--user` or in a sandbox does not have. So it is a process there,
//! forked before the server gives up its rights; elsewhere it is a thread. Either way the server asks over a socket, and gets
//! words. Addresses of the kernel never reach a process that is confined.
//!
//! A thread that is recorded takes a microsecond longer for each sleep. So a loop is recorded only after its first block, and
//! until ten minutes after its last one. What counts as a block, and what is logged, is decided elsewhere.

mod client;
mod explanation;
mod message;
mod recorded;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_process::ipc::{self, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use self::client::ConnectRecorder;
pub(crate) use self::client::{RECORD_EVERY, RecorderClient};
use self::explanation::KernelNames;
pub(crate) use self::explanation::{Explanation, Total};
use self::message::{Reply, Request, TOTALS_MAX};
use self::recorded::{IDLE_MAX, Recorded};

/// How often rings are emptied. The ring of a loop has room for a thousand sleeps.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const THREADS_MAX: usize = 256;

/// A recorder with the rights of this process: a thread that ends with its socket.
#[must_use]
pub fn recorder_thread() -> ConnectRecorder {
    Arc::new(|| {
        let (ours, theirs) = ipc::pair()?;
        let process = std::process::id();
        let record = move || record_sleeps(&theirs, process);
        std::thread::Builder::new().name("sleep-recorder".into()).spawn(record)?;
        Ok(ours)
    })
}

/// The life of a recorder: answers about threads of this process until the socket is closed.
///
/// # Errors
/// If the socket fails. What the kernel refuses is an answer.
pub fn record_sleeps(socket: &OwnedFd, process: u32) -> io::Result<()> {
    let mut recorder = Recorder { process, threads: HashMap::new(), names: KernelNames::default() };
    let mut buffer = ipc::buffer();
    loop {
        let look_every = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.as_nanos() as i64 };
        let timeout = recorder.is_recording().then_some(&look_every);
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match ipc::try_receive(socket, &mut buffer)? {
            Received::Nothing => recorder.look(Instant::now()),
            Received::Gone => return Ok(()),
            Received::Message(message) => {
                // The server never sends another one.
                let Some(request) = Request::of_bytes(&message.bytes) else { return Ok(()) };
                let reply = recorder.answer(request, Instant::now());
                ipc::send(socket, &reply.to_bytes(), &[])?;
            }
        }
    }
}

struct Recorder {
    /// Only its threads are recorded.
    process: u32,
    threads: HashMap<u32, Recorded>,
    names: KernelNames,
}

impl Recorder {
    fn answer(&mut self, request: Request, now: Instant) -> Reply {
        self.look(now);
        match request {
            Request::Record { thread } => match self.record(thread, now) {
                Ok(is_new) => Reply::Recorded { is_new },
                Err(error) => Reply::Refused(error.to_string()),
            },
            Request::Explain { thread, since_ns, until_ns } => {
                let longest =
                    self.threads.get(&thread).and_then(|recorded| recorded.longest(since_ns, until_ns));
                Reply::Explained(longest.map(|stack| self.names.explanation(stack)))
            }
            Request::Totals => Reply::Totals(self.totals()),
        }
    }

    /// Whether the thread was not recorded before.
    fn record(&mut self, thread: u32, now: Instant) -> io::Result<bool> {
        if let Some(recorded) = self.threads.get_mut(&thread) {
            return recorded.go_on(now);
        }
        // A server that has been taken over learns nothing about other processes.
        if !Path::new(&format!("/proc/{}/task/{thread}", self.process)).exists() {
            return Err(io::Error::other("it is no thread of the server"));
        }
        if self.threads.len() >= THREADS_MAX {
            return Err(io::Error::other(format!("{THREADS_MAX} threads are recorded already")));
        }
        self.threads.insert(thread, Recorded::new(thread, now)?);
        Ok(true)
    }

    /// Empties the rings, and lets loops go that do not block any more.
    fn look(&mut self, now: Instant) {
        for recorded in self.threads.values_mut() {
            recorded.read(&mut self.names);
        }
        for recorded in self.threads.values_mut() {
            if now.duration_since(recorded.asked_at) > IDLE_MAX {
                recorded.stop();
            }
        }
    }

    fn is_recording(&self) -> bool {
        self.threads.values().any(|recorded| !recorded.is_stopped())
    }

    /// Those of all threads together.
    fn totals(&self) -> Vec<Total> {
        let mut sums: HashMap<Explanation, Total> = HashMap::new();
        for (stack, count) in self.threads.values().flat_map(Recorded::counts) {
            let explanation = self.names.explanation(stack);
            let sum = sums.entry(explanation.clone()).or_insert(Total { explanation, sleeps: 0, ns: 0 });
            sum.sleeps += count.sleeps;
            sum.ns += count.ns;
        }
        let mut totals: Vec<Total> = sums.into_values().collect();
        totals.sort_by(|one, other| {
            other.ns.cmp(&one.ns).then_with(|| one.explanation.cmp(&other.explanation))
        });
        totals.truncate(TOTALS_MAX);
        totals
    }
}

#[cfg(test)]
mod tests;
