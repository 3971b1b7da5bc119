//! Spawning: a program begins as a child of this process, with nothing of it but three descriptors.
//!
//! Two ways that differ in price alone. [`Birth::Vfork`] lends the child this process's memory until it is the program
//! (`posix_spawn`'s way), so that no page table is copied and the price is the same however much memory there is;
//! [`Birth::Fork`] copies everything, for comparison. Which program, and who waits for it, is decided elsewhere.

mod child;

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use self::child::{Child, Trouble};

/// What is to run, and as what.
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

/// A limit of the kernel's, for the program and whatever it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub what: Limited,
    pub soft: u64,
    pub hard: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Of memory, all that is mapped.
    MemoryBytes,
    /// Of processor time. The soft limit is a signal that can be caught, the hard one is not.
    CpuSeconds,
    Descriptors,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    Vfork,
    Fork,
}

/// A child that is the program now, and the first of a process group of its own.
#[derive(Debug)]
pub struct Spawned {
    pub pid: i32,
    /// Readable when the child has ended. It is this process that has to wait for it.
    pub pidfd: OwnedFd,
}

/// Why there is no such child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    pub step: Step,
    pub errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A process more.
    Clone,
    /// A process group, and signals.
    Group,
    Descriptors,
    Limits,
    Folder,
    /// To become the program.
    Exec,
}

/// What spawning needs each time, made once. For one thread.
pub struct Spawner {
    birth: Birth,
    stack: Box<[MaybeUninit<u8>]>,
    /// Those that are not left to their default: a program would inherit that some are ignored.
    signals: Vec<libc::c_int>,
}

/// The child calls the kernel and little else.
const STACK_BYTES: usize = 64 << 10;
const SIGNAL_MAX: libc::c_int = 64;

impl Spawner {
    /// Looks which signals are handled or ignored now. What is decided about signals later, programs may inherit.
    pub fn new(birth: Birth) -> Self {
        let signals = (1..=SIGNAL_MAX).filter(|&signal| {
            // SAFETY: `sigaction` is plain numbers, for which all zeroes is a value.
            let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: only asks, and `now` is ours.
            unsafe {
                libc::sigaction(signal, ptr::null(), &mut now) == 0 && now.sa_sigaction != libc::SIG_DFL
            }
        });
        Self { birth, stack: Box::new_uninit_slice(STACK_BYTES), signals: signals.collect() }
    }

    /// Returns when the program runs, or cannot.
    ///
    /// # Errors
    /// The first step that the kernel refused. Nothing is left of the child then.
    pub fn spawn(&mut self, program: &Program<'_>) -> Result<Spawned, Failed> {
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
        };
        // From here to the child's first own step no signal may run a handler of ours in it.
        let before = mask_all();
        let spawned = match self.birth {
            Birth::Vfork => vfork(&child, &mut self.stack),
            Birth::Fork => fork(&child),
        };
        unmask(&before);
        spawned
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("birth", &self.birth).finish_non_exhaustive()
    }
}

/// Holds all signals back from this thread, and those that it starts from now on. SIGKILL cannot be held back.
pub fn hold_signals() {
    mask_all();
}

fn pointers(each: impl Iterator<Item = *const libc::c_char>) -> Vec<*const libc::c_char> {
    each.chain([ptr::null()]).collect()
}

fn vfork(child: &Child<'_>, stack: &mut [MaybeUninit<u8>]) -> Result<Spawned, Failed> {
    let mut pidfd: libc::c_int = -1;
    let mut life = child::Life { child, trouble: None };
    let top = stack.as_mut_ptr_range().end;
    let top = top.wrapping_sub(top.addr() % 16);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: the child runs on a stack that nobody else uses, writes nothing but that stack, `life` and its thread's
    // errno, and never returns or unwinds: all it calls is in `child::live`. With CLONE_VFORK this thread sleeps until
    // the child has another memory or is gone, so that what `child` points at outlives its use. The kernel writes a
    // descriptor where `pidfd` is.
    let pid = unsafe { libc::clone(child::enter, top.cast(), flags, (&raw mut life).cast(), &raw mut pidfd) };
    if pid == -1 {
        return Err(Failed::now(Step::Clone));
    }
    // SAFETY: the kernel has just made it, for us.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    // SAFETY: `life` is alive; the child wrote it behind the compiler's back.
    match unsafe { ptr::read_volatile(&raw const life.trouble) } {
        None => Ok(Spawned { pid, pidfd }),
        Some(trouble) => {
            bury(pid);
            Err(trouble.into())
        }
    }
}

fn fork(child: &Child<'_>) -> Result<Spawned, Failed> {
    let mut pipe = [0; 2];
    // SAFETY: the kernel writes two descriptors into an array of two.
    if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) } == -1 {
        return Err(Failed::now(Step::Clone));
    }
    // SAFETY: the kernel has just made them, for us.
    let [read, write] = pipe.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) });
    // SAFETY: the child may have been forked while other threads held locks; it calls what is safe in a signal handler
    // and nothing else (see `child::live`), and never returns.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(Failed::now(Step::Clone)),
        // SAFETY: this is the child, and its memory its own.
        0 => unsafe { child::live_apart(child, write.as_raw_fd()) },
        pid => pid,
    };
    drop(write);
    let mut word = [0; Trouble::BYTES];
    // The pipe closes when the child is the program.
    // SAFETY: the kernel writes at most as many bytes as `word` has.
    let count = unsafe { libc::read(read.as_raw_fd(), word.as_mut_ptr().cast(), word.len()) };
    if count == word.len() as isize {
        bury(pid);
        return Err(Trouble::of_bytes(word).into());
    }
    // SAFETY: numbers only. The child is not waited for by anybody else, so that the number is still its own.
    match unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } {
        -1 => {
            let failed = Failed::now(Step::Clone);
            // SAFETY: numbers only.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            bury(pid);
            Err(failed)
        }
        // SAFETY: the kernel has just made it, for us.
        pidfd => Ok(Spawned { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd as libc::c_int) } }),
    }
}

/// Waits for a child that is about to end.
fn bury(pid: libc::pid_t) {
    // SAFETY: asks for no status, so that no memory is involved.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } == -1
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

fn mask_all() -> libc::sigset_t {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both are filled before they are read: `all` by sigfillset, `before` by a call that cannot fail with
    // SIG_SETMASK and pointers that are valid.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn unmask(before: &libc::sigset_t) {
    // SAFETY: `before` is a set of signals, and nothing is asked back.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
}

impl Failed {
    fn now(step: Step) -> Self {
        Self { step, errno: io::Error::last_os_error().raw_os_error().unwrap_or_default() }
    }
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Self {
        Self { step: trouble.step, errno: trouble.errno }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        match self.step {
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
