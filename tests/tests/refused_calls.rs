//! Kernels and containers that refuse system calls: the same bytes come back, whichever call is missing, and nothing stays behind.

#![forbid(unsafe_code)]

use std::any::Any;
use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::ffi::{c_int, c_long};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, PROCESSES, Server, read_all, scripts, site};
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};
use tempfile::TempDir;

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// What fails with which error.
type Refused = Vec<(Rules, c_int)>;

/// Each may be missing without any other.
const CALLS: [(&str, &[c_long]); 22] = [
    ("openat2", &[libc::SYS_openat2]),
    ("statx", &[libc::SYS_statx]),
    ("memfd_create", &[libc::SYS_memfd_create]),
    ("close_range", &[libc::SYS_close_range]),
    ("preadv2", &[libc::SYS_preadv2]),
    ("cachestat", &[flash_os::cachestat::SYS_CACHESTAT]),
    ("mincore", &[libc::SYS_mincore]),
    ("cachestat and mincore", &[flash_os::cachestat::SYS_CACHESTAT, libc::SYS_mincore]),
    ("fadvise64", &[libc::SYS_fadvise64]),
    ("pidfd_open", &[libc::SYS_pidfd_open]),
    ("epoll_create1", &[libc::SYS_epoll_create1]),
    ("eventfd2", &[libc::SYS_eventfd2]),
    ("signalfd4", &[libc::SYS_signalfd4]),
    ("accept4", &[libc::SYS_accept4]),
    ("perf_event_open", &[libc::SYS_perf_event_open]),
    ("io_uring_setup", &[libc::SYS_io_uring_setup]),
    ("sendfile", &[libc::SYS_sendfile]),
    ("readahead and copy_file_range", &[libc::SYS_readahead, libc::SYS_copy_file_range]),
    ("renameat2", &[libc::SYS_renameat2]),
    ("inotify_init1", &[libc::SYS_inotify_init1]),
    ("sched_setattr", &[libc::SYS_sched_setattr, libc::SYS_sched_getattr]),
    ("sched_setaffinity", &[libc::SYS_sched_setaffinity, libc::SYS_sched_getaffinity]),
];

/// A flag of a call, and what older kernels and some filesystems say to it.
struct Flag {
    name: &'static str,
    call: c_long,
    argument: u8,
    is: SeccompCmpOp,
    errors: [c_int; 2],
}

fn refused_flags() -> [Flag; 3] {
    let has = |flag: c_long| MaskedEq(flag.unsigned_abs());
    let (cloexec, now) = (libc::CLOSE_RANGE_CLOEXEC.into(), libc::RWF_NOWAIT.into());
    let [einval, eperm, eopnotsupp] = [libc::EINVAL, libc::EPERM, libc::EOPNOTSUPP];
    let flag = |name, call, argument, is, errors| Flag { name, call, argument, is, errors };
    [
        flag("CLOSE_RANGE_CLOEXEC", libc::SYS_close_range, 2, has(cloexec), [einval, eperm]),
        flag("RWF_NOWAIT", libc::SYS_preadv2, 5, has(now), [einval, eopnotsupp]),
        flag("PR_SET_THP_DISABLE", libc::SYS_prctl, 0, Eq, [einval, eperm]),
    ]
}

/// The first call of Linux 5.3's last releases that has one number on all machines, and one that no kernel has yet.
const NEWER: std::ops::Range<c_long> = 424..500;

/// What Docker 19.03 allows to no container without further rights, beside all that is newer than Linux 5.0.
const NOT_IN_DOCKER: [c_long; 15] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_name_to_handle_at,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mbind,
    libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy,
    libc::SYS_move_pages,
];

/// What POSIX has, and what the C library, the standard library and the allocator make of it on Linux.
const PORTABLE: &[c_long] = &[
    // Files and folders.
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_mkdirat,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_umask,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    // Sockets and waiting.
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    // Processes, threads and signals.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_execve,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_kill,
    libc::SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigpending,
    libc::SYS_sigaltstack,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_setgroups,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    // A thread's name, and what the allocator asks of the kernel.
    libc::SYS_prctl,
    // Memory, time and the machine.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_sysinfo,
];

