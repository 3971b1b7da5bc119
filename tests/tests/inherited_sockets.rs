//! Listening sockets that a service manager opens and passes on (LISTEN_FDS), and keeps when the server ends.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use flash_tests::{ARCHITECTURES, Server, program, read_all, reply, set_mode, site, wait_for};

/// All architectures, and a server in its sandbox.
fn servers() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.into_iter().chain(["amped --helpers process --sandbox required"])
}

/// The command of a server that gets these sockets, as descriptors 3 and 4.
fn activated(arch: &str, site: &Path, names: &str, sockets: Vec<OwnedFd>) -> Command {
    let count = sockets.len();
    let script = format!(
        "exec 3<&0 4<&1 0</dev/null 1>&2; LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES={names} exec \"$@\""
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, "sh"])
        .arg(program())
        .arg("serve")
        .arg(site)
        .arg("--arch")
        .args(arch.split(' '));
    let mut sockets = sockets.into_iter();
    command.stdin(sockets.next().map_or_else(Stdio::null, Stdio::from));
    command.stdout(sockets.next().map_or_else(Stdio::null, Stdio::from));
    command
}

fn ask(stream: &mut (impl Read + Write)) -> String {
    stream.write_all(b"GET /a.txt HTTP/1.0\r\n\r\n").expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    answer
}

/// What a server says that does not start.
fn refused(mut command: Command) -> String {
    let output = command.output().expect("flash starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_successor_goes_on_with_the_same_socket() {
    let site = site::make();
    for arch in servers() {
        let manager = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = manager.local_addr().unwrap();
        let start =
            || Server::of(activated(arch, site.path(), "web", vec![manager.try_clone().unwrap().into()]));
        let server = start();
        assert_eq!(server.address, address, "{arch}: without --listen it serves there");
        assert!(ask(&mut server.connect()).ends_with("0123456789"), "{arch}");
        server.stop();
        // Nobody serves, and the kernel keeps the connection.
        let mut waiting = TcpStream::connect(address).unwrap_or_else(|error| panic!("{arch}: {error}"));
        waiting.write_all(b"GET /a.txt HTTP/1.0\r\n\r\n").unwrap();
        let server = start();
        assert!(reply::only(&read_all(&mut waiting)).body == b"0123456789", "{arch}");
        server.stop();
        drop(manager);
        // Those that ended with the server may still be on their way out.
        wait_for(&format!("{arch}: no process keeps the socket"), || TcpStream::connect(address).is_err());
    }
}

#[test]
fn the_name_of_an_inherited_unix_socket_stays() {
    let site = site::make();
    for arch in servers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (manager, place) = (UnixListener::bind(&path).unwrap(), format!("unix:{}", path.display()));
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap().to_string();
        let sockets = vec![manager.try_clone().unwrap().into(), tcp.into()];
        let mut command = activated(arch, site.path(), "one:two", sockets);
        command.args(["--listen", &address, "--listen", &place]);
        let server = Server::of(command);
        for _ in 0..3 {
            assert!(ask(&mut UnixStream::connect(&path).unwrap()).ends_with("0123456789"), "{arch}");
            assert!(ask(&mut server.connect()).ends_with("0123456789"), "{arch}");
        }
        server.stop();
        assert!(path.exists(), "{arch}: the name is not the server's");
        // Nobody but clients connects to it: a service manager would start the server again.
        manager.set_nonblocking(true).unwrap();
        assert!(manager.accept().is_err(), "{arch}: a connection came at the end");
    }
}

#[test]
fn the_admin_socket_may_be_inherited() {
    let site = site::make();
    for arch in ["amped", "mp"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let (admin, tcp) = (UnixListener::bind(&path).unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let web = tcp.local_addr().unwrap().to_string();
        let mut command = activated(arch, site.path(), "admin:web", vec![admin.into(), tcp.into()]);
        command.args(["--admin", &format!("unix:{}", path.display()), "--listen", &web]);
        let server = Server::of(command);
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: flash\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{arch}: {answer}");
        server.stop();
    }
}

#[test]
fn a_socket_that_cannot_serve_is_refused_with_its_name() {
    let site = site::make();
    let said = |names: &str, socket: OwnedFd, flags: &[&str]| {
        let mut command = activated("amped", site.path(), names, vec![socket]);
        command.args(flags);
        refused(command)
    };
    let datagram = UdpSocket::bind("127.0.0.1:0").unwrap().into();
    let line = said("quic", datagram, &[]);
    assert!(line.contains("`quic`: it is not a stream socket"), "{line}");
    let file = fs::File::open(site.path().join("a.txt")).unwrap().into();
    assert!(said("", file, &[]).contains("`unknown`: it is not a socket"));
    let (end, _other) = UnixStream::pair().unwrap();
    assert!(said("pair", end.into(), &[]).contains("`pair`: nobody listens at it"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let line = said("web", listener.into(), &["--listen", "127.0.0.1:0"]);
    assert!(line.contains(&format!("`web` listens at {place}, and no listen does")), "{line}");
}

/// A server that was taken over may say to its successor that a socket of its own is one of the configuration's.
#[test]
fn a_socket_serves_no_other_place_than_its_own_whatever_its_name_says() {
    let site = site::make();
    for arch in ["amped", "mp"] {
        let folder = tempfile::tempdir().unwrap();
        let [web, other] = ["web", "other"].map(|name| folder.path().join(name));
        let listener = UnixListener::bind(&other).unwrap();
        set_mode(&other, 0o600);
        let name = format!("flash=listen=unix%3A{}", web.display());
        let mut command = activated(arch, site.path(), &name, vec![listener.into()]);
        let place = format!("unix:{},mode=666", web.display());
        command.args(["--listen", "127.0.0.1:0", "--listen", &place]);
        let server = Server::of(command);
        assert_eq!(fs::metadata(&other).unwrap().mode() & 0o777, 0o600, "{arch}");
        assert_eq!(fs::metadata(&web).unwrap().mode() & 0o777, 0o666, "{arch}: it has made one itself");
        assert!(ask(&mut UnixStream::connect(&web).unwrap()).ends_with("0123456789"), "{arch}");
        server.stop();
        assert!(other.exists(), "{arch}");
    }
}

#[test]
fn variables_for_another_process_count_for_nothing() {
    let site = site::make();
    let mut command = Command::new(program());
    command.args(["serve", "--listen", "127.0.0.1:0"]).arg(site.path());
    command.envs([("LISTEN_PID", "1"), ("LISTEN_FDS", "1")]).stdin(Stdio::null());
    let server = Server::of(command);
    assert!(ask(&mut server.connect()).ends_with("0123456789"));
    server.stop();
}
