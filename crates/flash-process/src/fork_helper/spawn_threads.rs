//! Threads that start programs, so that the fork helper's loop never waits for a disk.
//!
//! Each folder of scripts and each command has one thread, which finds the file and executes it. A folder on a mount that
//! hangs keeps its own thread and no other. Which request starts next, and when it has waited too long, is decided by
//! [the loop](super).

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use flash_cgi::Variables;
use flash_cgi::response::is_nph;
use flash_core::upstream::OpenError;
use flash_os::channel::Channel;
use flash_os::signals;
use flash_os::socket::{NO_SIGNAL, Waits, pipe};
use flash_os::spawn::{Program, SpawnError, SpawnMethod, Spawned, Spawner, Step};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::children::ProgramId;
use crate::protocol::{NULL, PIPE, ProgramRef, StartRequest};
use crate::script::Scripts;
use crate::setup::{Folder, Setup};
use crate::start_record::StartRecord;

/// One program to start.
pub(super) struct Start {
    pub(super) id: ProgramId,
    pub(super) request: StartRequest,
    pub(super) descriptors: Vec<OwnedFd>,
    pub(super) record: Arc<StartRecord>,
    /// Taken by the thread before it writes to the client, or by the loop, which gave up: whoever comes first.
    claim: Arc<AtomicBool>,
}

impl Start {
    pub(super) fn new(
        id: ProgramId,
        request: StartRequest,
        descriptors: Vec<OwnedFd>,
        record: Arc<StartRecord>,
    ) -> Self {
        Self { id, request, descriptors, record, claim: Arc::default() }
    }

    /// Whether the program writes to the client itself, after a head that the thread writes.
    fn is_direct(&self) -> bool {
        !self.request.head.is_empty()
    }
}

/// What became of a [`Start`].
pub(super) struct Outcome {
    /// Which thread it was.
    pub(super) thread: usize,
    pub(super) result: Result<StartOutcome, StartError>,
}

pub(super) enum StartOutcome {
    Running {
        spawned: Spawned,
        /// The other end of its pipe.
        stderr: OwnedFd,
        name_bytes: u32,
    },
    /// The client has the head of a response already, but the program could not be executed.
    SpawnError,
}

pub(super) struct StartError(pub(super) OpenError, pub(super) String);

/// What all threads share.
pub(super) struct SpawnThreads {
    setup: Arc<Setup>,
    method: SpawnMethod,
    null: Arc<OwnedFd>,
    outcomes: Arc<Channel<Outcome>>,
    threads: Vec<SpawnThread>,
}

#[derive(Default)]
struct SpawnThread {
    /// `None` before its first program.
    starts: Option<Sender<Start>>,
    busy: Option<Busy>,
}

/// The one program that a thread is starting.
#[derive(Debug)]
pub(super) struct Busy {
    pub(super) id: ProgramId,
    pub(super) is_counted: bool,
    pub(super) since: Instant,
    /// How long its request had waited then.
    pub(super) queued: Duration,
    pub(super) wait: Wait,
    is_direct: bool,
    claim: Arc<AtomicBool>,
}

/// How long the disk takes to start a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    InTime,
    /// Too long, but its client has the head of a response, so that it cannot be refused.
    Late,
    /// The server was told that the program does not start.
    Refused,
}

/// The state of one thread, on its own stack.
struct Worker {
    setup: Arc<Setup>,
    null: Arc<OwnedFd>,
    spawner: Spawner,
    /// Its folder of scripts, once it could be opened.
    scripts: Option<Scripts>,
}

impl SpawnThreads {
    pub(super) fn new(
        setup: Arc<Setup>,
        method: SpawnMethod,
        outcomes: Arc<Channel<Outcome>>,
    ) -> io::Result<Self> {
        let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let mut threads = Vec::new();
        threads.resize_with(setup.folders.len() + setup.commands.len(), SpawnThread::default);
        Ok(Self { setup, method, null: Arc::new(null), outcomes, threads })
    }

    /// Which thread starts such a program. `None` if no folder or command has that number.
    pub(super) fn index_of(&self, what: &ProgramRef) -> Option<usize> {
        let (index, end) = match *what {
            ProgramRef::Script { folder, .. } => (usize::from(folder), self.setup.folders.len()),
            ProgramRef::Command { command } => {
                (self.setup.folders.len() + usize::from(command), self.threads.len())
            }
        };
        (index < end).then_some(index)
    }

    pub(super) fn is_busy(&self, thread: usize) -> bool {
        self.threads[thread].busy.is_some()
    }

    /// The programs that are being started, each with its thread's index.
    pub(super) fn busy(&self) -> impl Iterator<Item = (usize, &Busy)> {
        self.threads.iter().enumerate().filter_map(|(index, thread)| Some((index, thread.busy.as_ref()?)))
    }

