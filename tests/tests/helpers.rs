//! Helper processes: the same bytes, whatever becomes of them, and nobody with more rights than needed.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use flash_tests::family::{self, Process};
use flash_tests::reply::undated;
use flash_tests::{PATIENCE, PROCESSES, Server, is_superuser, program, set_mode, site, wait_for};
use rustix::process::Signal;
use seccompiler::{SeccompAction, SeccompFilter};

/// An ordinary user, whom Debian calls nobody.
const NOBODY: u32 = 65_534;

/// Runs a server that is to fail.
/// The program, which is ended if it serves, so that a test fails and does not wait for ever.
fn ended() -> Command {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program());
    command
}

fn failing(flags: &[&str]) -> Output {
    let mut command = ended();
    command.args(["serve", "/", "--listen", "127.0.0.1:0", "--helpers", "process"]).args(flags);
    command.output().unwrap()
}

#[test]
fn processes_send_what_threads_send() {
    let site = site::make();
    fs::create_dir(site.path().join("long")).unwrap();
    for number in 0..1000 {
        site::write(&site.path().join(format!("long/{number:04}-{}.txt", "x".repeat(200))), b"");
    }
    let flags = ["--list", "--revalidate", "0"];
    let servers = ["amped", PROCESSES].map(|arch| Server::start(arch, site.path(), &flags));
    let mut paths: Vec<String> =
        ["/", "/a.txt", "/empty", "/page.html", "/sub/", "/sub", "/plain/", "/plain/?sort=size&order=desc"]
            .iter()
            .chain(&["/many/", "/long/", "/none", "/none/none", "/link-in", "/link-out", "/link-absolute"])
            .chain(&["/loop", "/fifo", "/%ff.txt", "/.git/config", "/.well-known/x", "/colon:dir/"])
            .map(|path| (*path).to_owned())
            .collect();
    paths.extend(site::SIZES.map(|size| format!("/{size}.bin")));
    for path in paths {
        for fields in
            ["", "Accept-Encoding: gzip\r\n", "Accept-Encoding: br, zstd\r\n", "Range: bytes=1-70000\r\n"]
        {
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}Connection: close\r\n\r\n");
            let [threads, processes] =
                servers.each_ref().map(|server| undated(&server.raw(request.as_bytes())));
            assert!(
                threads == processes,
                "{path} {fields:?}: {} and {} bytes",
                threads.len(),
                processes.len()
            );
        }
    }
    assert!(!family::helpers(&servers[1]).is_empty() && family::helpers(&servers[0]).is_empty());
    servers.into_iter().for_each(|server| drop(server.stop()));
}

