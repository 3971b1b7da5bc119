//! System calls in words: what of their arguments is worth reading, and which is a path or a descriptor.
//!
//! A call that is not here is shown by its number, without arguments. Numbers are the processor family's own.

/// One system call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number on this processor family.
    pub number: i64,
    /// As in its manual page.
    pub name: &'static str,
    /// Its arguments in words: `$N` is a text, `#N` a number, `%N` flags. Arguments are counted from 1.
    words: &'static str,
    /// Which argument is the path, or 0.
    pub path: u8,
    /// Which argument is the folder below which a relative path is looked for, or 0 for the current one.
    pub folder: u8,
    /// Which argument is the descriptor of the file that the call is about, or 0.
    pub descriptor: u8,
    /// Whether a loop may sleep in it.
    pub events: Events,
}

/// Whether a call waits for events, and how the loop's connections are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// It does not wait for events.
    No,
    /// It does.
    Wait,
    /// It does, if its second argument is above 1. Who waits for one descriptor waits for an answer.
    Poll,
    /// It does, and its first argument is an epoll descriptor.
    Epoll,
    /// It does, and its first argument is a ring.
    Ring,
}

const fn call(number: i64, name: &'static str, words: &'static str) -> Call {
    Call { number, name, words, path: 0, folder: 0, descriptor: 0, events: Events::No }
}

/// A call about a path, below the folder of an argument or 0.
const fn path(number: i64, name: &'static str, words: &'static str, folder: u8, path: u8) -> Call {
    Call { path, folder, ..call(number, name, words) }
}

/// A call about an open file.
const fn file(number: i64, name: &'static str, words: &'static str, descriptor: u8) -> Call {
    Call { descriptor, ..call(number, name, words) }
}

const fn wait(number: i64, name: &'static str, words: &'static str, events: Events) -> Call {
    Call { events, ..call(number, name, words) }
}