    /// Has a thread that is not busy start a program.
    pub(super) fn start(
        &mut self,
        thread: usize,
        start: Start,
        (asked, now): (Instant, Instant),
    ) -> Result<(), StartError> {
        let busy = Busy {
            id: start.id,
            is_counted: start.request.what.is_counted(),
            since: now,
            queued: now.saturating_duration_since(asked),
            wait: Wait::InTime,
            is_direct: start.is_direct(),
            claim: Arc::clone(&start.claim),
        };
        if self.threads[thread].starts.is_none() {
            let starts = self
                .spawn_thread(thread)
                .map_err(|error| StartError(OpenError::Busy, format!("no thread to start it: {error}")))?;
            self.threads[thread].starts = Some(starts);
        }
        let SpawnThread { starts, busy: slot } = &mut self.threads[thread];
        // The thread lives as long as its sender.
        if let Some(starts) = starts {
            let _ = starts.send(start);
        }
        *slot = Some(busy);
        Ok(())
    }

    /// The thread has nothing to do again. Returns what it was busy with.
    pub(super) fn done(&mut self, thread: usize) -> Option<Busy> {
        self.threads[thread].busy.take()
    }

    /// Gives up what the thread is starting. Returns its id if the server is to be told so.
    pub(super) fn give_up(&mut self, thread: usize) -> Option<ProgramId> {
        let busy = self.threads[thread].busy.as_mut()?;
        let is_claimed = busy.claim.swap(true, Ordering::AcqRel);
        busy.wait = if is_claimed && busy.is_direct { Wait::Late } else { Wait::Refused };
        (busy.wait == Wait::Refused).then_some(busy.id)
    }

    fn spawn_thread(&self, index: usize) -> io::Result<Sender<Start>> {
        let (sender, receiver) = channel();
        let (setup, null, outcomes) =
            (Arc::clone(&self.setup), Arc::clone(&self.null), Arc::clone(&self.outcomes));
        let method = self.method;
        thread::Builder::new().name("spawn".into()).spawn(move || {
            signals::block_all();
            let worker = Worker { setup, null, spawner: Spawner::new(method), scripts: None };
            worker.run(index, &receiver, &outcomes);
        })?;
        Ok(sender)
    }
}

impl Worker {
    fn run(mut self, thread: usize, starts: &Receiver<Start>, outcomes: &Channel<Outcome>) {
        while let Ok(start) = starts.recv() {
            let result = catch_unwind(AssertUnwindSafe(|| self.start(&start)));
            let result =
                result.unwrap_or_else(|_| Err(StartError(OpenError::Broken, "starting it panicked".into())));
            // The program's end of each stream closes before the server is told.
            drop(start);
            outcomes.send(Outcome { thread, result });
        }
    }

    fn start(&mut self, start: &Start) -> Result<StartOutcome, StartError> {
        let Start { request, descriptors, record, .. } = start;
        let Self { setup, null, spawner, scripts } = self;
        let broken = |reason: &str| StartError(OpenError::Broken, reason.to_owned());
        let (stderr, pipe) = pipe(Waits::Yes)
            .map_err(|error| StartError(OpenError::Busy, format!("no pipe for it: {error}")))?;
        let stdio = stdio(request, descriptors, null, &pipe)
            .ok_or_else(|| broken("its descriptors did not come along"))?;
        let mut variables = Variables::from_pairs(request.pairs.clone())
            .filter(|variables| variables.iter().all(|(name, _)| is_allowed_variable(name, &request.what)))
            .ok_or_else(|| broken("its variables make no sense"))?;
        let found;
        let (path, arguments, folder, name_bytes): (&CStr, Vec<&CStr>, Option<&CStr>, usize) =
            match &request.what {
                ProgramRef::Script { folder, path } => {
                    found = opened(scripts, &setup.folders[usize::from(*folder)])?
                        .find(path)
                        .map_err(|why| StartError(why, String::new()))?;
                    variables.add_script(&found.split, Some(found.file.as_bytes()));
                    (&found.file, vec![&found.file], Some(&found.folder), found.split.name.len())
                }
                ProgramRef::Command { command } => {
                    let command = &setup.commands[usize::from(*command)];
                    let arguments = command.arguments.iter().map(CString::as_c_str).collect();
                    (&command.program, arguments, setup.commands_folder.as_deref(), 0)
                }
            };
        let environment = variables.env_block();
        if start.claim.swap(true, Ordering::AcqRel) {
            return Err(StartError(OpenError::Late, "it was given up".into()));
        }
        // It cannot fail: the memory is there already.
        let _ = record.note(&request.what, request.number);
        if start.is_direct() {
            // Such a script writes the whole response (RFC 3875 §5).
            let head = if is_nph(path.to_bytes()) { &[][..] } else { &request.head };
            match send_head(stdio[1], head) {
                Ok(true) => {}
                Ok(false) => return Ok(StartOutcome::SpawnError),
                Err(error) => return Err(broken(&format!("the client takes no head: {error}"))),
            }
        }
        let program = Program {
            path,
            arguments: &arguments,
            environment: &environment,
            folder,
            stdio,
            limits: &setup.limits,
            nice: setup.nice,
        };
        let spawned = match (spawner.spawn(&program), &request.what) {
            (Err(SpawnError { step: Step::Folder, .. }), ProgramRef::Command { .. }) => {
                spawner.spawn(&Program { folder: None, ..program })
            }
            (spawned, _) => spawned,
        };
        match spawned {
            Ok(spawned) => Ok(StartOutcome::Running { spawned, stderr, name_bytes: name_bytes as u32 }),
            // The client has the head of a response, so that there is no other. It ends here.
            Err(_) if start.is_direct() => Ok(StartOutcome::SpawnError),
            Err(failed) => {
                let path = path.to_string_lossy();
                let why = missing_interpreter(failed, &path).unwrap_or_else(|| failed.to_string());
                Err(StartError(refusal(failed), format!("{path}: {why}")))
            }
        }
    }
}