#[test]
fn changes_are_noticed() {
    let site = site::make();
    let server = Server::start(PROCESSES, site.path(), &["--revalidate", "0"]);
    let path = site.path().join("a.txt");
    for content in [&b"first"[..], &site::pattern(300_000), &site::pattern(5_000_000), b"last"] {
        site::write(&path, content);
        assert!(server.get("/a.txt").body == content, "{} bytes", content.len());
        // Written in place, and under a new name.
        let mut other = content.to_vec();
        other[0] ^= 1;
        fs::write(site.path().join("new"), &other).unwrap();
        fs::rename(site.path().join("new"), &path).unwrap();
        assert!(server.get("/a.txt").body == other, "{} bytes, replaced", content.len());
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(server.get("/a.txt").status, 404);
    server.stop();
}

const CLIENTS: usize = 8;
/// So many come right before the next helper is killed.
const RESPONSES_PER_KILL: usize = 2;

/// What became of a storm of requests.
#[derive(Default)]
struct Storm {
    right: AtomicUsize,
    /// Answered with 500 or 503, or broken off.
    lost: AtomicUsize,
    over: AtomicBool,
}

/// A client that asks for one file after the other, and sees to it that each byte is right.
fn ask_on(server: &Server, storm: &Storm, files: &BTreeMap<String, Vec<u8>>, seed: usize) {
    let mut stream: Option<TcpStream> = None;
    for turn in 0.. {
        if storm.over.load(Ordering::Relaxed) {
            return;
        }
        let (name, content) = files.iter().nth((seed * 7 + turn * 5) % files.len()).unwrap();
        // Nobody else asks for it, so that a lost job is one lost response.
        let path = format!("{seed}/{name}");
        let mut connection = stream.take().unwrap_or_else(|| server.connect());
        let request = format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        let (head, body) = reply_of(&mut connection);
        match head.get(9..12) {
            Some("200") => {
                assert!(content.starts_with(&body), "/{path}: a wrong byte among {}", body.len());
                if body.len() == content.len() {
                    storm.right.fetch_add(1, Ordering::Relaxed);
                    stream = Some(connection);
                } else {
                    storm.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
            Some("500" | "503") => {
                storm.lost.fetch_add(1, Ordering::Relaxed);
            }
            _ => panic!("/{path}: {head:?}"),
        }
    }
}

/// A head, and as much of its body as comes.
fn reply_of(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 256 << 10];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "closed in the middle of a head: {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&piece[..count]);
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let total = end + length.parse::<usize>().unwrap();
    while bytes.len() < total {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
    (head, bytes.split_off(end))
}

/// 150 of them, or as many as FLASH_KILLS says.
#[test]
fn helpers_may_be_killed_at_any_time() {
    let kills = std::env::var("FLASH_KILLS").map_or(150, |kills| kills.parse().unwrap());
    let site = site::make();
    let names = ["1", "4096", "262145", "1048577", "3000000", "20000000"].map(|size| format!("{size}.bin"));
    let files: BTreeMap<String, Vec<u8>> =
        names.into_iter().map(|name| (name.clone(), fs::read(site.path().join(name)).unwrap())).collect();
    for seed in 0..CLIENTS {
        fs::create_dir(site.path().join(seed.to_string())).unwrap();
        for name in files.keys() {
            fs::hard_link(site.path().join(name), site.path().join(format!("{seed}/{name}"))).unwrap();
        }
    }
    // Nothing is remembered, so that every request needs a helper.
    let server = Server::start(PROCESSES, site.path(), &["--path-cache", "0", "--helpers-max", "8"]);
    let storm = Storm::default();
    let mut killed = 0;
    thread::scope(|scope| {
        for seed in 0..CLIENTS {
            let (server, storm, files) = (&server, &storm, &files);
            scope.spawn(move || ask_on(server, storm, files, seed));
        }
        while killed < kills {
            let helpers = family::helpers(&server);
            if !helpers.is_empty() {
                helpers[killed * 31 % helpers.len()].kill();
                killed += 1;
            }
            thread::sleep(Duration::from_millis(10 + killed as u64 * 13 % 60));
            // On a busy machine the same jobs would be hit again and again.
            let enough = killed * RESPONSES_PER_KILL;
            wait_for("responses", || storm.right.load(Ordering::Relaxed) >= enough);
        }
        storm.over.store(true, Ordering::Relaxed);
    });
    let (right, lost) = (storm.right.into_inner(), storm.lost.into_inner());
    eprintln!("{killed} helpers killed: {right} responses were right, {lost} were lost");
    assert!(right >= killed * RESPONSES_PER_KILL, "{killed} killed, {right} right");
    // A response is lost only when two helpers were killed over one job of it.
    assert!(lost <= killed / 2, "{lost} responses lost with {killed} helpers");
    assert_eq!(server.get("/a.txt").body, b"0123456789");
    let said = server.stop();
    assert!(said.contains(": replaced"), "{said}");
    assert!(said.lines().count() < 30, "said rarely: {said}");
}

/// The server finishes its running requests, and its exit code reports a failure.
#[test]
fn without_its_supervisor_the_server_ends_in_order() {
    let site = site::make();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let at_socket = format!("unix:{}", socket.display());
    let flags = ["--path-cache", "0", "--helpers-max", "4", "--listen", &at_socket];
    for (arch, more) in [(PROCESSES, "on"), ("uring --helpers process", "off")] {
        for is_busy in [false, true] {
            let mut server = Server::start(arch, site.path(), &[&flags[..], &["--sandbox", more]].concat());
            let mut client = server.connect();
            // Else it would not be accepted.
            client.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            reply_of(&mut client);
            if is_busy {
                client
                    .write_all(b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                    .unwrap();
                client.read_exact(&mut [0; 1000]).unwrap();
            }
            let family = family::of(&server);
            family::supervisor(&server).kill();
            let rest = flash_tests::read_all(&mut client).len();
            assert!(if is_busy { rest >= 20_000_000 - 1000 } else { rest == 0 }, "{arch}: {rest} bytes");
            assert_eq!(server.wait(PATIENCE), Some(Some(1)), "{arch}: {}", server.said());
            wait_for("their end", || family.iter().all(|process| !process.lives()));
            let why = "the supervisor ended (signal 9)";
            wait_for("its last line", || server.said().ends_with(&format!("flash: stopped because {why}\n")));
            let said = server.said();
            assert!(
                said.contains(&format!("flash: {why} and cannot be started again from here: stopping\n")),
                "{said}"
            );
            // The next one finds its places free.
            Server::start(arch, site.path(), &[&flags[..], &["--sandbox", more]].concat()).stop();
        }
    }
}

#[test]
fn idle_helpers_that_are_killed_are_replaced() {
    let site = site::make();
    let server = Server::start(PROCESSES, site.path(), &["--path-cache", "0"]);
    for _ in 0..5 {
        assert_eq!(server.get("/a.txt").status, 200);
        let helpers = family::helpers(&server);
        assert!(!helpers.is_empty());
        helpers.iter().for_each(|helper| helper.kill());
        wait_for("their end", || helpers.iter().all(|helper| !helper.lives()));
    }
    assert_eq!(server.get("/a.txt").status, 200);
    server.stop();
}

#[test]
fn nobody_outlives_the_server() {
    let site = site::make();
    for signal in [Signal::TERM, Signal::KILL] {
        let mut server = Server::start(PROCESSES, site.path(), &[]);
        server.get("/a.txt");
        let family = family::of(&server);
        assert!(family.len() >= 3, "{family:?}");
        // Told to stop, or a terminal's Ctrl-C: helpers leave that to the server.
        for process in &family[1..] {
            let pid = rustix::process::Pid::from_raw(process.pid as i32).unwrap();
            rustix::process::kill_process(pid, Signal::TERM).unwrap();
        }
        assert_eq!(server.get("/1048577.bin").status, 200);
        server.signal(signal);
        server.wait(PATIENCE).expect("it ends");
        wait_for("their end", || family.iter().all(|process| !process.lives()));
    }
}

#[test]
fn every_thread_of_a_server_and_its_helpers_is_confined() {
    let site = site::make();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access");
    let server = Server::start(PROCESSES, site.path(), &["--access-log", log.to_str().unwrap()]);
    assert!(server.said().contains("helper processes, sandbox"), "{}", server.said());
    assert!(!server.said().contains("gaps"), "this test needs a kernel with Landlock: {}", server.said());
    for path in ["/a.txt", "/20000000.bin", "/none"] {
        server.get(path);
    }
    let confined = |process: Process, least: usize| {
        for (key, value) in [("Seccomp", "2"), ("NoNewPrivs", "1")] {
            let threads = process.status(key);
            assert!(threads.len() >= least, "{threads:?}");
            assert!(threads.iter().all(|(_, words)| words == &[value]), "{key}: {threads:?}");
        }
    };
    // The main thread, a loop, a helper, the closer, and the writers of two logs.
    confined(Process { pid: server.pid() }, 6);
    let helpers = family::helpers(&server);
    assert!(!helpers.is_empty());
    for helper in helpers {
        // The main thread, and one that answers, each of which has a socket.
        let threads = helper.status("Seccomp").len();
        let open = fs::read_dir(format!("/proc/{}/fd", helper.pid)).unwrap().count();
        assert!(open <= 6 + threads, "a helper has {open} descriptors open, among them none of the server's");
        confined(helper, 2);
    }
    server.stop();
    let server = Server::start(PROCESSES, site.path(), &["--sandbox", "off"]);
    server.get("/a.txt");
    for process in family::of(&server) {
        assert!(process.status("Seccomp").iter().all(|(_, words)| words == &["0"]), "{}", process.name());
    }
    server.stop();
}

/// Runs what it is given on a kernel that has no Landlock, as far as a process can see.
fn without_landlock<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    let missing = [(libc::SYS_landlock_create_ruleset, Vec::new())].into_iter().collect();
    let action = SeccompAction::Errno(libc::ENOSYS as u32);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(missing, SeccompAction::Allow, action, arch).unwrap();
    let filter: seccompiler::BpfProgram = filter.try_into().unwrap();
    thread::scope(|scope| {
        let thread = scope.spawn(move || {
            seccompiler::apply_filter(&filter).unwrap();
            what()
        });
        thread.join().unwrap()
    })
}

#[test]
fn a_kernel_without_landlock_is_told_of_or_refused() {
    let site = site::make();
    let server = without_landlock(|| Server::start(PROCESSES, site.path(), &[]));
    assert_eq!(server.get("/a.txt").status, 200);
    let said = server.stop();
    let gaps = said.lines().filter(|line| line.contains("the sandbox has gaps: this kernel has no Landlock"));
    assert_eq!(gaps.count(), 1, "{said}");
    let refused = without_landlock(|| failing(&["--sandbox", "required"]));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert_eq!(said, "flash: cannot have the sandbox that is required: this kernel has no Landlock\n");
    Server::start(PROCESSES, site.path(), &["--sandbox", "required"]).stop();
}

#[test]
fn root_is_dropped_once_all_is_open() {
    if !is_superuser("becoming another user") {
        return;
    }
    let site = site::make();
    site::write(&site.path().join("secret.txt"), b"root's");
    set_mode(site.path().join("secret.txt"), 0o600);
    for arch in ["amped", PROCESSES, "mt", "mp"] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("access");
        let flags = ["--user", "nobody", "--processes", "1", "--access-log", log.to_str().unwrap()];
        let server = Server::start(arch, site.path(), &flags);
        assert_eq!(server.get("/a.txt").status, 200, "{arch}");
        assert_eq!(server.get("/secret.txt").status, 403, "{arch}");
        let nobody = NOBODY.to_string();
        // Those that open logs again, record sleeps and execute a successor have the rights of the start.
        let keeps_rights = |name: &str| matches!(name, "flash-opener" | "flash-sleeps" | "flash-upgrade");
        for process in family::of(&server).into_iter().filter(|process| !keeps_rights(&process.name())) {
            for key in ["Uid", "Gid"] {
                for (thread, ids) in process.status(key) {
                    assert!(ids.iter().all(|id| *id == nobody), "{arch}: {thread} is {ids:?}");
                }
            }
            assert!(process.status("Groups").iter().all(|(_, groups)| !groups.contains(&"0".to_owned())));
            assert!(process.status("CapEff").iter().all(|(_, set)| set == &["0000000000000000"]), "{arch}");
        }
        assert!(family::of(&server).len() >= if arch == PROCESSES { 3 } else { 1 });
        wait_for("the log's lines", || fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == 2));
        assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o640);
        fs::rename(&log, folder.path().join("moved")).unwrap();
        server.signal(Signal::USR1);
        wait_for("a new log", || log.exists());
        // A line that was written meanwhile is in the old log.
        wait_for("a line in it", || {
            server.get("/a.txt");
            fs::read_to_string(&log).is_ok_and(|text| text.lines().count() > 0)
        });
        server.stop();
    }
}