/// Calls of every processor family.
const COMMON: [Call; 80] = [
    path(libc::SYS_openat, "openat", "$2", 1, 2),
    path(libc::SYS_openat2, "openat2", "$2", 1, 2),
    path(libc::SYS_newfstatat, "newfstatat", "$2", 1, 2),
    path(libc::SYS_statx, "statx", "$2", 1, 2),
    path(libc::SYS_faccessat, "faccessat", "$2", 1, 2),
    path(libc::SYS_faccessat2, "faccessat2", "$2", 1, 2),
    path(libc::SYS_readlinkat, "readlinkat", "$2", 1, 2),
    path(libc::SYS_unlinkat, "unlinkat", "$2", 1, 2),
    path(libc::SYS_mkdirat, "mkdirat", "$2", 1, 2),
    path(libc::SYS_renameat2, "renameat2", "$2 → $4", 1, 2),
    path(libc::SYS_linkat, "linkat", "$2 → $4", 1, 2),
    path(libc::SYS_symlinkat, "symlinkat", "$3", 2, 3),
    path(libc::SYS_fchmodat, "fchmodat", "$2", 1, 2),
    path(libc::SYS_fchownat, "fchownat", "$2", 1, 2),
    path(libc::SYS_utimensat, "utimensat", "$2", 1, 2),
    path(libc::SYS_name_to_handle_at, "name_to_handle_at", "$2", 1, 2),
    path(libc::SYS_chdir, "chdir", "$1", 0, 1),
    path(libc::SYS_statfs, "statfs", "$1", 0, 1),
    path(libc::SYS_truncate, "truncate", "$1, #2", 0, 1),
    path(libc::SYS_execve, "execve", "$1", 0, 1),
    path(libc::SYS_getxattr, "getxattr", "$1", 0, 1),
    path(libc::SYS_lgetxattr, "lgetxattr", "$1", 0, 1),
    path(libc::SYS_setxattr, "setxattr", "$1", 0, 1),
    path(libc::SYS_mknodat, "mknodat", "$2", 1, 2),
    path(libc::SYS_inotify_add_watch, "inotify_add_watch", "#1, $2", 0, 2),
    file(libc::SYS_read, "read", "#1, #3", 1),
    file(libc::SYS_pread64, "pread64", "#1, #3 at #4", 1),
    file(libc::SYS_readv, "readv", "#1", 1),
    file(libc::SYS_preadv, "preadv", "#1 at #4", 1),
    file(libc::SYS_preadv2, "preadv2", "#1 at #4, flags %6", 1),
    file(libc::SYS_write, "write", "#1, #3", 1),
    file(libc::SYS_pwrite64, "pwrite64", "#1, #3 at #4", 1),
    file(libc::SYS_writev, "writev", "#1", 1),
    file(libc::SYS_pwritev, "pwritev", "#1 at #4", 1),
    file(libc::SYS_pwritev2, "pwritev2", "#1 at #4, flags %6", 1),
    file(libc::SYS_sendfile, "sendfile", "#2 → #1, #4", 2),
    file(libc::SYS_splice, "splice", "#1 → #3, #5", 1),
    file(libc::SYS_tee, "tee", "#1 → #2, #3", 1),
    file(libc::SYS_vmsplice, "vmsplice", "#1", 1),
    file(libc::SYS_copy_file_range, "copy_file_range", "#1 → #3, #5", 1),
    file(libc::SYS_close, "close", "#1", 1),
    file(libc::SYS_fstat, "fstat", "#1", 1),
    file(libc::SYS_fsync, "fsync", "#1", 1),
    file(libc::SYS_fdatasync, "fdatasync", "#1", 1),
    file(libc::SYS_syncfs, "syncfs", "#1", 1),
    file(libc::SYS_fchmod, "fchmod", "#1", 1),
    file(libc::SYS_fchown, "fchown", "#1", 1),
    file(libc::SYS_fgetxattr, "fgetxattr", "#1", 1),
    file(libc::SYS_fsetxattr, "fsetxattr", "#1", 1),
    file(libc::SYS_sync_file_range, "sync_file_range", "#1", 1),
    file(libc::SYS_ftruncate, "ftruncate", "#1, #2", 1),
    file(libc::SYS_fallocate, "fallocate", "#1, #4 at #3", 1),
    file(libc::SYS_getdents64, "getdents64", "#1", 1),
    file(libc::SYS_readahead, "readahead", "#1, #3 at #2", 1),
    file(libc::SYS_fadvise64, "fadvise64", "#1", 1),
    file(libc::SYS_flock, "flock", "#1", 1),
    file(libc::SYS_fcntl, "fcntl", "#1, #2", 1),
    file(libc::SYS_ioctl, "ioctl", "#1, %2", 1),
    file(libc::SYS_lseek, "lseek", "#1, #2", 1),
    file(libc::SYS_mmap, "mmap", "#5, #2 at #6", 5),
    file(libc::SYS_accept4, "accept4", "#1", 1),
    file(libc::SYS_accept, "accept", "#1", 1),
    file(libc::SYS_connect, "connect", "#1", 1),
    file(libc::SYS_recvfrom, "recvfrom", "#1, #3", 1),
    file(libc::SYS_recvmsg, "recvmsg", "#1", 1),
    file(libc::SYS_sendto, "sendto", "#1, #3", 1),
    file(libc::SYS_sendmsg, "sendmsg", "#1", 1),
    file(libc::SYS_epoll_ctl, "epoll_ctl", "#1, #3", 3),
    call(libc::SYS_futex, "futex", "%1, operation #2"),
    call(libc::SYS_munmap, "munmap", "%1, #2"),
    call(libc::SYS_madvise, "madvise", "%1, #2"),
    call(libc::SYS_msync, "msync", "%1, #2"),
    call(libc::SYS_mlock, "mlock", "%1, #2"),
    call(libc::SYS_io_submit, "io_submit", "%1, #2"),
    call(libc::SYS_io_getevents, "io_getevents", "%1, at least #2"),
    file(libc::SYS_shutdown, "shutdown", "#1", 1),
    wait(libc::SYS_epoll_pwait, "epoll_pwait", "#1", Events::Epoll),
    wait(libc::SYS_ppoll, "ppoll", "#2 descriptors", Events::Poll),
    wait(libc::SYS_pselect6, "pselect6", "#1 descriptors", Events::Wait),
    wait(libc::SYS_io_uring_enter, "io_uring_enter", "#1, submits #2, waits for #3", Events::Ring),
];

/// Calls that need no word about their arguments.
const PLAIN: [(i64, &str); 20] = [
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "waitid"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_clone3, "clone3"),
    (libc::SYS_exit, "exit"),
    (libc::SYS_exit_group, "exit_group"),
    (libc::SYS_sched_yield, "sched_yield"),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
    (libc::SYS_rt_sigsuspend, "rt_sigsuspend"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_brk, "brk"),
    (libc::SYS_mremap, "mremap"),
    (libc::SYS_semtimedop, "semtimedop"),
    (libc::SYS_semop, "semop"),
    (libc::SYS_sync, "sync"),
    (libc::SYS_kill, "kill"),
    (libc::SYS_getrandom, "getrandom"),
    (libc::SYS_membarrier, "membarrier"),
];

