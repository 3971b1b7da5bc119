//! The sandbox asked for what it forbids, and for what it leaves. Each case confines a thread of its own, by the very
//! functions that confine a server and its helpers.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use flash_process::private_socket;
use rustix::io::Errno;
use rustix::net::{self, SendFlags, Shutdown, SocketType};
use rustix::process::{PidfdFlags, pidfd_open, test_kill_process};
use tempfile::TempDir;

use super::*;

/// `MSG_FASTOPEN`, which rustix does not know.
const FAST_OPEN: SendFlags = SendFlags::from_bits_retain(0x2000_0000);

/// Runs in a thread that is a server's from then on.
fn as_server<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    confined(confine_server, what)
}

fn as_helper<T: Send + 'static>(readable: &TempDir, what: impl FnOnce() -> T + Send + 'static) -> T {
    let readable = [readable.path().to_owned()];
    confined(move || confine_helper(&readable), what)
}

fn confined<T: Send + 'static>(
    confine: impl FnOnce() -> Result<(), Unenforced> + Send + 'static,
    what: impl FnOnce() -> T + Send + 'static,
) -> T {
    let thread = thread::spawn(move || {
        confine().expect("this test needs a kernel with Landlock and seccomp");
        what()
    });
    thread.join().expect("what is refused is an error, not the end")
}

fn is_refused<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.txt"), "content").unwrap();
    folder
}

#[test]
fn a_server_opens_nothing() {
    let folder = folder();
    let file = folder.path().join("a.txt");
    assert_eq!(fs::read(&file).unwrap(), b"content", "without a sandbox it can be read");
    let (open, listed, made, removed) = as_server(move || {
        let open = ["/etc/passwd".into(), "/dev/null".into(), "/proc/self/mem".into(), file.clone()];
        let open: Vec<bool> = open.iter().map(|path: &PathBuf| is_refused(File::open(path))).collect();
        let made = is_refused(File::create(file.with_extension("new")));
        (open, is_refused(fs::read_dir("/")), made, is_refused(fs::remove_file(&file)))
    });
    assert_eq!(open, [true; 4]);
    assert!(listed && made && removed, "{listed} {made} {removed}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_server_starts_no_program() {
    assert!(Command::new("/bin/true").status().unwrap().success(), "without a sandbox it starts");
    assert!(as_server(|| is_refused(Command::new("/bin/true").status())));
    // Were it not refused, this process would be another program, and fail.
    let error = as_server(|| Command::new("/bin/false").exec());
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}

#[test]
fn a_server_connects_to_nobody_and_listens_nowhere() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let folder = folder();
    let name = folder.path().join("socket");
    let _unix = UnixListener::bind(&name).unwrap();
    assert!(TcpStream::connect(address).is_ok() && UnixStream::connect(&name).is_ok());
    let refused = as_server(move || {
        [
            is_refused(TcpStream::connect(address)),
            is_refused(UnixStream::connect(&name)),
            is_refused(UnixListener::bind(name.with_extension("other"))),
            is_refused(TcpListener::bind("127.0.0.1:0")),
            // Datagrams could be sent to anybody.
            is_refused(UnixDatagram::pair()),
        ]
    });
    assert_eq!(refused, [true; 5]);
}

