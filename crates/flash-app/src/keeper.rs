//! The keeper: a thread of the server that knows all of its programs.
//!
//! It asks the fork helper to begin them, tells whoever asked, reads what they complain about, and has them ended.
//! Nobody waits for it: orders and their ends are left in a mailbox. Should the fork helper be killed, the keeper meets
//! the next one: programs that run go on, orders that nobody has begun are given again, and those that may have been
//! begun fail.

mod complaints;
mod desk;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flash_cgi::Variables;
use flash_core::program::Refusal;
use flash_os::channel::Channel;
use flash_os::mpsc;

use self::desk::Desk;
use crate::guard::ForkHelper;
use crate::wire::{Ended, What};

/// The handle. When it is dropped, all programs are ended.
#[derive(Debug)]
pub struct Keeper {
    mail: Arc<Mail>,
    thread: Option<JoinHandle<()>>,
}

/// A program that somebody wants.
pub struct Order {
    pub what: What,
    pub variables: Arc<Variables>,
    pub stdio: Stdio,
    /// What it is for, for people who read logs.
    pub name: Arc<str>,
    pub watcher: Box<dyn Watcher>,
}

/// What a program reads and writes.
#[derive(Debug)]
pub enum Stdio {
    /// A stream in both directions, whose other end is [`Started::stream`].
    Stream,
    /// It writes to the client itself, after a head, and has nothing to read.
    Direct { client: OwnedFd, head: Vec<u8> },
    /// It accepts connections at its standard input (FastCGI §2.2); its output is complaints.
    Listener(OwnedFd),
}

/// Who wants to know. Called on the keeper's thread: it may not wait.
pub trait Watcher: Send {
    /// It runs, or will not. Once.
    fn begun(&mut self, begun: Result<Started, Refusal>);

    /// Asked now and then while it runs: if not, it is ended.
    fn is_wanted(&mut self, _now: Instant) -> bool {
        true
    }

    /// It has ended. At most once, after it ran.
    fn ended(&mut self, _how: Ended) {}
}

/// A program that runs.
#[derive(Debug)]
pub struct Started {
    /// Non-blocking.
    pub stream: Option<OwnedFd>,
    /// How much of the path is the script's name.
    pub name_bytes: usize,
    pub running: Running,
}

/// The right to a program. Dropping it ends the program, and all that it has started.
#[derive(Debug)]
pub struct Running {
    number: u64,
    mail: Arc<Mail>,
    is_finished: bool,
}

/// What the keeper says.
pub struct Hearing {
    /// A line of a program's standard error, and what that program is for.
    pub complaint: Complaint,
    /// What the operator should know.
    pub say: Say,
}

pub type Complaint = Box<dyn Fn(&str, &[u8]) + Send>;
pub type Say = Box<dyn Fn(fmt::Arguments<'_>) + Send>;

/// Limits of one server process.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Orders that are given and not yet answered.
    pub asked_max: usize,
    /// How long a program may run on when nobody listens to it any more.
    pub linger: Duration,
}

#[derive(Debug)]
pub(crate) struct Mail {
    letters: Channel<Letter>,
    /// Of these the keeper need not know at once.
    finished: mpsc::Queue<u64>,
}

pub(crate) enum Letter {
    Begin(Box<Order>),
    /// With the stream that is to stay until it has ended.
    End(u64, Option<OwnedFd>),
    Close,
}

impl Keeper {
    /// Begins to keep programs for this process.
    ///
    /// # Errors
    /// When the process cannot have another thread, or a descriptor more.
    pub fn start(helper: &ForkHelper, limits: Limits, hearing: Hearing) -> io::Result<Self> {
        let mail = Arc::new(Mail { letters: Channel::new()?, finished: mpsc::Queue::new() });
        let mut desk = Desk::new(Arc::clone(&mail), helper.door()?, limits, hearing)?;
        let thread = thread::Builder::new().name("programs".into()).spawn(move || desk.run())?;
        Ok(Self { mail, thread: Some(thread) })
    }

    /// Has a program begun. Never waits.
    pub fn begin(&self, order: Order) {
        self.mail.letters.send(Letter::Begin(Box::new(order)));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.mail.letters.send(Letter::Close);
        if let Some(thread) = self.thread.take() {
            // It has said why, if it ended otherwise.
            let _ = thread.join();
        }
    }
}

impl Running {
    fn new(number: u64, mail: &Arc<Mail>) -> Self {
        Self { number, mail: Arc::clone(mail), is_finished: false }
    }

    /// All that there was to say has been said: it is left to end by itself.
    pub fn finish(mut self) {
        self.is_finished = true;
        self.mail.finished.push(self.number);
    }

    /// It is ended, and does not see its stream's end before: it might take it for that of a whole request.
    pub fn end_before(mut self, stream: OwnedFd) {
        self.is_finished = true;
        self.mail.letters.send(Letter::End(self.number, Some(stream)));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_finished {
            self.mail.letters.send(Letter::End(self.number, None));
        }
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").field("what", &self.what).field("name", &self.name).finish_non_exhaustive()
    }
}
