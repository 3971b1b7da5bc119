//! What is asked of the process monitor: requests to run programs, with what is told about them, and the queue that they
//! go through.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_cgi::Variables;
use flash_core::upstream::OpenError;
use flash_os::channel::Channel;
use flash_os::mpsc;

use crate::protocol::{ExitStatus, ProgramRef};

/// A request to run a program.
pub struct SpawnRequest {
    pub what: ProgramRef,
    pub variables: Arc<Variables>,
    pub stdio: Stdio,
    /// What the program is for: a name for logs.
    pub name: Arc<str>,
    pub observer: Box<dyn ProcessObserver>,
}

/// What a program reads and writes.
#[derive(Debug)]
pub enum Stdio {
    /// A stream in both directions, whose other end is [`Started::stream`].
    Stream,
    /// It writes to the client itself, after a head, and has nothing to read.
    Direct { client: OwnedFd, head: Vec<u8> },
    /// It accepts connections at its standard input (FastCGI §2.2); its standard output counts as standard error.
    Listener(OwnedFd),
}

/// Called when something becomes known about a program, on the monitor's thread: it may not block.
pub trait ProcessObserver: Send {
    /// The program runs, or will not. Called once.
    fn started(&mut self, begun: Result<Started, OpenError>);

    /// Called now and then while the program runs: if the result is false, it is ended.
    fn is_wanted(&mut self, _now: Instant) -> bool {
        true
    }

    /// It has ended. At most once, after it ran.
    fn exited(&mut self, _how: ExitStatus) {}
}

/// A program that runs.
#[derive(Debug)]
pub struct Started {
    /// Non-blocking.
    pub stream: Option<OwnedFd>,
    /// How much of the path is the script's name.
    pub name_bytes: usize,
    /// How long its request waited for others.
    pub queued: Duration,
    pub handle: ProcessHandle,
}

/// The right to a program. Dropping the handle ends the program, and all that it has started.
#[derive(Debug)]
pub struct ProcessHandle {
    number: u64,
    commands: Arc<CommandChannel>,
    is_finished: bool,
}

/// Limits of one server process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that were sent and not yet answered.
    pub pending_max: usize,
    /// How long a program may run on after its stream was closed.
    pub linger: Duration,
}

#[derive(Debug)]
pub(super) struct CommandChannel {
    pub(super) channel: Channel<MonitorCommand>,
    /// Programs that finished; the monitor need not know at once.
    pub(super) finished: mpsc::Queue<u64>,
}

pub(super) enum MonitorCommand {
    Spawn(Box<SpawnRequest>),
    /// With the stream that is to stay until it has ended.
    Kill(u64, Option<OwnedFd>),
    Close,
}

impl CommandChannel {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { channel: Channel::new()?, finished: mpsc::Queue::new() })
    }
}

impl ProcessHandle {
    pub(super) fn new(number: u64, commands: &Arc<CommandChannel>) -> Self {
        Self { number, commands: Arc::clone(commands), is_finished: false }
    }

    /// The program has answered: it is left to end by itself.
    pub fn finish(mut self) {
        self.is_finished = true;
        self.commands.finished.push(self.number);
    }

    /// Ends the program. It does not see its stream's end before that, which it might take for the end of a whole
    /// request.
    pub fn end_before(mut self, stream: OwnedFd) {
        self.is_finished = true;
        self.commands.channel.send(MonitorCommand::Kill(self.number, Some(stream)));
    }
}

impl Drop for ProcessHandle {
    fn drop(&mut self) {
        if !self.is_finished {
            self.commands.channel.send(MonitorCommand::Kill(self.number, None));
        }
    }
}

impl fmt::Debug for SpawnRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnRequest")
            .field("what", &self.what)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