/// The same, older: where the C library still uses them.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_arch_prctl,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_mkdir,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_alarm,
    libc::SYS_time,
    libc::SYS_gettimeofday,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

fn all_of(calls: impl IntoIterator<Item = c_long>) -> Rules {
    calls.into_iter().map(|call| (call, Vec::new())).collect()
}

/// The call with this in an argument.
fn with(call: c_long, argument: u8, op: SeccompCmpOp, value: u64) -> Rules {
    let condition = SeccompCondition::new(argument, Dword, op, value).expect("an argument of a call");
    Rules::from([(call, vec![SeccompRule::new(vec![condition]).expect("a rule")])])
}

fn program(rules: Rules, otherwise: SeccompAction, then: SeccompAction) -> BpfProgram {
    let machine = ARCH.try_into().expect("a machine that filters know");
    let filter = SeccompFilter::new(rules, otherwise, then, machine).expect("a sound filter");
    filter.try_into().expect("a short filter")
}

/// Filters, the last of which is asked first.
fn programs(refused: &[(Rules, c_int)]) -> Vec<BpfProgram> {
    let refuse = |(rules, error): &(Rules, c_int)| {
        program(rules.clone(), SeccompAction::Allow, SeccompAction::Errno(error.unsigned_abs()))
    };
    refused.iter().map(refuse).collect()
}

