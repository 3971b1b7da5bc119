//! The fork helper's loop: it begins what servers ask for, and tells them what became of it.
//!
//! Each server process has a socket of its own to it, so that there can be any number of them; a new one presents itself
//! at the door. When one goes its programs are ended, and when the last has gone, and nobody can come any more, so is the
//! fork helper. It reads nothing but these messages. Its life as a process is [`guard`](crate::guard)'s business.

mod crew;

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use flash_cgi::Variables;
use flash_cgi::response::is_nph;
use flash_core::program::Refusal;
use flash_os::spawn::{Program, SpawnError, SpawnMethod, Step};
use rustix::event::{Timespec, epoll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::Pid;

use self::crew::{Crew, Name};
use crate::post::{self, Received};
use crate::script::Scripts;
use crate::setup::Setup;
use crate::wire::{Ask, Begin, Ended, NULL, Tell, What};

/// Who runs the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A process of its own.
    Apart,
    /// A thread of the server, which forks for each program: what the process apart is there to avoid.
    Inside,
}

struct Helper<'a> {
    setup: &'a Setup,
    scripts: Vec<Scripts>,
    epoll: Rc<OwnedFd>,
    /// `None` when nobody is left who could come.
    door: Option<OwnedFd>,
    null: OwnedFd,
    crew: Crew,
    servers: HashMap<u64, Server>,
    queue: VecDeque<Waiting>,
    tokens: u64,
}

/// A server process.
struct Server {
    socket: OwnedFd,
    /// Memory of the server's, where the number of the last program stands that was about to be begun: should this
    /// process be killed, the server knows which of its requests may have been begun, and asks again for all others.
    note: OwnedFd,
    untold: VecDeque<(Tell, Option<Rc<OwnedFd>>)>,
    /// It takes no more for now; an event says when it does.
    is_full: bool,
}

/// A request that waits until fewer run.
struct Waiting {
    server: u64,
    begin: Begin,
    descriptors: Vec<OwnedFd>,
    until: Instant,
}

enum Fate {
    Runs {
        pid: i32,
        pidfd: Rc<OwnedFd>,
        name_bytes: u32,
    },
    /// The client knows of it already, but it could not be run.
    Died,
}

struct Refused(Refusal, String);

const DOOR: u64 = 0;
const EVENTS_MAX: usize = 64;

/// Opens the folders of scripts.
///
/// # Errors
/// The first that cannot be opened.
pub(crate) fn open_scripts(setup: &Setup) -> io::Result<Vec<Scripts>> {
    let open = |folder: &crate::setup::Folder| {
        Scripts::open(folder)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.path.display())))
    };
    setup.folders.iter().map(open).collect()
}

/// Helps until all servers are gone.
///
/// # Errors
/// When the kernel has no room for the few things that this needs.
pub(crate) fn run(door: OwnedFd, setup: &Setup, place: Place) -> io::Result<()> {
    let epoll = Rc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
    epoll::add(&*epoll, &door, epoll::EventData::new_u64(DOOR), epoll::EventFlags::IN)?;
    let (method, inherits) = match place {
        Place::Apart => (SpawnMethod::Vfork, true),
        Place::Inside => (SpawnMethod::Fork, false),
    };
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mut helper = Helper {
        setup,
        scripts: open_scripts(setup)?,
        crew: Crew::new(Rc::clone(&epoll), method, inherits, setup.grace),
        epoll,
        door: Some(door),
        null,
        servers: HashMap::new(),
        queue: VecDeque::new(),
        tokens: DOOR,
    };
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut buffer = post::buffer();
    while helper.is_needed() {
        let timeout = helper.due_at().map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        events.clear();
        match epoll::wait(&*helper.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Err(Errno::INTR) => continue,
            result => result?,
        };
        helper.turn(&events, &mut buffer);
    }
    Ok(())
}

