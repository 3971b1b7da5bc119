//! seccomp: the system calls that a process keeps. All others fail with EPERM.
//!
//! The lists name what the server, its helpers, the standard library and the C library call. Calls on the path of a
//! cached request have no conditions, because the kernel allows such calls by one look at a bitmap. If a call is
//! harmless only with certain arguments, it has a condition: memory never becomes executable, and only threads can be
//! started. io_uring is not on any list: its operations pass by seccomp.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use libc::c_long;
use seccompiler::SeccompAction::{Allow, Errno};
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BackendError, BpfProgram, SeccompCondition, SeccompFilter, SeccompRule, TargetArch};

use crate::sandbox::Work;

pub(super) type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// What any program does: memory, time, locks, exit.
const EVERYBODY: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    // The name of the machine.
    libc::SYS_uname,
    libc::SYS_gettid,
    libc::SYS_geteuid,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    // Without the flag that reads only what is in memory, it is for helpers.
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_fadvise64,
    crate::linux::cachestat::SYS_CACHESTAT,
    libc::SYS_memfd_create,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
];

/// What the server does: accepted connections, events, threads.
const SERVER: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_writev,
    libc::SYS_sendfile,
    libc::SYS_setsockopt,
    // For programs: where a client connected to, and what it has got.
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_dup3,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
    libc::SYS_pipe2,
    libc::SYS_mincore,
    libc::SYS_sched_getattr,
    libc::SYS_sched_setattr,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_getrusage,
    // Waits for the supervisor process's end.
    libc::SYS_wait4,
    // The file for request bodies, which is open already.
    libc::SYS_pwrite64,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
];

/// What starting a thread takes, beside `clone`.
const THREADS: &[c_long] =
    &[libc::SYS_clone3, libc::SYS_set_robust_list, libc::SYS_rseq, libc::SYS_sched_getaffinity];

/// What a helper does: walks and reads. Landlock decides where.
const HELPER: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    libc::SYS_getcwd,
];

/// What making a file in memory takes that has a name at first. Landlock decides where.
const MAKER: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// What making sockets for others takes, where a client does it.
const LISTENER: &[c_long] = &[
    libc::SYS_listen,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// What a client does that keeps files: it asks for addresses, connects, and replaces files by renaming.
const CLIENT: &[c_long] = &[
    libc::SYS_connect,
    // Which addresses this machine has, the C library asks the kernel through a socket of its own.
    libc::SYS_bind,
    libc::SYS_getpeername,
    libc::SYS_sendmmsg,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    libc::SYS_renameat2,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    libc::SYS_mkdirat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    libc::SYS_fchmod,
    libc::SYS_fsync,
];

/// The type of a socket, without its flags.
const SOCKET_TYPE: u64 = 0xf;

/// What this work takes. `makes` files in memory that have names at first.
pub(super) fn needed(work: Work, makes: bool) -> Result<Rules, BackendError> {
    let (serves, reads, listens) = (work != Work::Read, work != Work::Serve, work == Work::ConnectForOthers);
    let connects = work == Work::Connect || listens;
    let lists = [(true, EVERYBODY), (true, THREADS), (serves, SERVER), (reads, HELPER), (makes, MAKER)];
    let lists = lists.into_iter().chain([(connects, CLIENT), (listens, LISTENER)]);
    let lists = lists.filter_map(|(is_needed, list)| is_needed.then_some(list));
    let mut rules = of(lists)?;
    // Threads can be started, and processes cannot.
    let is_thread = argument(0, MaskedEq(flag(libc::CLONE_THREAD)), flag(libc::CLONE_THREAD))?;
    rules.insert(libc::SYS_clone, vec![is_thread]);
    if serves {
        connected(&mut rules)?;
    }
    if connects {
        let families = [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX, libc::AF_NETLINK];
        let families = families.into_iter().map(|family| argument(0, Eq, flag(family)));
        rules.insert(libc::SYS_socket, families.collect::<Result<_, _>>()?);
        // How much has arrived, which the C library asks before it reads an answer about names.
        rules.entry(libc::SYS_ioctl).or_default().push(argument(1, Eq, i128::from(libc::FIONREAD) as u64)?);
    }
    let shutdown = match work {
        // A listener that is shut down for reading as well could be connected by its first byte (MSG_FASTOPEN), without a connect.
        Work::Serve => vec![argument(1, Eq, flag(libc::SHUT_WR))?],
        Work::Read | Work::Both | Work::Connect | Work::ConnectForOthers => Vec::new(),
    };
    if serves {
        rules.insert(libc::SYS_shutdown, shutdown);
    }
    if work == Work::Both {
        // Askers of other users open files themselves, if their access rules are in memory.
        rules.insert(libc::SYS_fgetxattr, Vec::new());
    }
    Ok(rules)
}

/// What a server may do with sockets and terminals.
fn connected(rules: &mut Rules) -> Result<(), BackendError> {
    // The last one tells whether the terminal is still there.
    let ioctls = [libc::FIONBIO, libc::TIOCOUTQ, libc::TCGETS];
    // Their type is the C library's.
    let ioctls = ioctls.into_iter().map(|request| argument(1, Eq, i128::from(request) as u64));
    rules.insert(libc::SYS_ioctl, ioctls.collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_prctl, vec![argument(0, Eq, flag(libc::PR_SET_NAME))?]);
    // Pairs that are connected to each other and to nobody else. Datagrams could be sent elsewhere.
    let pair = |kind| -> Result<SeccompRule, BackendError> {
        SeccompRule::new(vec![
            SeccompCondition::new(0, Dword, Eq, flag(libc::AF_UNIX))?,
            SeccompCondition::new(1, Dword, MaskedEq(SOCKET_TYPE), flag(kind))?,
        ])
    };
    rules.insert(libc::SYS_socketpair, vec![pair(libc::SOCK_STREAM)?, pair(libc::SOCK_SEQPACKET)?]);
    Ok(())
}

fn of<'l>(lists: impl Iterator<Item = &'l [c_long]>) -> Result<Rules, BackendError> {
    let mut rules: Rules = lists.flatten().map(|call| (*call, Vec::new())).collect();
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![argument(2, MaskedEq(flag(libc::PROT_EXEC)), 0)?]);
    }
    Ok(rules)
}

fn argument(number: u8, is: seccompiler::SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(number, Dword, is, value)?])
}

/// Flags and small constants are never negative.
const fn flag(value: libc::c_int) -> u64 {
    value.unsigned_abs() as u64
}

pub(super) fn forbid_but(allowed: Result<Rules, BackendError>) -> Result<(), String> {
    let programs = || -> Result<[BpfProgram; 2], BackendError> {
        let machine = TargetArch::try_from(ARCH)?;
        let keep = SeccompFilter::new(allowed?, Errno(libc::EPERM as u32), Allow, machine)?;
        // Its flags lie in memory that no filter can read. Where it seems not to exist, clone is used, whose flags can
        // be read. This filter comes first, because the other one leaves no way to add another.
        let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
        let hide = SeccompFilter::new(clone3, Allow, Errno(libc::ENOSYS as u32), machine)?;
        Ok([hide.try_into()?, keep.try_into()?])
    };
    for program in programs().map_err(|error| format!("seccomp fails: {error}"))? {
        seccompiler::apply_filter(&program).map_err(|error| format!("seccomp fails: {error}"))?;
    }
    Ok(())
}
