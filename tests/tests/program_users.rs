//! What programs can do to the server: nothing to its memory as its own user, and nothing at all as another one (`--cgi-user`).

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};

use flash_tests::family::{self, Process};
use flash_tests::{
    ARCHITECTURES, PATIENCE, Server, each, is_superuser, program, read_all, scripts, set_mode, site, wait_for,
};
use tempfile::TempDir;

const NOBODY: u32 = 65_534;
const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
/// A user without a name, and a group.
const OTHER: u32 = 64_817;
const CGI_USER: &str = "64817:64818";

/// Tries what a debugger does to each process that the query names, and says what it got.
const ATTACK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    char *query = getenv("QUERY_STRING"), path[64];
    printf("Content-Type: text/plain\n\nids %d %d %d\n", getuid(), getgid(), getgroups(0, 0));
    for (char *word = strtok(query, ","); word; word = strtok(0, ",")) {
        int pid = atoi(word);
        snprintf(path, sizeof path, "/proc/%d/mem", pid);
        if (open(path, O_RDONLY) >= 0) printf("got mem %d\n", pid);
        snprintf(path, sizeof path, "/proc/%d/environ", pid);
        if (open(path, O_RDONLY) >= 0) printf("got environ %d\n", pid);
        snprintf(path, sizeof path, "/proc/%d/fd/0", pid);
        if (access(path, F_OK) == 0) printf("got fd %d\n", pid);
        int process = syscall(SYS_pidfd_open, pid, 0);
        if (syscall(SYS_pidfd_getfd, process, 0, 0) >= 0) printf("got descriptor %d\n", pid);
        if (ptrace(PTRACE_SEIZE, pid, 0, 0) == 0) {
            printf("got ptrace %d\n", pid);
            ptrace(PTRACE_INTERRUPT, pid, 0, 0);
            waitpid(pid, 0, __WALL);
            ptrace(PTRACE_DETACH, pid, 0, 0);
        }
        if (kill(pid, 0) == 0) printf("got signal %d\n", pid);
    }
    return 0;
}
"#;

/// A folder that everybody can read, with these programs.
fn folder() -> TempDir {
    let folder = scripts::make();
    scripts::compile(folder.path(), "attack", ATTACK);
    scripts::compile(folder.path(), "application", scripts::APPLICATION);
    let script = |name: &str, text: &str| {
        scripts::script(
            folder.path(),
            name,
            &format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n{text}\n"),
        );
    };
    script(
        "status",
        "cut -d' ' -f6 /proc/$$/stat; grep -E '^(Cap(Inh|Prm|Eff|Amb)|Groups):' /proc/$$/status",
    );
    script("stderr", "echo one line >&2; echo another line > /dev/stderr; echo $?");
    script("slow", "echo process $$.; exec sleep 600");
    script("write", "echo x > \"$QUERY_STRING\" && echo written");
    folder
}

fn get(server: &Server, path: &str) -> String {
    let reply = server.get(path);
    assert_eq!(reply.status, 200, "{path}: {}; {}", String::from_utf8_lossy(&reply.body), server.said());
    String::from_utf8(reply.body).unwrap()
}

/// What a program gets of the server's processes.
fn attack(server: &Server) -> String {
    server.get("/a.txt");
    let pids: Vec<String> = family::of(server).iter().map(|process| process.pid.to_string()).collect();
    assert!(pids.len() > 1, "there are processes beside the server");
    get(server, &format!("/cgi/attack?{}", pids.join(",")))
}

fn ids(pid: u32) -> Vec<String> {
    let status = Process { pid }.status("Uid").swap_remove(0).1;
    [status, Process { pid }.status("Gid").swap_remove(0).1].concat()
}