impl Helper<'_> {
    fn is_needed(&self) -> bool {
        self.door.is_some() || !self.servers.is_empty() || !self.crew.is_idle()
    }

    fn due_at(&self) -> Option<Instant> {
        self.crew.due_at().into_iter().chain(self.queue.front().map(|waiting| waiting.until)).min()
    }

    fn turn(&mut self, events: &[epoll::Event], buffer: &mut [u8]) {
        let now = Instant::now();
        // Those that ended make room for others.
        for event in events {
            if let Some((name, how)) = self.crew.ended(event.data.u64(), now) {
                self.tell(name.server, Tell::Ended { number: name.number, how }, None);
            }
        }
        let mut ended = Vec::new();
        self.crew.advance(now, |name, how| ended.push((name, how)));
        for (name, how) in ended {
            self.tell(name.server, Tell::Ended { number: name.number, how }, None);
        }
        self.shorten_queue(now);
        for event in events {
            match event.data.u64() {
                DOOR => self.open_door(buffer),
                token => self.listen(token, buffer, now),
            }
        }
        let told: Vec<u64> = self
            .servers
            .iter()
            .filter(|(_, server)| !server.untold.is_empty())
            .map(|(&token, _)| token)
            .collect();
        told.into_iter().for_each(|token| self.flush(token));
    }

    /// A server process presents itself, with a socket and its note.
    fn open_door(&mut self, buffer: &mut [u8]) {
        let Some(door) = &self.door else { return };
        match post::receive(door, buffer) {
            Ok(Received::Message { descriptors, .. }) => {
                let Ok([socket, note]) = <[OwnedFd; 2]>::try_from(descriptors) else { return };
                self.tokens += 1;
                let data = epoll::EventData::new_u64(self.tokens);
                // Without memory for it the socket closes, and the server tries again.
                if epoll::add(&*self.epoll, &socket, data, epoll::EventFlags::IN).is_ok() {
                    let server = Server { socket, note, untold: VecDeque::new(), is_full: false };
                    self.servers.insert(self.tokens, server);
                }
            }
            // A socket that came without its descriptors is closed, which its server hears.
            Ok(Received::Nothing | Received::Incomplete { .. }) => {}
            Ok(Received::Gone) | Err(_) => self.door = None,
        }
    }

    /// Takes one message, so that no server has to wait for all of another's.
    fn listen(&mut self, token: u64, buffer: &mut [u8], now: Instant) {
        self.flush(token);
        let Some(server) = self.servers.get(&token) else { return };
        let (bytes, descriptors) = match post::receive(&server.socket, buffer) {
            Ok(Received::Message { bytes, descriptors }) => (bytes, Some(descriptors)),
            Ok(Received::Incomplete { bytes }) => (bytes, None),
            Ok(Received::Nothing) => return,
            Ok(Received::Gone) | Err(_) => return self.leave(token, now),
        };
        match (Ask::of_bytes(bytes), descriptors) {
            (Some(Ask::Begin(begin)), Some(descriptors)) => self.ask(token, begin, descriptors, now),
            (Some(Ask::Begin(Begin { number, .. })), None) => {
                let reason = "the fork helper has no descriptor left".into();
                self.tell(token, Tell::Refused { number, why: Refusal::Busy, reason }, None);
            }
            (Some(Ask::End { number }), _) => {
                self.crew.end(|name| name == Name { server: token, number }, now)
            }
            (Some(Ask::Adopt { number, pid, is_counted }), descriptors) => {
                let name = Name { server: token, number };
                match (descriptors.and_then(|some| some.into_iter().next()), Pid::from_raw(pid)) {
                    (Some(pidfd), Some(pid)) => {
                        self.tokens += 1;
                        self.crew.adopt(self.tokens, name, pid, pidfd, is_counted);
                    }
                    _ => self.tell(token, Tell::Ended { number, how: Ended::Unknown }, None),
                }
            }
            (None, _) => self.leave(token, now),
        }
    }

    /// A server has gone, and nobody waits for its programs any more.
    fn leave(&mut self, token: u64, now: Instant) {
        self.servers.remove(&token);
        self.queue.retain(|waiting| waiting.server != token);
        self.crew.end(|name| name.server == token, now);
    }

    fn ask(&mut self, server: u64, begin: Begin, descriptors: Vec<OwnedFd>, now: Instant) {
        let is_counted = matches!(begin.what, What::Script { .. });
        if !is_counted || (self.queue.is_empty() && self.crew.counted() < self.setup.running_max) {
            return self.begin(server, &begin, &descriptors, now);
        }
        if self.queue.len() >= self.setup.queue_max {
            let reason = format!("{} programs run and {} wait", self.crew.counted(), self.queue.len());
            return self.tell(
                server,
                Tell::Refused { number: begin.number, why: Refusal::Busy, reason },
                None,
            );
        }
        self.queue.push_back(Waiting { server, begin, descriptors, until: now + self.setup.queue_wait });
    }

    fn shorten_queue(&mut self, now: Instant) {
        while self.queue.front().is_some_and(|first| first.until <= now) {
            let Some(Waiting { server, begin, .. }) = self.queue.pop_front() else { break };
            let reason = format!("it waited {:?} for others to end", self.setup.queue_wait);
            self.tell(server, Tell::Refused { number: begin.number, why: Refusal::Busy, reason }, None);
        }
        while self.crew.counted() < self.setup.running_max {
            let Some(Waiting { server, begin, descriptors, .. }) = self.queue.pop_front() else { break };
            self.begin(server, &begin, &descriptors, now);
        }
    }

    fn begin(&mut self, server: u64, begin: &Begin, descriptors: &[OwnedFd], now: Instant) {
        let number = begin.number;
        match self.spawn(server, begin, descriptors, now) {
            Ok(fate) => {
                match fate {
                    Fate::Runs { pid, pidfd, name_bytes } => {
                        self.tell(server, Tell::Begun { number, pid, name_bytes }, Some(pidfd));
                    }
                    Fate::Died => {
                        self.tell(server, Tell::Begun { number, pid: 0, name_bytes: 0 }, None);
                        // As shells say it of a program that cannot be run.
                        self.tell(server, Tell::Ended { number, how: Ended::Code(127) }, None);
                    }
                }
                // Now, because what is not told is lost should this process be killed.
                self.flush(server);
            }
            Err(Refused(why, reason)) => self.tell(server, Tell::Refused { number, why, reason }, None),
        }
    }

    fn spawn(
        &mut self,
        server: u64,
        begin: &Begin,
        descriptors: &[OwnedFd],
        now: Instant,
    ) -> Result<Fate, Refused> {
        let broken = |reason: &str| Refused(Refusal::Broken, reason.to_owned());
        let stdio = stdio(begin, descriptors, &self.null)
            .ok_or_else(|| broken("its descriptors did not come along"))?;
        let mut variables = Variables::from_pairs(begin.pairs.clone())
            .filter(|variables| variables.iter().all(|(name, _)| may_be_set(name, &begin.what)))
            .ok_or_else(|| broken("its variables make no sense"))?;
        let found;
        let (path, arguments, folder, name_bytes): (&CStr, Vec<&CStr>, Option<&CStr>, usize) = match &begin
            .what
        {
            What::Script { folder, path } => {
                let scripts = self
                    .scripts
                    .get(usize::from(*folder))
                    .ok_or_else(|| broken("no such folder of scripts"))?;
                found = scripts.find(path).map_err(|why| Refused(why, String::new()))?;
                variables.add_script(&found.split, Some(found.file.as_bytes()), &self.setup.document_root);
                (&found.file, vec![&found.file], Some(&found.folder), found.split.name.len())
            }
            What::Command { command } => {
                let command = self
                    .setup
                    .commands
                    .get(usize::from(*command))
                    .ok_or_else(|| broken("no such command"))?;
                (&command.program, command.arguments.iter().map(CString::as_c_str).collect(), None, 0)
            }
        };
        let environment = variables.env_block();
        if let Some(server) = self.servers.get(&server) {
            // It cannot fail: the memory is there already.
            let _ = rustix::io::pwrite(&server.note, &begin.number.to_ne_bytes(), 0);
        }
        if !begin.head.is_empty() {
            // Such a script writes the whole response (RFC 3875 §5).
            let head = if is_nph(path.to_bytes()) { &[][..] } else { &begin.head };
            match hand_over(stdio[1], head) {
                Ok(true) => {}
                Ok(false) => return Ok(Fate::Died),
                Err(error) => return Err(broken(&format!("the client takes no head: {error}"))),
            }
        }
        let program = Program {
            path,
            arguments: &arguments,
            environment: &environment,
            folder,
            stdio,
            limits: &self.setup.limits,
            nice: self.setup.nice,
        };
        self.tokens += 1;
        let name = Name { server, number: begin.number };
        let is_counted = matches!(begin.what, What::Script { .. });
        match self.crew.begin((self.tokens, name, is_counted), &program, now) {
            Ok((pid, pidfd)) => Ok(Fate::Runs { pid, pidfd, name_bytes: name_bytes as u32 }),
            // The client has the head of a response, so that there is no other. It ends here.
            Err(_) if !begin.head.is_empty() => Ok(Fate::Died),
            Err(failed) => Err(Refused(refusal(failed), format!("{}: {failed}", path.to_string_lossy()))),
        }
    }

    fn tell(&mut self, server: u64, what: Tell, pidfd: Option<Rc<OwnedFd>>) {
        if let Some(server) = self.servers.get_mut(&server) {
            server.untold.push_back((what, pidfd));
        }
    }

    /// Sends what there is to tell, as far as the server takes it.
    fn flush(&mut self, token: u64) {
        let Some(server) = self.servers.get_mut(&token) else { return };
        let was_full = std::mem::take(&mut server.is_full);
        while !server.untold.is_empty() && !server.is_full {
            let count = server.untold.len().min(post::DESCRIPTORS_MAX);
            let mut bytes = Vec::new();
            let mut pidfds = Vec::new();
            for (tell, pidfd) in server.untold.range(..count) {
                tell.put(&mut bytes);
                pidfds.extend(pidfd.as_ref().map(|pidfd| pidfd.as_fd()));
            }
            match post::send(&server.socket, &bytes, &pidfds) {
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => server.is_full = true,
                // Sent, or for nobody: that it is gone is an event of its own.
                _ => drop(server.untold.drain(..count)),
            }
        }
        if server.is_full != was_full {
            let out = if server.is_full { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(token);
            // It can only fail for a socket that was never added.
            let _ = epoll::modify(&*self.epoll, &server.socket, data, epoll::EventFlags::IN | out);
        }
    }
}