/// Opened by the thread itself, because the mount may hang.
fn opened<'s>(scripts: &'s mut Option<Scripts>, folder: &Folder) -> Result<&'s Scripts, StartError> {
    if scripts.is_none() {
        let open = Scripts::open(folder)
            .map_err(|error| StartError(OpenError::Broken, format!("{}: {error}", folder.path.display())))?;
        *scripts = Some(open);
    }
    Ok(scripts.as_ref().expect("it was opened above"))
}

/// The program's three, of those that came along and those that are here.
fn stdio<'d>(
    request: &StartRequest,
    descriptors: &'d [OwnedFd],
    null: &'d OwnedFd,
    pipe: &'d OwnedFd,
) -> Option<[BorrowedFd<'d>; 3]> {
    let mut stdio = [null.as_fd(); 3];
    for (place, &index) in stdio.iter_mut().zip(&request.stdio) {
        match index {
            NULL => {}
            PIPE => *place = pipe.as_fd(),
            index => *place = descriptors.get(usize::from(index))?.as_fd(),
        }
    }
    Some(stdio)
}

/// Whether a server may say so to a program. One that has been taken over would have a script load its own code otherwise:
/// LD_PRELOAD, BASH_ENV, PERL5OPT.
fn is_allowed_variable(name: &[u8], what: &ProgramRef) -> bool {
    let prefixes: &[&[u8]] = match what {
        ProgramRef::Script { .. } => &[
            b"HTTP_",
            b"REQUEST_",
            b"SERVER_",
            b"REMOTE_",
            b"CONTENT_",
            b"SSL_PROTOCOL",
            b"SSL_CIPHER",
            b"SSL_CLIENT_",
        ],
        ProgramRef::Command { .. } => return name == b"PHP_FCGI_MAX_REQUESTS",
    };
    let others: [&[u8]; 6] =
        [b"AUTH_TYPE", b"GATEWAY_INTERFACE", b"QUERY_STRING", b"DOCUMENT_ROOT", b"REDIRECT_STATUS", b"HTTPS"];
    others.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Writes the head of the response to the client, whose socket becomes as a program expects it. Tells whether it took all.
fn send_head(client: BorrowedFd<'_>, head: &[u8]) -> Result<bool, Errno> {
    // The socket's buffer is empty, or nearly so, and a head is small.
    let sent =
        if head.is_empty() { 0 } else { rustix::net::send(client, head, NO_SIGNAL | SendFlags::DONTWAIT)? };
    rustix::io::ioctl_fionbio(client, false)?;
    Ok(sent == head.len())
}

/// The kernel says of a script that is there that it is not, if its interpreter is not.
fn missing_interpreter(failed: SpawnError, path: &str) -> Option<String> {
    if failed != (SpawnError { step: Step::Exec, errno: Errno::NOENT.raw_os_error() }) {
        return None;
    }
    let mut start = Vec::new();
    File::open(path).ok()?.take(FIRST_LINE_BYTES_MAX).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    Some(match line.strip_suffix(b"\r") {
        Some(_) => "its first line ends in a carriage return: save it with the line ends of Unix".into(),
        None => format!("its interpreter {} is not there", line.trim_ascii().escape_ascii()),
    })
}

/// What the kernel reads of a script.
const FIRST_LINE_BYTES_MAX: u64 = 256;

fn refusal(failed: SpawnError) -> OpenError {
    match (failed.step, Errno::from_raw_os_error(failed.errno)) {
        (Step::Clone, _) | (_, Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => OpenError::Busy,
        (Step::Exec, Errno::ACCESS | Errno::PERM) => OpenError::Forbidden,
        _ => OpenError::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_whose_interpreter_is_missing_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let absent = SpawnError { step: Step::Exec, errno: Errno::NOENT.raw_os_error() };
        let said = |script: &str, failed| {
            std::fs::write(&path, script).unwrap();
            missing_interpreter(failed, path.to_str().unwrap())
        };
        assert!(said("#!/bin/sh\r\necho\r\n", absent).unwrap().contains("carriage return"));
        let other = said("#! /no/such -x\n", absent);
        assert_eq!(other.as_deref(), Some("its interpreter /no/such -x is not there"));
        assert_eq!(said("echo", absent), None);
        assert_eq!(said("#!/bin/sh\r\n", SpawnError { step: Step::Folder, ..absent }), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(missing_interpreter(absent, path.to_str().unwrap()), None);
    }
}
