//! The admin socket: how an administrator asks a server, and tells it to reload.
//!
//! It is HTTP/1.1 at a Unix socket, so `curl --unix-socket` speaks it. Threads of its own answer, and wait for no loop and no disk.
//! So they answer at full load, during a disk hang and while the server drains. Only root and the server's user may use it.
//!
//! A second listener may stand at an address. Whoever reaches that may read, and change nothing. What a server can tell and do is
//! behind [`Administered`].

mod administered;
pub(crate) mod gather;
pub(crate) mod history;
mod host;
mod open_metrics;
mod page;
mod request;
mod response;
pub mod snapshot;
mod watchers;

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flash_process::UpgradeRequest;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, sendmsg};

pub(crate) use self::administered::Administered;
use self::history::Sample;
use self::host::{Access, Policy};
use self::request::{HEAD_BYTES_MAX, respond};
use self::response::Response;
use self::snapshot::SiteSnapshot;
pub(crate) use self::snapshot::Snapshot;
use self::watchers::Watchers;
use crate::admin_listeners::AdminListeners;
use crate::listener::Listener;
use crate::reload_request::reload;
use crate::server_state::ServerState;
use crate::upgrade;

/// More connections at once to one listener are refused.
const CONNECTIONS_MAX: usize = 16;
/// How long a client may take to send its request, and to take the response.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the last clients may take to leave a server that has a successor, and how often it looks.
const LEAVE_PATIENCE: Duration = Duration::from_secs(1);
const LEAVE_PAUSE: Duration = Duration::from_millis(5);
/// Between a failure to accept and the next attempt.
const PAUSE: Duration = Duration::from_millis(100);
const STACK_BYTES: usize = 256 << 10;

/// The thread that accepts at a listener. When this is dropped, the thread has ended, and the listener is closed.
#[must_use]
pub(crate) struct AdminThread {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    connections: Arc<AtomicUsize>,
}

/// Starts a thread for each listener.
pub(crate) fn start(
    listeners: AdminListeners,
    server: &Arc<impl Administered + 'static>,
) -> io::Result<Vec<AdminThread>> {
    let AdminListeners { socket, read_only, hosts, upgrader } = listeners;
    let upgrader = upgrader.map(Arc::new);
    let all: Vec<_> = [(socket, Access::Full), (read_only, Access::ReadOnly)]
        .into_iter()
        .filter_map(|(listener, access)| {
            Some((listener?, Policy { access, hosts: Arc::clone(&hosts), upgrader: upgrader.clone() }))
        })
        .collect();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let watchers = Watchers::start(Arc::clone(server) as Arc<dyn Administered>)?;
    let start =
        |(listener, policy)| start_thread(listener, policy, Arc::clone(server), Arc::clone(&watchers));
    all.into_iter().map(start).collect()
}

fn start_thread(
    socket: Listener,
    policy: Policy,
    server: Arc<impl Administered + 'static>,
    watchers: Arc<Watchers>,
) -> io::Result<AdminThread> {
    socket.set_nonblocking()?;
    let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
    let stopping = Arc::clone(&stop);
    let connections = Arc::new(AtomicUsize::new(0));
    let all = Arc::clone(&connections);
    let thread = thread::Builder::new().name("admin".into()).stack_size(STACK_BYTES).spawn(move || {
        accept(&socket, &policy, &stopping, &server, &all, &watchers);
        watchers.stop();
    })?;
    Ok(AdminThread { stop, thread: Some(thread), connections })
}

impl AdminThread {
    /// Accepts no more. What has been asked is answered.
    pub(crate) fn stop(&mut self) {
        if let Some(thread) = self.thread.take()
            && rustix::io::write(&self.stop, &1_u64.to_ne_bytes()).is_ok()
        {
            // One that panicked has closed the socket too.
            let _ = thread.join();
        }
    }

    /// Waits for a moment until all clients have left.
    pub(crate) fn wait_for_clients(&self) {
        let give_up = Instant::now() + LEAVE_PATIENCE;
        while self.connections.load(Ordering::Relaxed) > 0 && Instant::now() < give_up {
            thread::sleep(LEAVE_PAUSE);
        }
    }
}