#[test]
fn programs_of_the_servers_user_cannot_read_its_memory() {
    if !is_superuser("programs of other users") {
        return;
    }
    let (site, folder) = (site::make(), folder());
    let cgi = format!("/cgi={}", folder.path().display());
    for arch in ARCHITECTURES {
        let flags = ["--cgi", &cgi, "--processes", "2"];
        for wrapper in [&AS_NOBODY[..], &[]] {
            let user = ["--user", "nobody"];
            let user = &user[..if wrapper.is_empty() { 2 } else { 0 }];
            let server = Server::start_under(wrapper, arch, site.path(), &[&flags[..], user].concat());
            let said = attack(&server);
            assert!(said.contains(&format!("ids {NOBODY} {NOBODY}")), "{arch}: {said}");
            let got: Vec<&str> =
                said.lines().filter(|line| line.starts_with("got ") && !line.contains("signal")).collect();
            assert!(got.is_empty(), "{arch} {wrapper:?}: {got:?}");
            server.stop();
        }
    }
    // As the kernel has it otherwise. Without it the test would say nothing.
    let server =
        Server::start_under(&AS_NOBODY, "amped", site.path(), &["--cgi", &cgi, "--core-dumps", "on"]);
    let said = attack(&server);
    for what in ["mem", "environ", "ptrace", "signal"] {
        assert!(said.contains(&format!("got {what} {}", server.pid())), "{said}");
    }
    server.stop();
}