/// Calls that younger processor families never had.
#[cfg(target_arch = "x86_64")]
const OLD: [Call; 20] = [
    path(libc::SYS_open, "open", "$1", 0, 1),
    path(libc::SYS_stat, "stat", "$1", 0, 1),
    path(libc::SYS_lstat, "lstat", "$1", 0, 1),
    path(libc::SYS_access, "access", "$1", 0, 1),
    path(libc::SYS_readlink, "readlink", "$1", 0, 1),
    path(libc::SYS_rename, "rename", "$1 → $2", 0, 1),
    path(libc::SYS_unlink, "unlink", "$1", 0, 1),
    path(libc::SYS_mkdir, "mkdir", "$1", 0, 1),
    path(libc::SYS_rmdir, "rmdir", "$1", 0, 1),
    path(libc::SYS_link, "link", "$1 → $2", 0, 1),
    path(libc::SYS_creat, "creat", "$1", 0, 1),
    path(libc::SYS_renameat, "renameat", "$2 → $4", 1, 2),
    path(libc::SYS_symlink, "symlink", "$2", 0, 2),
    path(libc::SYS_chmod, "chmod", "$1", 0, 1),
    path(libc::SYS_chown, "chown", "$1", 0, 1),
    call(libc::SYS_pause, "pause", ""),
    file(libc::SYS_getdents, "getdents", "#1", 1),
    wait(libc::SYS_epoll_wait, "epoll_wait", "#1", Events::Epoll),
    wait(libc::SYS_poll, "poll", "#2 descriptors", Events::Poll),
    wait(libc::SYS_select, "select", "#1 descriptors", Events::Wait),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: [Call; 0] = [];

/// Newer than the numbers' library has them for every family, but the same on all.
const EPOLL_PWAIT2: i64 = 441;

/// All calls that reports know.
pub const CALLS: [Call; COMMON.len() + PLAIN.len() + OLD.len() + 1] = {
    let mut calls =
        [wait(EPOLL_PWAIT2, "epoll_pwait2", "#1", Events::Epoll); COMMON.len() + PLAIN.len() + OLD.len() + 1];
    let mut at = 0;
    while at < COMMON.len() {
        calls[at] = COMMON[at];
        at += 1;
    }
    let mut plain = 0;
    while plain < PLAIN.len() {
        calls[at] = call(PLAIN[plain].0, PLAIN[plain].1, "");
        at += 1;
        plain += 1;
    }
    let mut old = 0;
    while old < OLD.len() {
        calls[at] = OLD[old];
        at += 1;
        old += 1;
    }
    calls
};

static ALL: [Call; CALLS.len()] = CALLS;

impl Call {
    /// The call with this number, if reports know it.
    pub fn of(number: i64) -> Option<&'static Call> {
        ALL.iter().find(|call| call.number == number)
    }

    /// The call that a kernel function performs, if it is its entry: `__x64_sys_openat`.
    pub fn of_function(function: &str) -> Option<&'static Call> {
        let name = flash_sleep::entered_call(function)?;
        ALL.iter().find(|call| call.name == name)
    }

    /// Its arguments in words, with the text that its path argument points to: `"/srv/a/b.html"`, `12 → 7, 65536`.
    pub fn words(&self, args: &[u64; 6], text: Option<&str>) -> String {
        let mut words = String::new();
        let mut rest = self.words.chars();
        while let Some(c) = rest.next() {
            if !matches!(c, '$' | '#' | '%') {
                words.push(c);
                continue;
            }
            let number = rest.next().and_then(|digit| digit.to_digit(10)).unwrap_or(1) as usize;
            let value = args[(number - 1) % 6];
            match c {
                '$' if number == usize::from(self.path) => match text {
                    Some(text) => words.push_str(&format!("{text:?}")),
                    None => words.push('?'),
                },
                '$' => words.push('…'),
                // Descriptors are of 32 bits; what lies above is left over in the register.
                '#' if number == usize::from(self.descriptor) => words.push_str(&(value as i32).to_string()),
                '#' => words.push_str(&(value as i64).to_string()),
                _ => words.push_str(&format!("{value:#x}")),
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_words() {
        let words = |name: &str, args, text| {
            CALLS.iter().find(|call| call.name == name).expect("it is known").words(&args, text)
        };
        assert_eq!(words("openat", [0; 6], Some("/srv/a/b.html")), "\"/srv/a/b.html\"");
        assert_eq!(words("sendfile", [7, 12, 0, 65536, 0, 0], None), "12 → 7, 65536");
        assert_eq!(words("read", [0xffff_ffff, 1, 4096, 0, 0, 0], None), "-1, 4096");
        assert_eq!(words("renameat2", [0; 6], Some("a")), "\"a\" → …");
    }

    #[test]
    fn each_number_is_one_call() {
        for (at, call) in CALLS.iter().enumerate() {
            assert_eq!(Call::of(call.number).map(|found| found.name), Some(call.name));
            assert!(CALLS[..at].iter().all(|other| other.number != call.number), "{}", call.name);
            assert!(call.number < 1024, "the kernel's table has so many: {}", call.name);
        }
        assert!(CALLS.iter().any(|call| call.events == Events::Ring));
    }

    #[test]
    fn calls_by_their_entries_in_the_kernel() {
        let name = |function| Call::of_function(function).map(|call| call.name);
        assert_eq!(name("__x64_sys_openat"), Some("openat"));
        assert_eq!(name("__arm64_sys_sendfile64"), Some("sendfile"));
        assert_eq!(name("__do_sys_newfstat"), Some("fstat"));
        assert_eq!((name("ksys_read"), name("kernel_wait4")), (Some("read"), Some("wait4")));
        assert_eq!(name("do_preadv"), Some("preadv2"));
        assert_eq!((name("do_sys_openat2"), name("__x64_sys_no_such")), (None, None));
    }
}
