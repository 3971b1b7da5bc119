//! Real programs: their environment, their failures, and the processes and descriptors that they leave.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::*;

const BOTH: [SpawnMethod; 2] = [SpawnMethod::Vfork, SpawnMethod::Fork];

struct Ran {
    said: String,
    status: i32,
}

fn run(method: SpawnMethod, script: &str, environment: &[u8], limits: &[Limit]) -> Result<Ran, SpawnError> {
    run_at(method, Path::new("/bin/sh"), &["sh", "-c", script], environment, Some(c"/"), limits)
}

fn run_at(
    method: SpawnMethod,
    path: &Path,
    arguments: &[&str],
    environment: &[u8],
    folder: Option<&CStr>,
    limits: &[Limit],
) -> Result<Ran, SpawnError> {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let arguments: Vec<CString> = arguments.iter().map(|argument| CString::new(*argument).unwrap()).collect();
    let arguments: Vec<&CStr> = arguments.iter().map(|argument| &**argument).collect();
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let program = Program {
        path: &path,
        arguments: &arguments,
        environment,
        folder,
        stdio: [theirs.as_fd(); 3],
        limits,
        nice: 3,
    };
    let spawned = Spawner::new(method).spawn(&program)?;
    drop(theirs);
    let mut said = String::new();
    ours.read_to_string(&mut said).unwrap();
    let mut status = 0;
    // SAFETY: `status` is a number of ours.
    assert_eq!(unsafe { libc::waitpid(spawned.pid, &mut status, 0) }, spawned.pid);
    Ok(Ran { said, status })
}

#[test]
fn a_program_has_its_arguments_its_environment_and_its_folder() {
    for method in BOTH {
        let ran = run(method, "echo $A:$B:$(pwd)", b"A=1\0B=two words\0left out", &[]).unwrap();
        assert_eq!((&*ran.said, ran.status), ("1:two words:/\n", 0));
    }
}

#[test]
fn it_has_three_descriptors_and_leads_a_group_of_its_own() {
    // Open without close-on-exec, as a careless library might leave one.
    let careless = File::open("/dev/null").unwrap();
    // SAFETY: numbers only.
    let careless = unsafe { libc::dup(careless.as_raw_fd()) };
    assert!(careless > 2);
    for method in BOTH {
        let ran =
            run(method, "cut -d' ' -f1,5 /proc/$$/stat; exec ls /proc/self/fd", b"PATH=/bin\0", &[]).unwrap();
        let (first, rest) = ran.said.split_once('\n').unwrap();
        // The last is the folder that `ls` reads.
        assert_eq!(rest, "0\n1\n2\n3\n");
        let (pid, group) = first.split_once(' ').unwrap();
        assert_eq!(pid, group);
    }
    // SAFETY: it is the one that was made above.
    unsafe { libc::close(careless) };
}

#[test]
fn its_signals_are_as_new() {
    for method in BOTH {
        // SIGPIPE is ignored too, by the standard library.
        // SAFETY: SIG_IGN runs no code of ours.
        unsafe { libc::signal(libc::SIGUSR2, libc::SIG_IGN) };
        let ran = run(method, "grep -E 'Sig(Blk|Ign)' /proc/self/status", b"PATH=/bin\0", &[]).unwrap();
        let sets =
            ran.said.lines().map(|line| u64::from_str_radix(line.rsplit('\t').next().unwrap(), 16).unwrap());
        // Signals 32 and 33 are the C library's own, which lets nobody change them.
        assert!(sets.clone().count() == 2 && sets.clone().all(|set| set & !(3 << 31) == 0), "{}", ran.said);
    }
}

#[test]
fn this_process_keeps_its_own_signals_and_descriptors() {
    let look = || {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        // SigQ counts the signals of all processes of the user.
        let own = |line: &&str| line.starts_with("Sig") && !line.starts_with("SigQ");
        status.lines().filter(own).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = look();
    for method in BOTH {
        run(method, "true", b"", &[]).unwrap();
        assert_eq!(look(), before);
    }
}

#[test]
fn limits_hold_for_it() {
    for method in BOTH {
        let limits = [
            Limit { resource: Resource::MemoryBytes, soft: 64 << 20, hard: 64 << 20 },
            Limit { resource: Resource::CpuSeconds, soft: 7, hard: 8 },
            Limit { resource: Resource::Descriptors, soft: 33, hard: 44 },
        ];
        let ran = run(method, "ulimit -v; ulimit -t; ulimit -n; ulimit -Hn", b"", &limits).unwrap();
        assert_eq!(ran.said, "65536\n7\n33\n44\n");
        let ran = run(
            method,
            "while :; do :; done",
            b"",
            &[Limit { resource: Resource::CpuSeconds, soft: 1, hard: 1 }],
        );
        assert!(libc::WIFSIGNALED(ran.unwrap().status));
    }
}

#[test]
fn it_is_nicer_than_its_parent() {
    for method in BOTH {
        let own: i32 =
            run(method, "cut -d ' ' -f 19 /proc/self/stat", b"", &[]).unwrap().said.trim().parse().unwrap();
        // SAFETY: asks for this process's own.
        let parents = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        assert_eq!(own, (parents + 3).min(19));
    }
}

#[test]
fn what_cannot_be_run_says_why_and_leaves_nothing() {
    let folder = std::env::temp_dir().join(format!("flash-spawn-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, content: &[u8], mode: u32| {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let cases = [
        (folder.join("missing"), Step::Exec, libc::ENOENT),
        (write("plain", b"#!/bin/sh\n", 0o644), Step::Exec, libc::EACCES),
        (write("junk", b"\x7fjunk", 0o755), Step::Exec, libc::ENOEXEC),
        (write("strange", b"#!/no/such/interpreter\n", 0o755), Step::Exec, libc::ENOENT),
    ];
    for method in BOTH {
        for (path, step, errno) in &cases {
            let failed = run_at(method, path, &["x"], b"", None, &[]).err();
            assert_eq!(failed, Some(SpawnError { step: *step, errno: *errno }), "{}", path.display());
        }
        let failed = run_at(method, Path::new("/bin/sh"), &["sh"], b"", Some(c"/no/such/folder"), &[]).err();
        assert_eq!(failed, Some(SpawnError { step: Step::Folder, errno: libc::ENOENT }));
        let limit = Limit { resource: Resource::Descriptors, soft: 9, hard: 8 };
        let failed = run(method, "true", b"", &[limit]).err();
        assert_eq!(failed, Some(SpawnError { step: Step::Limits, errno: libc::EINVAL }));
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_program_reads_what_is_sent_to_it() {
    for method in BOTH {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let stdio = [theirs.as_fd(); 3];
        let program = Program {
            path: c"/bin/sh",
            arguments: &[c"sh", c"-c", c"read line; echo \"$line\"; read line || echo end; exit 3"],
            environment: b"",
            folder: None,
            stdio,
            limits: &[],
            nice: 0,
        };
        let spawned = Spawner::new(method).spawn(&program).unwrap();
        drop(theirs);
        ours.write_all(b"asked\n").unwrap();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = String::new();
        ours.read_to_string(&mut said).unwrap();
        assert_eq!(said, "asked\nend\n");
        let mut status = 0;
        // SAFETY: `status` is a number of ours.
        assert_eq!(unsafe { libc::waitpid(spawned.pid, &mut status, 0) }, spawned.pid);
        assert_eq!(libc::WEXITSTATUS(status), 3);
    }
}
