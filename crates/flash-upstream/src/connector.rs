//! The connector: a process that makes connections for a server in its sandbox, which may make none.
//!
//! It connects to the servers of the configuration and to nothing else, whatever it is asked, and looks their names up. It also makes
//! the sockets where processes of applications listen. The server sends a request with a socket for the reply, and waits for that as
//! for any other connection. What it gets is connected, and a confined process cannot connect it elsewhere.

pub(crate) mod protocol;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use flash_process::Reporter;
use flash_process::ipc::{self, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use self::protocol::{Reply, Request};

/// The connector as the server sees it.
pub struct Connector {
    /// Starts the process, and returns the socket to it.
    start: Box<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>,
    control: ArcSwap<OwnedFd>,
    is_gone: AtomicBool,
    restarts: Mutex<Restarts>,
}

/// Starts in place of a process that was killed.
#[derive(Debug, Default)]
struct Restarts {
    last: Option<Instant>,
    has_failed: bool,
}

/// One connection at a time comes to a process of an application, and perhaps one more, whose predecessor the process has not let go of.
pub(crate) const BACKLOG: i32 = 4;

/// How long a process may take to start, or to make a socket.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Between two starts in place of others at least.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// No connection fails with this error.
pub(crate) const KILLED: Errno = Errno::PIPE;
/// How much later than it should a reply may come.
pub(crate) const LATENESS_MAX: Duration = Duration::from_secs(1);

impl Connector {
    /// Starts the process, and waits until it takes requests.
    ///
    /// # Errors
    /// Why it does not.
    pub fn start(start: impl Fn() -> io::Result<OwnedFd> + Send + Sync + 'static) -> io::Result<Self> {
        let control = started(start()?)?;
        Ok(Self {
            start: Box::new(start),
            control: ArcSwap::from_pointee(control),
            is_gone: AtomicBool::new(false),
            restarts: Mutex::default(),
        })
    }

    /// Has it connect to a server of the configuration. Returns the socket for its [reply](result). Never blocks.
    ///
    /// # Errors
    /// `AGAIN` if it cannot be asked right now.
    pub(crate) fn connect(&self, target: &str, patience: Duration) -> Result<OwnedFd, Errno> {
        let patience_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        self.ask(&Request::Connect { target, patience_ms }, None)
    }

    /// The same for a [private socket](Self::listen). On the background thread.
    pub(crate) fn connect_to_place(&self, place: &OwnedFd, reporter: &Reporter) -> Result<OwnedFd, Errno> {
        self.restart_if_gone(Instant::now(), reporter);
        self.ask(&Request::ConnectToPlace, Some(place.as_fd()))
    }

    /// A listening socket without a name, and its place. On the background thread.
    pub(crate) fn listen(&self, reporter: &Reporter) -> io::Result<(OwnedFd, OwnedFd)> {
        let ask = || {
            self.restart_if_gone(Instant::now(), reporter);
            self.ask(&Request::Listen, None)
        };
        // It may be noticed only now that it is gone.
        let reply = ask().or_else(|_| ask())?;
        wait_for(&reply, ANSWER_MAX)?;
        match received(ipc::receive(&reply, &mut ipc::buffer())?)? {
            Reply { first: Some(listener), second: Some(place) } => Ok((listener, place)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Has it connect to a server and close the connection again, to see whether anything listens there.
    ///
    /// # Errors
    /// Why the server cannot be reached.
    pub fn reach(&self, target: &str, patience: Duration) -> io::Result<()> {
        let reply = self.connect(target, patience)?;
        wait_for(&reply, patience + LATENESS_MAX)?;
        match result(&reply).unwrap_or(Err(Errno::IO)) {
            // Something listens there, as its queue is full.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Starts another process if this one was killed, and does not wait for it. Returns whether a process can be asked, now or soon. On
    /// the background thread.
    pub(crate) fn restart_if_gone(&self, now: Instant, reporter: &Reporter) -> bool {
        if !self.is_gone() {
            return true;
        }
        let mut restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        if restarts.last.is_none_or(|last| now.saturating_duration_since(last) >= RESTART_PAUSE) {
            restarts.last = Some(now);
            let started = (self.start)();
            restarts.has_failed = started.is_err();
            match started {
                Ok(control) => {
                    reporter.log(format_args!("the connector has ended; another one is started"));
                    self.control.store(control.into());
                    self.is_gone.store(false, Ordering::Relaxed);
                }
                Err(error) => reporter.log(format_args!(
                    "cannot start the connector again: {error}; not tried again for {RESTART_PAUSE:?}: requests get 503"
                )),
            }
        }
        !restarts.has_failed
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    fn ask(&self, request: &Request<'_>, place: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Errno> {
        let (ours, theirs) =
            ipc::pair().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let descriptors: Vec<BorrowedFd<'_>> = [theirs.as_fd()].into_iter().chain(place).collect();
        let control = self.control.load_full();
        match ipc::try_send(&*control, &request.to_bytes(), &descriptors) {
            Ok(()) => Ok(ours),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
                // Unless another one has taken its place by now.
                if Arc::ptr_eq(&control, &self.control.load()) {
                    self.is_gone.store(true, Ordering::Relaxed);
                }
                Err(Errno::AGAIN)
            }
            Err(error) => Err(error),
        }
    }
}

/// Waits until a process takes requests.
fn started(control: OwnedFd) -> io::Result<OwnedFd> {
    wait_for(&control, ANSWER_MAX)?;
    match ipc::receive(&control, &mut ipc::buffer())? {
        Some(message) if message.bytes.is_empty() => Ok(control),
        Some(message) => Err(io::Error::other(String::from_utf8_lossy(&message.bytes).into_owned())),
        None => Err(io::Error::other("the connector ended at once")),
    }
}

/// Waits for a message, or until the socket is closed.
fn wait_for(socket: &OwnedFd, patience: Duration) -> Result<(), Errno> {
    let patience = Timespec::try_from(patience).ok();
    let mut readable = [PollFd::new(socket, PollFlags::IN)];
    match rustix::io::retry_on_intr(|| poll(&mut readable, patience.as_ref()))? {
        0 => Err(Errno::TIMEDOUT),
        _ => Ok(()),
    }
}

/// What a message says.
fn received(message: Option<ipc::Message<'_>>) -> Result<Reply, Errno> {
    message.map_or(Err(KILLED), Reply::of_message)
}

/// The result of a connection, if it is known by now. [`KILLED`] if the connector was: the next one may be asked.
pub(crate) fn result(reply: &OwnedFd) -> Option<Result<OwnedFd, Errno>> {
    let mut buffer = [0; protocol::REPLY_BYTES_MAX];
    let received = match ipc::try_receive(reply, &mut buffer) {
        Ok(Received::Nothing) => return None,
        Ok(Received::Message(message)) => received(Some(message)),
        Ok(Received::Gone) => received(None),
        Err(_) => Err(Errno::IO),
    };
    Some(received.and_then(|reply| reply.first.ok_or(Errno::IO)))
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("is_gone", &self.is_gone).finish_non_exhaustive()
    }
}