#[test]
fn programs_run_as_another_user_and_reach_nothing_of_the_server() {
    if !is_superuser("programs of other users") {
        return;
    }
    let (site, folder) = (site::make(), folder());
    let [cgi, direct] = ["cgi", "direct"].map(|name| format!("/{name}={}", folder.path().display()));
    let app = format!("/app={}", folder.path().join("application").display());
    for arch in ARCHITECTURES {
        let (ours, admin) = (site::make(), tempfile::tempdir().unwrap());
        chown(ours.path(), Some(NOBODY), None).unwrap();
        let socket = format!("unix:{}", admin.path().join("admin.sock").display());
        let mut flags =
            vec!["--user", "nobody", "--cgi-user", CGI_USER, "--cgi", &cgi, "--cgi-direct", &direct];
        flags.extend(["--processes", "2", "--admin", &socket, "--app", &app]);
        let server = Server::start(arch, site.path(), &flags);
        let said = attack(&server);
        let helper = family::named(&server, "flash-fork").unwrap();
        // They have one user.
        let expected = format!("ids {OTHER} 64818 1\ngot signal {}\n", helper.pid);
        assert_eq!(said, expected, "{arch}");
        let raw = server.raw(b"GET /direct/attack?1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert!(raw.ends_with(format!("ids {OTHER} 64818 1\n").as_bytes()), "{arch}: {raw:?}");
        let start = std::env::current_dir().unwrap();
        assert_eq!(get(&server, "/app"), format!("ids {OTHER} 64818 1 in {}", start.display()), "{arch}");

        let status = get(&server, "/cgi/status");
        let mut lines = status.lines();
        // Root's terminal would take what a program of the same session puts into it (TIOCSTI).
        let session = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
        let session = session.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap().to_owned();
        assert_ne!(lines.next(), Some(&*session), "{arch}");
        assert_eq!(lines.next(), Some("Groups:\t64818 "), "{arch}");
        assert!(
            lines.clone().count() == 4 && lines.all(|line| line.ends_with("\t0000000000000000")),
            "{arch}: {status}"
        );

        let page = ours.path().join("a.txt");
        assert_eq!(get(&server, &format!("/cgi/write?{}", page.display())), "", "{arch}");
        assert_eq!(get(&server, "/cgi/stderr"), "0\n", "{arch}");
        wait_for("the lines", || {
            server.said().contains(": another line") && server.said().contains(": one line")
        });

        let keeper = family::named(&server, "flash-programs").unwrap();
        let rights = keeper.status("CapPrm").swap_remove(0).1;
        // CAP_SETGID and CAP_SETUID.
        assert_eq!(rights, ["00000000000000c0"], "{arch}");
        for process in family::of(&server).iter().filter(|process| process.lives() && **process != helper) {
            assert_ne!(ids(process.pid)[0], OTHER.to_string(), "{arch}: {}", process.name());
        }
        server.stop();
    }
}

/// The next fork helper is that user's as well, and ends what the one before has started.
#[test]
fn another_users_programs_outlive_their_fork_helper_and_end_with_the_server() {
    if !is_superuser("programs of other users") {
        return;
    }
    let (site, folder) = (site::make(), folder());
    let cgi = format!("/cgi={}", folder.path().display());
    each(|arch| {
        let flags = ["--user", "nobody", "--cgi-user", CGI_USER, "--cgi", &cgi, "--processes", "2"];
        let mut server = Server::start(arch, site.path(), &flags);
        let mut client = server.connect();
        client.write_all(b"GET /cgi/slow HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut said = String::new();
        while !(said.contains("\r\n\r\n") && said.ends_with('.')) {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            said.push(byte[0].into());
        }
        let pid = said.rsplit(' ').next().and_then(|rest| rest.strip_suffix('.')?.parse().ok());
        let slow = Process { pid: pid.expect("a number") };
        let helper = || family::named(&server, "flash-fork");
        let first = helper().unwrap();
        assert_eq!(ids(slow.pid)[..4], [(); 4].map(|()| OTHER.to_string()), "{arch}");
        first.kill();
        wait_for("another one", || helper().is_some_and(|other| other != first));
        wait_for("programs are started again", || server.get("/cgi/status").status == 200);
        assert_eq!(ids(helper().unwrap().pid)[..4], [(); 4].map(|()| OTHER.to_string()), "{arch}");
        assert!(slow.lives(), "{arch}");
        let all = family::of(&server);
        server.signal(rustix::process::Signal::TERM);
        server.signal(rustix::process::Signal::TERM);
        server.wait(PATIENCE).unwrap();
        wait_for("all have ended", || !slow.lives() && all.iter().all(|process| !process.lives()));
        drop(read_all(&mut client));

        // Without its supervisor no other fork helper could be started.
        let mut server = Server::start(arch, site.path(), &flags);
        family::named(&server, "flash-programs").unwrap().kill();
        assert_eq!(server.wait(PATIENCE), Some(Some(1)), "{arch}: {}", server.said());
    });
}

/// What a server says that does not start.
fn refused(wrapper: &[&str], site: &Path, flags: &[&str]) -> String {
    let flash = program();
    let words: Vec<&str> = wrapper.iter().copied().chain([flash.to_str().unwrap(), "serve"]).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(site).args(["--listen", "127.0.0.1:0"]).args(flags);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_ne!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_user_that_programs_cannot_have_is_an_error_at_the_start() {
    if !is_superuser("programs of other users") {
        return;
    }
    let (site, folder) = (site::make(), folder());
    let cgi = format!("/cgi={}", folder.path().display());
    let closed = tempfile::tempdir().unwrap();
    set_mode(closed.path(), 0o700);
    let private = format!("/cgi={}", closed.path().display());
    for (wrapper, flags, why) in [
        (&AS_NOBODY[..], ["--cgi-user", CGI_USER, "--cgi", &cgi], "64817:64818: only root can"),
        (&[], ["--cgi-user", "root", "--cgi", &cgi], "root: root may do everything to the server"),
        (&[], ["--cgi-user", "no-such-user-here", "--cgi", &cgi], "there is none of that name"),
        (&[], ["--cgi-user", CGI_USER, "--cgi", &private], "Permission denied"),
    ] {
        let said = refused(wrapper, site.path(), &flags);
        let line = said.lines().next().unwrap();
        assert!(line.starts_with("flash: cannot run programs as user ") && line.contains(why), "{said}");
    }
    let own = ["--user", "nobody", "--cgi-user", "65534:1", "--cgi", &cgi];
    assert!(refused(&[], site.path(), &own).contains("65534:1: it is the server's own user"));
}