impl Drop for AdminThread {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(
    socket: &Listener,
    policy: &Policy,
    stop: &OwnedFd,
    server: &Arc<impl Administered + 'static>,
    connections: &Arc<AtomicUsize>,
    watchers: &Arc<Watchers>,
) {
    loop {
        let mut events = [PollFd::new(socket, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        // If it fails, the next call waits, or accepting says what is wrong.
        let _ = poll(&mut events, None);
        if !events[1].revents().is_empty() {
            return;
        }
        match socket.accept(SocketFlags::empty()) {
            Ok((client, _)) => {
                let connection = Connection::new(connections);
                let (server, watchers, policy) = (Arc::clone(server), Arc::clone(watchers), policy.clone());
                let life = move || serve(client.into(), &policy, &*server, &watchers, connection);
                // Without a thread the client sees the connection close.
                let _ = thread::Builder::new().name("admin".into()).stack_size(STACK_BYTES).spawn(life);
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

/// Counts a connection for as long as it lasts.
struct Connection {
    all: Arc<AtomicUsize>,
    is_one_too_many: bool,
}

impl Connection {
    fn new(all: &Arc<AtomicUsize>) -> Self {
        let before = all.fetch_add(1, Ordering::Relaxed);
        Self { all: Arc::clone(all), is_one_too_many: before >= CONNECTIONS_MAX }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers one request. A client that does not follow the protocol, or has left, is of no concern.
///
/// The calls of a `UnixStream` are those of any stream socket.
fn serve(
    mut client: UnixStream,
    policy: &Policy,
    server: &dyn Administered,
    watchers: &Watchers,
    connection: Connection,
) {
    let response = match () {
        () if policy.access == Access::Full && !may_ask(&client) => {
            Response::text(403, "only root and the server's user may ask here\n")
        }
        () if connection.is_one_too_many => Response::text(503, "too many connections to this listener\n"),
        () => match read_head(&mut client) {
            Ok(head) => respond(&head, policy, server, watchers),
            Err(_) => return,
        },
    };
    if response.is_stream() {
        // Those who watch are counted apart, so that they leave room for others.
        drop(connection);
        let _ = client.set_write_timeout(Some(PATIENCE));
        return watchers.watch(&mut client, &response.bytes());
    }
    let _ = send(&mut client, &response);
    let _ = client.shutdown(Shutdown::Write);
    // What is left of the request is read, or the kernel would reset the connection before the client has the response.
    let _ = client.set_read_timeout(Some(PATIENCE / 10));
    let mut rest = [0; 4096];
    for _ in 0..16 {
        if !matches!(client.read(&mut rest), Ok(1..)) {
            break;
        }
    }
}

/// Sends a response, if its client takes it in time. A descriptor goes with the first bytes.
fn send(client: &mut UnixStream, response: &Response) -> io::Result<()> {
    let give_up = Instant::now() + PATIENCE;
    let (bytes, mut descriptor) = (response.bytes(), response.descriptor.as_ref());
    let mut unsent = &bytes[..];
    while !unsent.is_empty() {
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_write_timeout(Some(left))?;
        let sent = match descriptor.take() {
            Some(descriptor) => send_with(client, unsent, descriptor)?,
            None => client.write(unsent)?,
        };
        match sent {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => unsent = &unsent[count..],
        }
    }
    Ok(())
}

fn send_with(client: &UnixStream, bytes: &[u8], descriptor: &OwnedFd) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut control, descriptors) = (SendAncillaryBuffer::new(&mut space), [descriptor.as_fd()]);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    Ok(sendmsg(client, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Whether the client is root or the server's user. The socket's mode says the same, but it can be changed.
fn may_ask(client: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    socket_peercred(client.as_fd()).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}

/// The bytes of a request up to the end of its head.
fn read_head(client: &mut UnixStream) -> io::Result<Vec<u8>> {
    let give_up = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut buffer)? {
            0 => break,
            count => head.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(head)
}

impl Administered for ServerState {
    fn snapshot(&self) -> Snapshot {
        gather::of_process(self)
    }

    fn sample(&self) -> Sample {
        gather::sample_of_process(self)
    }

    fn changed_sites(&self) -> Vec<SiteSnapshot> {
        gather::changed_sites(self.metrics.memory())
    }

    fn is_draining(&self) -> bool {
        Self::is_draining(self)
    }

    fn reload(&self) -> Result<u64, String> {
        match self.reloads() {
            Some(reloads) => reload(reloads),
            None => Err("this process cannot reload".into()),
        }
    }

    fn reopen_logs(&self) {
        Self::reopen_logs(self);
    }

    fn log_counters(&self) {
        self.log_metrics("serving");
    }

    fn upgrade(&self, request: UpgradeRequest) -> Result<u32, String> {
        let queue = self.upgrades.get().ok_or(upgrade::STOPPING)?;
        upgrade::ask(queue, request, || Self::is_draining(self))
    }
}
