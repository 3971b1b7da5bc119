//! Logs that go to syslog and journald: the form of each message, daemons that are started again, and lines that are lost.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{IoSliceMut, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use flash_tests::{
    ARCHITECTURES, PATIENCE, Server, is_superuser, open_folder, program, reply, set_mode, site, wait_for,
};
use rustix::fs::SealFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::Signal;
use tempfile::TempDir;

/// A daemon's socket, which any user may send to.
struct Daemon {
    socket: UnixDatagram,
    _folder: TempDir,
    path: PathBuf,
}

impl Daemon {
    fn start() -> Daemon {
        let folder = open_folder();
        let path = folder.path().join("log");
        Daemon { socket: bind(&path), _folder: folder, path }
    }

    fn named(&self, protocol: &str) -> String {
        format!("{protocol}:unix:{}", self.path.display())
    }

    /// The next message that contains this. Others are passed over.
    fn message(&self, wanted: &str) -> String {
        loop {
            let (bytes, _) = self.receive();
            let text = String::from_utf8(bytes).expect("messages are text");
            if text.contains(wanted) {
                return text;
            }
        }
    }

    /// The next datagram, with the memory that came along.
    fn receive(&self) -> (Vec<u8>, Option<File>) {
        let mut bytes = vec![0; 1 << 20];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::net::recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        let count = received.expect("a message comes in time").bytes;
        bytes.truncate(count);
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptor: Option<OwnedFd> = descriptors.flatten().next();
        (bytes, descriptor.map(File::from))
    }

    /// Ends, and starts again a moment later.
    fn restart(&mut self, pause: Duration) {
        fs::remove_file(&self.path).expect("the socket's name");
        let path = self.path.clone();
        self.socket = UnixDatagram::unbound().expect("a socket");
        thread::sleep(pause);
        self.socket = bind(&path);
    }
}

fn bind(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    set_mode(path, 0o666);
    socket
}

/// With the process's number left out.
fn without_pid(message: &str) -> String {
    let (before, rest) = message.split_once('[').expect("a number");
    let (pid, rest) = rest.split_once(']').expect("its end");
    assert!(pid.parse::<u32>().is_ok(), "{message}");
    format!("{before}[]{rest}")
}

#[test]
fn syslog_gets_both_logs_and_a_daemon_that_was_started_again_gets_the_rest() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let (mut access, errors) = (Daemon::start(), Daemon::start());
        let to = access.named("syslog") + ",facility=local7,tag=www";
        let flags = ["--processes", "2", "--access-log", &to, "--error-log", &errors.named("syslog")];
        let server = Server::start(arch, site.path(), &flags);
        server.get("/a.txt");
        let message = access.message("/a.txt");
        // local7 and info.
        let form = without_pid(&message);
        assert!(
            form.starts_with("<190>www[]: 127.0.0.1 - - [") && !form.ends_with('\n'),
            "{arch}: {message}"
        );
        // A daemon is away for a moment, also for a server that may open nothing.
        for pause in [Duration::ZERO, Duration::from_millis(500)] {
            let address = server.address;
            let asked = thread::spawn(move || {
                thread::sleep(Duration::from_millis(100));
                let mut stream = flash_tests::connect(address);
                stream.write_all(b"GET /b?later HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
                flash_tests::read_all(&mut stream);
            });
            access.restart(pause);
            access.message("/b?later");
            asked.join().expect("it is answered");
        }
        // The signal of log rotators changes nothing.
        server.signal(Signal::HUP);
        // daemon and warning, without a mark of its own.
        let said = errors.message("logs are reopened");
        assert!(without_pid(&said).starts_with("<28>flash[]: SIGHUP"), "{arch}: {said}");
        server.get("/a.txt");
        access.message("/a.txt");
        server.stop();
    }
}

#[test]
fn journald_gets_fields_and_long_lines_in_memory() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let journal = Daemon::start();
        let to = journal.named("journald") + ",severity=notice";
        let flags = ["--processes", "2", "--access-log", &to, "--head-bytes-max", "1M"];
        let server = Server::start(arch, site.path(), &flags);
        server.get("/a.txt");
        let message = journal.message("/a.txt");
        let fields: Vec<_> = message.lines().collect();
        assert_eq!(fields[..3], ["PRIORITY=5", "SYSLOG_FACILITY=3", "SYSLOG_IDENTIFIER=flash"], "{arch}");
        assert!(fields[3].starts_with("MESSAGE=127.0.0.1 - - ["), "{arch}: {message}");
        assert!(fields.len() == 4 && message.ends_with('\n'), "{arch}: {message}");
        let agent = "long".repeat(100_000);
        let request =
            format!("GET /a.txt HTTP/1.1\r\nHost: h\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n");
        assert_eq!(reply::only(&server.raw(request.as_bytes())).status, 200, "{arch}");
        let (bytes, memory) = journal.receive();
        let mut memory = memory.unwrap_or_else(|| panic!("{arch}: {} bytes and no memory", bytes.len()));
        assert!(bytes.is_empty(), "{arch}");
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
        assert_eq!(rustix::fs::fcntl_get_seals(&memory), Ok(seals), "{arch}");
        let mut text = String::new();
        memory.seek(SeekFrom::Start(0)).unwrap();
        memory.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("PRIORITY=5\n") && text.ends_with(&format!("{agent}\"\n")), "{arch}");
        server.stop();
    }
}

