//! Spawning: starts a program as a child of this process. The child inherits only three descriptors.
//!
//! Two methods differ only in cost. [`SpawnMethod::Vfork`] lends the child this process's memory until it executes the program,
//! as `posix_spawn` does. So the kernel copies no page table, and the cost does not depend on the memory in use.
//! [`SpawnMethod::Fork`] copies the page tables, for comparison. The caller decides which program runs, and waits for it.

mod child;
mod step;

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use crate::socket_kind::Waits;
use crate::{pidfd, signals, system};

use self::child::{Child, ChildError};
pub use self::step::{Limit, Resource, Step};

/// The program to run, and its attributes.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// An absolute path.
    pub path: &'a CStr,
    /// The first is what the program is told as its own name.
    pub arguments: &'a [&'a CStr],
    /// `NAME=value`, a NUL, and so on. Whatever follows the last NUL is left out.
    pub environment: &'a [u8],
    /// The folder that it begins in.
    pub folder: Option<&'a CStr>,
    /// Standard input, output and error. None of them is below 3.
    pub stdio: [BorrowedFd<'a>; 3],
    pub limits: &'a [Limit],
    /// How much nicer than this process it is when processors are short: 0 to 19.
    pub nice: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnMethod {
    Vfork,
    Fork,
}

/// A child that is the program now, and the first of a process group of its own.
#[derive(Debug)]
pub struct Spawned {
    pub pid: i32,
    /// Readable when the child has ended, if there are [such descriptors](pidfd). Otherwise SIGCHLD tells. It is this process that has
    /// to wait for it.
    pub pidfd: Option<OwnedFd>,
}

/// Why there is no such child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnError {
    pub step: Step,
    pub errno: i32,
}

/// What spawning needs each time, made once. For one thread.
pub struct Spawner {
    method: SpawnMethod,
    stack: Box<[MaybeUninit<u8>]>,
    /// Those that are not left to their default: a program would inherit that some are ignored.
    signals: Vec<libc::c_int>,
}

/// The child calls the kernel and little else.
const STACK_BYTES: usize = 64 << 10;
const SIGNAL_MAX: libc::c_int = 64;

impl Spawner {
    /// Looks which signals are handled or ignored now. What is decided about signals later, programs may inherit.
    pub fn new(method: SpawnMethod) -> Self {
        let signals = (1..=SIGNAL_MAX).filter(|&signal| {
            // SAFETY: `sigaction` is plain numbers, for which all zeroes is a value.
            let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: only asks, and `now` is ours.
            unsafe {
                libc::sigaction(signal, ptr::null(), &mut now) == 0 && now.sa_sigaction != libc::SIG_DFL
            }
        });
        Self { method, stack: Box::new_uninit_slice(STACK_BYTES), signals: signals.collect() }
    }

    /// Returns when the program runs, or cannot.
    ///
    /// # Errors
    /// The first step that the kernel refused. Nothing is left of the child then.
    pub fn spawn(&mut self, program: &Program<'_>) -> Result<Spawned, SpawnError> {
        let arguments = pointers(program.arguments.iter().map(|argument| argument.as_ptr()));
        let ends = program.environment.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at);
        let mut start = 0;
        let environment = pointers(ends.map(|end| {
            let variable = &program.environment[start..];
            start = end + 1;
            variable.as_ptr().cast()
        }));
        let child = Child {
            path: program.path.as_ptr(),
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            folder: program.folder.map_or(ptr::null(), CStr::as_ptr),
            stdio: program.stdio.map(|descriptor| descriptor.as_raw_fd()),
            limits: program.limits,
            nice: program.nice,
            signals: &self.signals,
            ends_with_parent: (!pidfd::are_there()).then(|| rustix::process::getpid().as_raw_pid()),
        };
        // From here to the child's first own step no signal may run a handler of ours in it.
        let before = signals::block();
        let spawned = match self.method {
            SpawnMethod::Vfork => match vfork(&child, &mut self.stack) {
                Err(SpawnError { step: Step::Clone, errno: libc::ENOSYS }) => fork(&child),
                spawned => spawned,
            },
            SpawnMethod::Fork => fork(&child),
        };
        signals::restore(&before);
        spawned
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("method", &self.method).finish_non_exhaustive()
    }
}