/// Does what it is told in a thread that has these filters, and so have the programs that it starts.
fn under<T: Send>(filters: &[BpfProgram], what: impl FnOnce() -> T + Send) -> T {
    let result = thread::scope(|scope| {
        let thread = scope.spawn(|| {
            filters
                .iter()
                .for_each(|filter| seccompiler::apply_filter(filter).expect("anyone may give up calls"));
            what()
        });
        thread.join()
    });
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A server in its sandbox, whose programs are tried elsewhere.
const SANDBOX: [&str; 2] = ["--sandbox", "on"];

/// What is asked of each server.
struct Trial {
    site: TempDir,
    /// What a server answers that has every call: targets, and all but dates.
    answers: Vec<(&'static str, Reply)>,
    programs: TempDir,
}

/// Small and large, behind a link and past one, a listing, what is not there, and programs: each with its status.
const FILES: [(&str, u16); 8] = [
    ("/small.txt", 200),
    ("/large.bin", 200),
    ("/large.bin#range", 206),
    ("/linked/name.txt", 200),
    ("/folder/", 200),
    ("/none", 404),
    ("/out/hostname", 403),
    ("/folder/../small.txt", 200),
];
const PROGRAMS: [(&str, u16); 3] = [("/cgi/echo?1", 200), ("/app", 200), ("/cgi/large", 200)];

impl Trial {
    fn new() -> Self {
        let site = tempfile::tempdir().expect("a folder");
        for folder in ["real/deep", "folder/inner"] {
            fs::create_dir_all(site.path().join(folder)).expect("a folder");
        }
        symlink("real/deep", site.path().join("linked")).expect("a link");
        symlink("/etc", site.path().join("out")).expect("a link");
        site::write(&site.path().join("small.txt"), b"small");
        site::write(&site.path().join("large.bin"), &site::pattern(6_000_000));
        site::write(&site.path().join("real/deep/name.txt"), b"behind a link");
        site::write(&site.path().join("folder/a.txt"), b"a");
        let programs = tempfile::tempdir().expect("a folder");
        scripts::script(
            programs.path(),
            "echo",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nsays %s' \"$QUERY_STRING\"\n",
        );
        scripts::script(
            programs.path(),
            "large",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nexec head -c 300000 /dev/zero\n",
        );
        scripts::compile(programs.path(), "application", scripts::APPLICATION);
        let mut trial = Self { site, answers: Vec::new(), programs };
        let mine = trial.own_programs();
        let server = Server::of(trial.server("amped", mine.path(), &[]));
        for (target, status) in FILES.into_iter().chain(PROGRAMS) {
            let answer = ask(&server, target);
            assert_eq!(answer.status, status, "{target}");
            trial.answers.push((target, answer));
        }
        server.stop();
        trial
    }

    fn server(&self, arch: &str, programs: &Path, more: &[&str]) -> Command {
        let mut command = Command::new(flash_tests::program());
        command.arg("serve").arg(self.site.path()).args(["--verbose", "--listen", "127.0.0.1:0", "--list"]);
        command.arg("--arch").args(arch.split(' ')).args(["--processes", "2"]).args(more);
        if !more.contains(&SANDBOX[1]) {
            let path = programs.display();
            command.args(["--sandbox", "off", "--cgi", &format!("/cgi={path}")]);
            command.args(["--app", &format!("/app={path}/application")]);
        }
        command.stdin(Stdio::null()).env("FLASH_TESTS_OWN", programs);
        command
    }

    /// The programs of one server: what runs from this folder is that server's.
    fn own_programs(&self) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for entry in fs::read_dir(self.programs.path()).expect("a folder") {
            let path = entry.expect("an entry").path();
            fs::copy(&path, folder.path().join(path.file_name().expect("a name"))).expect("a copy");
        }
        folder
    }

    /// Starts a server under the filters, asks it for everything, and ends it.
    fn run(&self, case: &Case) {
        site::make_cold(&self.site.path().join("large.bin"));
        let mine = self.own_programs();
        let mut command = self.server(case.arch, mine.path(), case.more);
        command.stderr(Stdio::piped());
        let server = Server::from(under(&case.filters, || command.spawn().expect("flash starts")));
        let has_programs = !case.more.contains(&SANDBOX[1]);
        for (target, expected) in &self.answers {
            if !has_programs && PROGRAMS.iter().any(|(program, _)| program == target) {
                continue;
            }
            // Twice: from the disk, and from the caches.
            for _ in 0..2 {
                let answer = ask(&server, target);
                if answer != *expected {
                    panic!(
                        "{target}: {} and not {}; it said: {}",
                        shown(&answer),
                        shown(expected),
                        server.said()
                    );
                }
            }
        }
        let address = server.address;
        server.stop();
        TcpListener::bind(address).expect("its port is free");
        let give_up = Instant::now() + Duration::from_secs(5);
        while let left @ [_, ..] = &*left_of(mine.path()) {
            assert!(Instant::now() < give_up, "left behind: {left:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn ask(server: &Server, target: &str) -> Reply {
    let (target, range) = target
        .split_once('#')
        .map_or((target, ""), |(target, _)| (target, "Range: bytes=1000000-4999999\r\n"));
    let mut stream = server.connect();
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{range}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("the server takes the request");
    reply::only(&reply::undated(&read_all(&mut stream)))
}

fn shown(answer: &Reply) -> String {
    let Reply { status, fields, body } = answer;
    format!("{status} {fields:?} {} bytes", body.len())
}

/// Processes that were started with this folder in their environment or arguments.
fn left_of(folder: &Path) -> Vec<String> {
    let marker = folder.to_str().expect("UTF-8").as_bytes();
    let is_in = |file: PathBuf| {
        fs::read(file).is_ok_and(|bytes| bytes.windows(marker.len()).any(|part| part == marker))
    };
    let processes = fs::read_dir("/proc").expect("there is /proc").flatten().map(|entry| entry.path());
    let left = processes.filter(|process| is_in(process.join("environ")) || is_in(process.join("cmdline")));
    left.map(|process| {
        format!(
            "{} {}",
            process.display(),
            fs::read_to_string(process.join("comm")).unwrap_or_default().trim()
        )
    })
    .collect()
}

struct Case {
    name: String,
    arch: &'static str,
    filters: Vec<BpfProgram>,
    /// Flags.
    more: &'static [&'static str],
}

/// Runs all cases, some at a time, and names all that failed.
fn run(cases: Vec<Case>) {
    let trial = Trial::new();
    let count = cases.len();
    let (next, failed) = (Mutex::new(cases.into_iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let case = next.lock().expect("no panic here").next();
                    let Some(case) = case else { break };
                    let ran = catch_unwind(AssertUnwindSafe(|| trial.run(&case)));
                    if let Err(panic) = ran {
                        failed.lock().expect("no panic here").push(format!(
                            "{}, {}: {}",
                            case.name,
                            case.arch,
                            said_by(&*panic)
                        ));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic there");
    assert!(failed.is_empty(), "{} of {count} fail:\n{}", failed.len(), failed.join("\n"));
}

fn said_by(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

#[test]
fn a_call_that_is_refused_changes_no_byte() {
    let mut refused: Vec<(String, Refused)> = Vec::new();
    for (name, calls) in CALLS {
        for (error, word) in [(libc::ENOSYS, "ENOSYS"), (libc::EPERM, "EPERM")] {
            refused.push((format!("{name}: {word}"), vec![(all_of(calls.iter().copied()), error)]));
        }
    }
    for Flag { name, call, argument, is, errors } in refused_flags() {
        let value = match is {
            MaskedEq(flag) => flag,
            _ => libc::PR_SET_THP_DISABLE.unsigned_abs().into(),
        };
        for error in errors {
            let rules = with(call, argument, is.clone(), value);
            refused.push((format!("{name}: error {error}"), vec![(rules, error)]));
        }
    }
    let mut cases = Vec::new();
    for (name, refused) in refused {
        let archs: &[&str] = if name.starts_with("io_uring") { &["uring"] } else { &["amped", PROCESSES] };
        cases.extend(archs.iter().map(|arch| Case {
            name: name.clone(),
            arch,
            filters: programs(&refused),
            more: &[],
        }));
    }
    run(cases);
}

#[test]
fn systems_that_lack_many_calls_serve_the_same_bytes() {
    let clone3 = || (all_of([libc::SYS_clone3]), libc::ENOSYS);
    let newer = |than: c_long| (all_of(NEWER.filter(move |call| *call >= than)), libc::ENOSYS);
    let docker = NEWER.filter(|call| *call != libc::SYS_clone3).chain(NOT_IN_DOCKER);
    let cloexec = with(libc::SYS_close_range, 2, Ne, 0);
    let systems: [(&str, Refused); 3] = [
        // It refuses clone3 with EPERM, under which glibc since 2.34 starts no thread in any program; later ones say ENOSYS.
        ("Docker 19.03", vec![(all_of(docker), libc::EPERM), clone3()]),
        // Its statx tells no mounts, and so nothing that fstat does not.
        ("Linux 5.4", vec![newer(libc::SYS_close_range), (all_of([libc::SYS_statx]), libc::ENOSYS)]),
        ("Linux 5.10", vec![newer(441), (cloexec, libc::EINVAL)]),
    ];
    let mut cases = Vec::new();
    for (name, refused) in systems {
        let more = |arch| (arch, &[][..]);
        // Within its sandbox, whose own filter must allow what takes a call's place.
        for (arch, more) in ARCHITECTURES.map(more).into_iter().chain([(PROCESSES, &SANDBOX[..])]) {
            cases.push(Case { name: name.to_owned(), arch, filters: programs(&refused), more });
        }
    }
    run(cases);
}

/// A call that is not on the list ends the process that makes it. The kernel's log has its number.
#[test]
fn the_portable_server_needs_nothing_but_posix() {
    let mut cases = Vec::new();
    for (more, mincore) in [
        (&["--system-calls", "portable"], None),
        (&["--system-calls", "portable+mincore"], Some(&libc::SYS_mincore)),
    ] {
        // The standard library asks for statx first, and does without it.
        let allowed = PORTABLE.iter().chain(OLDER).chain([&libc::SYS_statx]).chain(mincore);
        let mut filters = programs(&[(all_of([libc::SYS_statx]), libc::ENOSYS)]);
        let rules = all_of(allowed.copied());
        filters.push(program(rules, SeccompAction::KillProcess, SeccompAction::Allow));
        let archs = ARCHITECTURES.into_iter().filter(|arch| *arch != "uring");
        cases.extend(archs.map(|arch| Case { name: more[1].into(), arch, filters: filters.clone(), more }));
    }
    run(cases);
}