/// The program's three, of those that came along.
fn stdio<'d>(begin: &Begin, descriptors: &'d [OwnedFd], null: &'d OwnedFd) -> Option<[BorrowedFd<'d>; 3]> {
    let mut stdio = [null.as_fd(); 3];
    for (place, &index) in stdio.iter_mut().zip(&begin.stdio) {
        if index != NULL {
            *place = descriptors.get(usize::from(index))?.as_fd();
        }
    }
    Some(stdio)
}

/// Whether a server may say so to a program. One that has been taken over would have a script load its own code otherwise:
/// LD_PRELOAD, BASH_ENV, PERL5OPT.
fn may_be_set(name: &[u8], what: &What) -> bool {
    let prefixes: &[&[u8]] = match what {
        What::Script { .. } => &[b"HTTP_", b"REQUEST_", b"SERVER_", b"REMOTE_", b"CONTENT_"],
        What::Command { .. } => return name == b"PHP_FCGI_MAX_REQUESTS",
    };
    let others: [&[u8]; 4] = [b"GATEWAY_INTERFACE", b"QUERY_STRING", b"DOCUMENT_ROOT", b"REDIRECT_STATUS"];
    others.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Writes the head of the response to the client, whose socket becomes as a program expects it. Tells whether it took all.
fn hand_over(client: BorrowedFd<'_>, head: &[u8]) -> Result<bool, Errno> {
    // The socket's buffer is empty, or nearly so, and a head is small.
    let sent = if head.is_empty() {
        0
    } else {
        rustix::net::send(client, head, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?
    };
    rustix::io::ioctl_fionbio(client, false)?;
    Ok(sent == head.len())
}

fn refusal(failed: SpawnError) -> Refusal {
    match (failed.step, Errno::from_raw_os_error(failed.errno)) {
        (Step::Clone, _) | (_, Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => Refusal::Busy,
        (Step::Exec, Errno::ACCESS | Errno::PERM) => Refusal::Forbidden,
        _ => Refusal::Broken,
    }
}
