//! The admin socket: how an administrator asks a server, and tells it to reload.
//!
//! It is HTTP/1.1 at a Unix socket, so `curl --unix-socket` speaks it. Threads of its own answer, and wait for no loop and no disk.
//! So they answer at full load, during a disk hang and while the server drains. Only root and the server's user may use it.
//! What a server can tell and do is behind [`Administered`].

mod administered;
mod request;
mod status;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_core::Server;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::net::sockopt::socket_peercred;

pub(crate) use self::administered::Administered;
use self::request::{HEAD_BYTES_MAX, Response, respond};
pub(crate) use self::status::Status;
use crate::listener::Listener;
use crate::reload_request::reload;
use crate::server_state::ServerState;

/// More connections at once are refused.
const CONNECTIONS_MAX: usize = 16;
/// How long a client may take to send its request, and to take the response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between a failure to accept and the next attempt.
const PAUSE: Duration = Duration::from_millis(100);
const STACK_BYTES: usize = 256 << 10;

/// Starts the thread that accepts.
pub(crate) fn start(socket: Listener, server: Arc<impl Administered + 'static>) -> io::Result<()> {
    thread::Builder::new()
        .name("admin".into())
        .stack_size(STACK_BYTES)
        .spawn(move || accept(&socket, &server))?;
    Ok(())
}

fn accept(socket: &Listener, server: &Arc<impl Administered + 'static>) {
    let connections = Arc::new(AtomicUsize::new(0));
    loop {
        match socket.accept(SocketFlags::empty()) {
            Ok((client, _)) => {
                let connection = Connection::new(&connections);
                let server = Arc::clone(server);
                let life = move || serve(client.into(), &*server, connection);
                // Without a thread the client sees the connection close.
                let _ = thread::Builder::new().name("admin".into()).stack_size(STACK_BYTES).spawn(life);
            }
            // The listener is shut.
            Err(Errno::INVAL) => return,
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
fn serve(mut client: UnixStream, server: &dyn Administered, connection: Connection) {
    let response = match () {
        () if !may_ask(&client) => Response::text(403, "only root and the server's user may ask here\n"),
        () if connection.is_one_too_many => Response::text(503, "too many connections to the admin socket\n"),
        () => match read_head(&mut client) {
            Ok(head) => respond(&head, server),
            Err(_) => return,
        },
    };
    let _ = client.set_write_timeout(Some(PATIENCE));
    let _ = client.write_all(&response.bytes());
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
    fn status(&self) -> Status {
        let configuration = self.configuration();
        let Server { number, .. } = &configuration.server;
        // The totals come first, and the causes of sleeps last.
        let mut report = self.metrics.report().into_iter();
        Status {
            pid: std::process::id(),
            generation: number.0,
            generations_in_use: self.present().in_use(),
            is_draining: self.is_draining(),
            connections: Some(self.permits.connections()),
            counters: report.next().unwrap_or_default(),
            loops: report.filter(|line| line.contains(": turns=")).collect(),
        }
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
}
