//! What the process of the [connector](crate::connector) does.

mod name_files;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use flash_process::{Reporter, ipc, name_sources, private_socket};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};

use self::name_files::NameFiles;
use crate::address::{Address, UnixAddress};
use crate::background::{BackgroundThread, Command, CommandChannel, FullSocket};
use crate::connecting::{Attempt, OnConnected};
use crate::connector::BACKLOG;
use crate::connector::protocol::{Request, error_bytes};
use crate::resolver::{Named, Resolver};
use crate::settings::ServerConfig;

/// A server of the configuration.
struct Target {
    /// What the server knows it as.
    name: String,
    lookup: Option<String>,
    address: ArcSwap<Address>,
    /// The name was looked up, with or without success.
    is_looked_up: AtomicBool,
    /// Connections that are being made.
    pending: Arc<AtomicUsize>,
    files: Arc<NameFiles>,
}

/// One of them.
struct Pending(Arc<AtomicUsize>);

/// One that waits for room in a listen queue, or for the first look-up of the name. `AGAIN` if the queue stays full.
struct Waiting {
    target: Arc<Target>,
    background: Arc<CommandChannel>,
    give_up_at: Instant,
    then: OnConnected,
}

struct Process {
    targets: HashMap<String, Arc<Target>>,
    background: Arc<CommandChannel>,
}

/// As many connections to a server may be under way at a time.
const PENDING_MAX: usize = 4096;
/// The longest that a connection may take.
const PATIENCE_MAX: Duration = Duration::from_secs(60);

/// Is the connector of these servers, until the server is gone, or one of the `name_files` that names are looked up with was replaced.
/// `confine` takes away the rights that it does not need.
///
/// # Errors
/// When the system has no room for what it needs.
pub fn run<'s>(
    control: &OwnedFd,
    servers: impl Iterator<Item = &'s ServerConfig>,
    name_files: &[&str],
    confine: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    flash_os::process::set_name(c"flash-connect");
    let files = Arc::new(NameFiles::new(name_files, control.try_clone()?));
    let target = |server: &ServerConfig| (server.target(), Arc::new(Target::new(server, &files)));
    let targets: HashMap<_, _> = servers.map(target).collect();
    name_sources::load();
    if let Err(error) = confine() {
        return Ok(ipc::send(control, format!("the connector: {error}").as_bytes(), &[])?);
    }
    let background = Arc::new(CommandChannel::new()?);
    let log = |what: std::fmt::Arguments<'_>| flash_process::log(what);
    let reporter = Arc::new(Reporter { stderr_line: Box::new(|_, _| {}), log: Box::new(log) });
    let mut waiting = BackgroundThread::new(Arc::clone(&background), reporter)?;
    thread::Builder::new().name("connections".into()).spawn(move || waiting.run())?;
    let resolver = Resolver::default();
    targets.values().for_each(|target| resolver.add(target));
    let process = Process { targets, background };
    ipc::send(control, b"", &[])?;
    let mut buffer = ipc::buffer();
    while let Some(message) = ipc::receive(control, &mut buffer)? {
        let mut descriptors = message.descriptors.into_iter();
        // A reply that cannot be sent closes its socket, which says as much.
        if let Some(reply) = descriptors.next() {
            process.serve(Request::of_bytes(&message.bytes), reply, descriptors.next());
        }
    }
    Ok(())
}

impl Target {
    fn new(server: &ServerConfig, files: &Arc<NameFiles>) -> Self {
        let lookup = server.lookup.clone();
        // A name may have moved since the configuration was read.
        let address = if lookup.is_some() { Address::Inet(Vec::new()) } else { server.address.clone() };
        Self {
            name: server.target(),
            is_looked_up: AtomicBool::new(lookup.is_none()),
            lookup,
            address: ArcSwap::from_pointee(address),
            pending: Arc::default(),
            files: Arc::clone(files),
        }
    }
}

