//! A child between its method and its program: system calls, and nothing that allocates, locks or unwinds.
//!
//! It may live in its parent's memory, or in a copy in which other threads' locks will never be released. Both allow
//! what a signal handler may do, and no more.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::{descriptor_range, system};

use super::step::{Limit, Resource, Step};

/// What the child will be, in the kernel's terms. All pointers are to memory that outlives the child's use of it.
pub(super) struct Child<'a> {
    pub(super) path: *const c_char,
    /// Both lists end with a null.
    pub(super) arguments: *const *const c_char,
    pub(super) environment: *const *const c_char,
    /// Null: where its parent is.
    pub(super) folder: *const c_char,
    pub(super) stdio: [c_int; 3],
    pub(super) limits: &'a [Limit],
    pub(super) nice: c_int,
    pub(super) signals: &'a [c_int],
    /// It cannot be handed on, and would be nobody's.
    pub(super) ends_with_parent: Option<libc::pid_t>,
}

/// What a child in its parent's memory knows, and tells.
pub(super) struct VforkChild<'a, 'b> {
    pub(super) child: &'b Child<'a>,
    pub(super) error: Option<ChildError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChildError {
    pub(super) step: Step,
    pub(super) errno: i32,
}

/// Where a child that shares its parent's memory begins.
pub(super) extern "C" fn vfork_main(shared: *mut c_void) -> c_int {
    // SAFETY: `spawn::vfork` passes a `VforkChild` that it does not touch before this child is gone.
    let shared = unsafe { &mut *shared.cast::<VforkChild<'_, '_>>() };
    // SAFETY: this is the child, and the pointers are `spawn::Spawner::spawn`'s.
    let error = unsafe { exec(shared.child) };
    // SAFETY: it is the child's to write.
    unsafe { ptr::write_volatile(&raw mut shared.error, Some(error)) };
    // SAFETY: ends the child, running nothing of its parent's.
    unsafe { libc::_exit(127) }
}

/// The shared of a child with a memory of its own: what troubles it, it writes into a pipe.
///
/// # Safety
/// As for [`exec`].
pub(super) unsafe fn exec_and_report(child: &Child<'_>, tell: c_int) -> ! {
    // SAFETY: as the caller says.
    let error = unsafe { exec(child) };
    let bytes = error.to_bytes();
    // SAFETY: `bytes` is as long as it says. There is nobody to tell if this fails.
    unsafe { libc::write(tell, bytes.as_ptr().cast(), bytes.len()) };
    // SAFETY: ends the child, running nothing of its parent's.
    unsafe { libc::_exit(127) }
}

/// Becomes the program, or says why not.
///
/// # Safety
/// In a child alone, whose signals are all held back; the pointers in `child` are valid.
unsafe fn exec(child: &Child<'_>) -> ChildError {
    let refused =
        |step| ChildError { step, errno: std::io::Error::last_os_error().raw_os_error().unwrap_or(0) };
    // SAFETY: system calls on numbers, on C strings and lists that the caller vouches for, and on sets of signals that are
    // plain numbers. Handlers go before signals are let in, so that none of them ever runs here.
    unsafe {
        if libc::setpgid(0, 0) == -1 {
            return refused(Step::Group);
        }
        for (to, &from) in (0..).zip(&child.stdio) {
            // One that is at its place already would not lose its close-on-exec.
            if from < 3 || libc::dup2(from, to) == -1 {
                return refused(Step::Descriptors);
            }
        }
        // All others close on exec as they are opened; this holds for those that nobody thought of. The pipe that
        // `exec_and_report` writes into has to stay until then.
        descriptor_range::close_on_exec(3);
        for limit in child.limits {
            let resource = match limit.resource {
                Resource::MemoryBytes => libc::RLIMIT_AS,
                Resource::CpuSeconds => libc::RLIMIT_CPU,
                Resource::Descriptors => libc::RLIMIT_NOFILE,
            };
            let limit = libc::rlimit { rlim_cur: limit.soft as _, rlim_max: limit.hard as _ };
            if libc::setrlimit(resource, &limit) == -1 {
                return refused(Step::Limits);
            }
        }
        if child.nice != 0 {
            // Who asks for less always gets it.
            libc::nice(child.nice);
        }
        if !child.folder.is_null() && libc::chdir(child.folder) == -1 {
            return refused(Step::Folder);
        }
        if let Some(parent) = child.ends_with_parent {
            system::process::end_with_parent();
            // It may have ended before.
            if libc::getppid() != parent {
                libc::_exit(127);
            }
        }
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        for &signal in child.signals {
            libc::sigaction(signal, &default, ptr::null_mut());
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        if libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()) == -1 {
            return refused(Step::Group);
        }
        libc::execve(child.path, child.arguments, child.environment);
        refused(Step::Exec)
    }
}

impl ChildError {
    pub(super) const BYTES: usize = 5;
    const STEPS: [Step; 6] =
        [Step::Clone, Step::Group, Step::Descriptors, Step::Limits, Step::Folder, Step::Exec];

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.errno.to_ne_bytes();
        [self.step as u8, a, b, c, d]
    }

    pub(super) fn of_bytes([step, errno @ ..]: [u8; Self::BYTES]) -> Self {
        let step = Self::STEPS.get(usize::from(step)).copied().unwrap_or(Step::Clone);
        Self { step, errno: i32::from_ne_bytes(errno) }
    }
}