fn pointers(each: impl Iterator<Item = *const libc::c_char>) -> Vec<*const libc::c_char> {
    each.chain([ptr::null()]).collect()
}

fn vfork(child: &Child<'_>, stack: &mut [MaybeUninit<u8>]) -> Result<Spawned, SpawnError> {
    let mut shared = child::VforkChild { child, error: None };
    let argument = (&raw mut shared).cast();
    // SAFETY: the child never returns or unwinds, and writes `shared`: all it calls is in `child::exec`. `spawn` holds back signals.
    let started = unsafe { system::vfork::vfork(child::vfork_main, argument, stack, pidfd::are_there()) };
    let (pid, pidfd) = started.map_err(|error| SpawnError::of(Step::Clone, &error))?;
    // SAFETY: `shared` is alive; the child wrote it behind the compiler's back.
    match unsafe { ptr::read_volatile(&raw const shared.error) } {
        None => Ok(Spawned { pid, pidfd }),
        Some(error) => {
            reap(pid);
            Err(error.into())
        }
    }
}

fn fork(child: &Child<'_>) -> Result<Spawned, SpawnError> {
    let pipe = system::socket::pipe(Waits::Yes);
    let (read, write) = pipe.map_err(|error| SpawnError::of(Step::Clone, &error.into()))?;
    // SAFETY: the child may have been forked while other threads held locks; it calls what is safe in a signal handler
    // and nothing else (see `child::exec`), and never returns.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(SpawnError::now(Step::Clone)),
        // SAFETY: this is the child, and its memory its own.
        0 => unsafe { child::exec_and_report(child, write.as_raw_fd()) },
        pid => pid,
    };
    drop(write);
    let mut word = [0; ChildError::BYTES];
    // The pipe closes when the child is the program.
    // SAFETY: the kernel writes at most as many bytes as `word` has.
    let count = unsafe { libc::read(read.as_raw_fd(), word.as_mut_ptr().cast(), word.len()) };
    if count == word.len() as isize {
        reap(pid);
        return Err(ChildError::of_bytes(word).into());
    }
    pidfd::of_child(pid).map(|pidfd| Spawned { pid, pidfd }).map_err(|error| {
        // SAFETY: numbers only. Nobody has waited for the child.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        reap(pid);
        SpawnError::of(Step::Clone, &error)
    })
}

/// Waits for a child that is about to end.
fn reap(pid: libc::pid_t) {
    // SAFETY: asks for no status, so that no memory is involved.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } == -1
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

impl SpawnError {
    fn now(step: Step) -> Self {
        Self::of(step, &io::Error::last_os_error())
    }

    fn of(step: Step, error: &io::Error) -> Self {
        Self { step, errno: error.raw_os_error().unwrap_or_default() }
    }
}

impl From<ChildError> for SpawnError {
    fn from(error: ChildError) -> Self {
        Self { step: error.step, errno: error.errno }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        match self.step {
            Step::Clone if self.errno == libc::EAGAIN => {
                f.write_str("no process for it: there are as many as its user, container or service may have (ulimit -u, pids.max)")
            }
            Step::Clone => write!(f, "no process for it: {error}"),
            Step::Group => write!(f, "no process group for it: {error}"),
            Step::Descriptors => write!(f, "its descriptors: {error}"),
            Step::Limits => write!(f, "its limits: {error}"),
            Step::Folder => write!(f, "its folder: {error}"),
            Step::Exec => write!(f, "it cannot be run: {error}"),
        }
    }
}

#[cfg(test)]
mod tests;