impl Process {
    fn serve(&self, request: Option<Request<'_>>, reply: OwnedFd, place: Option<OwnedFd>) {
        match (request, place) {
            (Some(Request::Listen), _) => match private_socket::listen(SocketType::STREAM, BACKLOG) {
                Ok((listener, place)) => answer(&reply, Ok(&[listener.as_fd(), place.as_fd()])),
                Err(error) => answer(&reply, Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))),
            },
            (Some(Request::Connect { target, patience_ms }), _) => match self.targets.get(target) {
                Some(target) => {
                    let target = Arc::clone(target);
                    let patience = Duration::from_millis(patience_ms.into()).min(PATIENCE_MAX);
                    self.connect(target, Instant::now() + patience, reply);
                }
                None => answer(&reply, Err(Errno::ACCESS)),
            },
            (Some(Request::ConnectToPlace), Some(place)) => answer_with(&reply, to_place(&place)),
            (Some(Request::ConnectToPlace) | None, _) => answer(&reply, Err(Errno::INVAL)),
        }
    }

    fn connect(&self, target: Arc<Target>, until: Instant, reply: OwnedFd) {
        let Some(pending) = Pending::begin(&target.pending) else { return answer(&reply, Err(Errno::AGAIN)) };
        let then: OnConnected = Box::new(move |connected| {
            drop(pending);
            answer_with(&reply, connected);
        });
        let background = Arc::clone(&self.background);
        let waiting = Waiting { target, background, give_up_at: until, then };
        if let Some(waiting) = Box::new(waiting).retry(Instant::now()) {
            self.background.send(Command::Retry(waiting));
        }
    }
}

impl FullSocket for Waiting {
    fn name(&self) -> &str {
        &self.target.name
    }

    fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    fn retry(self: Box<Self>, now: Instant) -> Option<Box<dyn FullSocket>> {
        let may_wait = now < self.give_up_at;
        if may_wait && !self.target.is_looked_up.load(Ordering::Acquire) {
            return Some(self);
        }
        match Attempt::begin(&self.target.address.load_full(), 0) {
            Attempt::Full if may_wait => return Some(self),
            attempt => attempt.wait(self.give_up_at, &self.background, self.then),
        }
        None
    }

    fn close(self: Box<Self>) {
        (self.then)(Err(Errno::CANCELED));
    }
}

impl Pending {
    /// `None` if as many are being made as may.
    fn begin(count: &Arc<AtomicUsize>) -> Option<Self> {
        let before = count.fetch_add(1, Ordering::Relaxed);
        let one = Self(Arc::clone(count));
        (before < PENDING_MAX).then_some(one)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects to a socket that has no name: [none else](private_socket) can be meant. `AGAIN` if its queue is full.
fn to_place(place: &OwnedFd) -> Result<OwnedFd, Errno> {
    let is_private = rustix::fs::fstat(place).is_ok_and(|status| {
        FileType::from_raw_mode(status.st_mode) == FileType::Socket
            && status.st_nlink == 0
            && status.st_uid == rustix::process::geteuid().as_raw()
    });
    match UnixAddress::new(&private_socket::path(place)) {
        Ok(address) if is_private => Attempt::begin(&Arc::new(Address::Unix(address)), 0).done(),
        _ => Err(Errno::ACCESS),
    }
}

/// A connection that did not wait counts as one that is being made until the kernel is asked again. Its socket could be sent elsewhere
/// with the first byte (`MSG_FASTOPEN`). One that the peer has reset already has no peer any more.
fn settled(stream: OwnedFd) -> Result<OwnedFd, Errno> {
    let was_reset = |error| if error == Errno::NOTCONN { Errno::CONNRESET } else { error };
    if let Some(peer) = rustix::net::getpeername(&stream).map_err(was_reset)?
        && peer.address_family() != AddressFamily::UNIX
        && let Err(error) = rustix::net::connect(&stream, &peer)
        && error != Errno::ISCONN
    {
        return Err(error);
    }
    Ok(stream)
}

fn answer_with(reply: &OwnedFd, connected: Result<OwnedFd, Errno>) {
    match connected.and_then(settled) {
        Ok(stream) => answer(reply, Ok(&[stream.as_fd()])),
        Err(error) => answer(reply, Err(error)),
    }
}

fn answer(reply: &OwnedFd, with: Result<&[BorrowedFd<'_>], Errno>) {
    // A server that has waited for too long has closed it.
    let _ = match with {
        Ok(descriptors) => ipc::try_send(reply, b"", descriptors),
        Err(error) => ipc::try_send(reply, &error_bytes(error), &[]),
    };
}

impl Named for Target {
    fn lookup(&self) -> Option<&str> {
        self.lookup.as_deref()
    }

    fn has_address(&self) -> bool {
        self.address.load().count() > 0
    }

    fn looked_up(&self, found: Option<Address>) {
        if let Some(address) = found {
            self.address.store(Arc::new(address));
        }
        self.is_looked_up.store(true, Ordering::Release);
        self.files.end_if_replaced();
    }
}

#[cfg(test)]
pub(crate) mod tests;