#[test]
fn a_daemon_far_away_gets_rfc_5424() {
    let site = site::make();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for arch in ARCHITECTURES {
        let daemon = UdpSocket::bind("127.0.0.1:0").unwrap();
        daemon.set_read_timeout(Some(PATIENCE)).unwrap();
        let to = format!("syslog:udp:localhost:{}", daemon.local_addr().unwrap().port());
        let to = to.replace("localhost", "127.0.0.1");
        let flags = ["--processes", "2", "--access-log", &to, "--log-format", "json"];
        let server = Server::start(arch, site.path(), &flags);
        server.get("/a.txt");
        let mut bytes = [0; 4096];
        let count = daemon.recv(&mut bytes).expect("a message comes in time");
        let text = String::from_utf8_lossy(&bytes[..count]);
        let words: Vec<_> = text.splitn(8, ' ').collect();
        assert_eq!((words[0], words[2], words[3]), ("<30>1", host.trim(), "flash"), "{arch}: {text}");
        assert!(words[1].ends_with('Z') && words[4].parse::<u32>().is_ok(), "{arch}: {text}");
        assert_eq!(words[5..7], ["-", "-"], "{arch}: {text}");
        let record: serde_json::Value = serde_json::from_str(words[7]).expect("the line is the message");
        assert_eq!(record["status"], 200, "{arch}");
        server.stop();
    }
}

#[test]
fn lines_for_a_daemon_that_stays_away_are_counted() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let daemon = Daemon::start();
        let to = daemon.named("syslog");
        let server = Server::start(arch, site.path(), &["--processes", "1", "--access-log", &to]);
        server.get("/a.txt");
        daemon.message("/a.txt");
        drop(daemon);
        (0..7).for_each(|_| assert_eq!(server.get("/a.txt").status, 200, "{arch}: nobody waits for a log"));
        wait_for("the failure", || server.said().contains(&format!("cannot write to {to}")));
        let dropped = || {
            let said = server.said();
            let count = |line: &str| {
                line.split("access log: dropped ").nth(1)?.split(' ').next()?.parse::<u64>().ok()
            };
            said.lines().filter_map(count).sum::<u64>()
        };
        wait_for("all that were lost", || dropped() == 7);
        server.stop();
    }
}

#[test]
fn a_reload_moves_a_log_to_a_daemon_and_back() {
    let site = site::make();
    let folder = tempfile::tempdir().unwrap();
    for arch in ARCHITECTURES.into_iter().filter(|arch| !arch.contains(' ')) {
        let daemon = Daemon::start();
        let (file, log) =
            (folder.path().join(format!("{arch}.toml")), folder.path().join(format!("{arch}.log")));
        let write = |to: &str| {
            let text = format!(
                "root = '{}'\nlisten = ['127.0.0.1:0']\narch = '{arch}'\nprocesses = 2\naccess-log = '{to}'\nadmin = 'off'\n",
                site.path().display()
            );
            fs::write(&file, text).unwrap();
        };
        write(log.to_str().unwrap());
        let server = Server::start_configured(&file, &[]);
        server.get("/a.txt?file");
        wait_for("the line in the file", || {
            fs::read_to_string(&log).is_ok_and(|text| text.contains("?file"))
        });
        write(&daemon.named("syslog"));
        server.signal(Signal::HUP);
        wait_for("the reload", || server.said().contains("configuration 2"));
        // An earlier process of mp may still take a connection.
        daemon.socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        wait_for("the line at the daemon", || {
            server.get("/a.txt?daemon");
            let mut bytes = [0; 4096];
            daemon
                .socket
                .recv(&mut bytes)
                .is_ok_and(|count| bytes[..count].windows(7).any(|part| part == b"?daemon"))
        });
        write(log.to_str().unwrap());
        server.signal(Signal::HUP);
        wait_for("the reload", || server.said().contains("configuration 3"));
        wait_for("the line in the file", || {
            server.get("/a.txt?again");
            fs::read_to_string(&log).is_ok_and(|text| text.contains("?again"))
        });
        server.stop();
    }
}

#[test]
fn a_server_that_gave_up_root_reaches_the_daemon() {
    if !is_superuser("becoming another user") {
        return;
    }
    let site = site::make();
    for arch in ARCHITECTURES {
        let mut daemon = Daemon::start();
        let to = daemon.named("syslog");
        let flags = ["--user", "nobody", "--processes", "2", "--access-log", &to, "--error-log", &to];
        let server = Server::start(arch, site.path(), &flags);
        server.get("/a.txt");
        daemon.message("/a.txt");
        daemon.restart(Duration::ZERO);
        server.get("/b.txt");
        daemon.message("/b.txt");
        server.stop();
    }
}

#[test]
fn what_is_no_daemon_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let missing = format!("syslog:unix:{}/nobody", folder.path().display());
    for (flag, value, code, why) in [
        ("--access-log", "syslog:tcp:h:1", 2, "write syslog:unix:PATH, syslog:udp:HOST:PORT or journald"),
        ("--error-log", "syslog:/dev/log", 2, "write syslog:unix:PATH, syslog:udp:HOST:PORT or journald"),
        ("--access-log", "journald,facility=loud", 2, "\"loud\" is no facility"),
        ("--access-log", &missing, 1, &missing),
    ] {
        let output = Command::new(program())
            .args(["serve", "--port", "0", flag, value])
            .arg(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && said.contains(why), "{flag} {value}: {said}");
    }
}