#[test]
fn users_that_cannot_be_are_refused() {
    let refused = |flags: &[&str]| {
        let output = failing(flags);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&["--user", "no-such-user-here"]);
    assert_eq!(said, "flash: cannot become user no-such-user-here: there is none of that name\n");
    if !is_superuser("becoming another user") {
        return;
    }
    let private = tempfile::tempdir().unwrap();
    set_mode(private.path(), 0o700);
    let output = ended()
        .arg("serve")
        .arg(private.path())
        .args(["--listen", "127.0.0.1:0", "--user", "nobody"])
        .output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1)
            && said.contains("as user nobody: this user may not (permission denied)"),
        "{said}"
    );
    let ordinary = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(readable(&program(), private.path()))
        .args(["serve", "/", "--listen", "127.0.0.1:0", "--user", "daemon"])
        .output()
        .unwrap();
    let said = String::from_utf8(ordinary.stderr).unwrap();
    assert!(said.starts_with("flash: cannot become user daemon: only root can. Leave `user` out"), "{said}");
    assert_eq!(ordinary.status.code(), Some(1));
}

/// The program where everybody may run it.
fn readable(program: &Path, folder: &Path) -> std::path::PathBuf {
    let copy = folder.join("flash");
    fs::copy(program, &copy).unwrap();
    set_mode(folder, 0o755);
    copy
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    for (flags, why) in [
        (
            ["--helpers", "process", "--arch", "mt"],
            "--helpers process needs an architecture that has helpers",
        ),
        (["--helpers", "thread", "--sandbox", "required"], "--sandbox needs --helpers process"),
    ] {
        let output = Command::new(program()).arg("serve").args(flags).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    }
}