/// Data can be sent with the first packet of a connection. What a server has is connected elsewhere in no such way: not a listener that
/// it has shut down, and not a connection.
#[test]
fn a_server_connects_nothing_by_its_first_byte() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let elsewhere = other.local_addr().unwrap();
    let lead_elsewhere = move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let is_shut = net::shutdown(&listener, Shutdown::Both);
        (is_shut, net::sendto(&listener, b"x", FAST_OPEN, &elsewhere))
    };
    assert_eq!(lead_elsewhere(), (Ok(()), Ok(1)), "without a sandbox it is connected");
    other.accept().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let results = as_server(move || {
        let mut results = Vec::new();
        for socket in [OwnedFd::from(listener), client.into(), accepted.into()] {
            results.push(net::shutdown(&socket, Shutdown::Both));
            results.push(net::sendto(&socket, b"x", FAST_OPEN, &elsewhere).map(drop));
        }
        results
    });
    assert!(results.iter().all(Result::is_err), "{results:?}");
    other.set_nonblocking(true).unwrap();
    assert_eq!(other.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_server_reaches_no_other_process() {
    let parent = rustix::process::getppid().expect("a test has a parent");
    assert_eq!(test_kill_process(parent), Ok(()), "without a sandbox it can be told something");
    assert_eq!(as_server(move || test_kill_process(parent)), Err(Errno::PERM));
    assert!(pidfd_open(parent, PidfdFlags::empty()).is_ok(), "without a sandbox it can be held");
    assert!(is_refused(as_server(move || Ok(pidfd_open(parent, PidfdFlags::empty())?))));
}

#[test]
fn a_server_does_its_work() {
    let folder = folder();
    let mut file = File::open(folder.path().join("a.txt")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        all
    });
    as_server(move || {
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        assert_eq!(content, "content", "what others have opened can be read");
        let (mut stream, _) = listener.accept().unwrap();
        // A thread of its own writes it.
        thread::spawn(move || stream.write_all(content.as_bytes()).unwrap()).join().unwrap();
        let (one, _other) = UnixStream::pair().unwrap();
        one.as_fd().try_clone_to_owned().unwrap();
    });
    assert_eq!(client.join().unwrap(), "content");
}

#[test]
fn a_helper_reads_below_its_folder_only() {
    let (inside, outside) = (folder(), folder());
    let (file, other) = (inside.path().join("a.txt"), outside.path().join("a.txt"));
    std::os::unix::fs::symlink(&other, inside.path().join("link")).unwrap();
    let link = inside.path().join("link");
    let folder = inside.path().to_owned();
    let (read, listed, refused) = as_helper(&inside, move || {
        let refused = [
            is_refused(fs::read(&other)),
            is_refused(fs::read(&link)),
            is_refused(fs::read("/etc/passwd")),
            is_refused(fs::write(&file, "changed")),
            is_refused(fs::write(file.with_extension("new"), "new")),
            is_refused(fs::rename(&file, file.with_extension("moved"))),
            is_refused(fs::remove_file(&file)),
            is_refused(Command::new("/bin/true").status()),
            is_refused(TcpStream::connect("127.0.0.1:9")),
        ];
        (fs::read(&file).unwrap(), fs::read_dir(folder).unwrap().count(), refused)
    });
    assert_eq!((read.as_slice(), listed), (&b"content"[..], 2));
    assert_eq!(refused, [true; 9]);
}

#[test]
fn a_connector_makes_sockets_and_an_acme_client_changes_files() {
    let folder = folder();
    let (path, temporary) = (folder.path().to_owned(), std::env::temp_dir());
    let connector = confined(
        move || confine_connector(&[], &[temporary]),
        move || {
            private_socket::listen(SocketType::STREAM, 1).unwrap();
            let file = path.join("a.txt");
            let [read, write] = [is_refused(fs::read(&file)), is_refused(fs::write(&file, "changed"))];
            [read, write, is_refused(File::create(path.join("new"))), is_refused(File::create("/etc/new"))]
        },
    );
    assert_eq!(connector, [true; 4]);
    let path = folder.path().to_owned();
    let writable = path.clone();
    let client = confined(
        move || confine_client(&[], &[writable]),
        move || {
            fs::write(path.join("a.txt"), "changed").unwrap();
            fs::create_dir(path.join("folder")).unwrap();
            [
                is_refused(UnixListener::bind(path.join("socket"))),
                is_refused(fs::remove_dir(path.join("folder"))),
            ]
        },
    );
    assert_eq!(client, [true; 2]);
}
