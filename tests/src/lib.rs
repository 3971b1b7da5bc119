//! The harness of the end-to-end suite: the real program on a site of its own, and a client that sends exact bytes.

#![forbid(unsafe_code)]

pub mod admin;
pub mod asker;
pub mod family;
pub mod peer;
pub mod reply;
pub mod scripts;
pub mod site;
pub mod systemd;
pub mod terminal;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, socket};
use rustix::process::{Pid, Signal, kill_process};

/// All of them, and each as it is started: an architecture, and flags that make another one of it.
pub const ARCHITECTURES: [&str; 7] = ["amped", PROCESSES, "uring", "sped", "pipelined", "mt", "mp"];
pub const PROCESSES: &str = "amped --helpers process";

/// The settings of one of them, for a configuration file.
pub fn arch_settings(arch: &str) -> String {
    let (arch, helpers) = arch.split_once(" --helpers ").unwrap_or((arch, "thread"));
    format!("arch = '{arch}'\nhelpers = '{helpers}'\n")
}

/// What has not come by then does not come, even on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until a condition holds, which takes no longer than [`PATIENCE`].
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < give_up, "{what}: not after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Tests each architecture beside the others: most of what a test does is waiting.
pub fn each(test: impl Fn(&'static str) + Sync) {
    thread::scope(|scope| {
        for arch in ARCHITECTURES {
            let (test, thread) = (&test, thread::Builder::new().name(arch.into()));
            thread.spawn_scoped(scope, move || test(arch)).expect("a thread starts");
        }
    });
}

/// Addresses that are this test's alone, for servers that have to be told theirs: one host of the loopback network, and ports that
/// the kernel gives to nobody. (A port that the kernel has named may be gone before its server has it, or answer as long as a
/// child of another thread has not become its program.)
pub fn own_addresses<const COUNT: usize>() -> [SocketAddr; COUNT] {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let host = (std::process::id() << 8) + NEXT.fetch_add(1, Ordering::Relaxed);
    let host = Ipv4Addr::from_bits(0x7f00_0000 | (host % 0x00ff_fffd + 2));
    std::array::from_fn(|at| SocketAddr::from((host, 20_080 + at as u16)))
}

/// Tells others to stop once it is dropped, in a test that fails too.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A running `flash serve`.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    said: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(arch: &str, folder: &Path, flags: &[&str]) -> Self {
        Self::start_under(&[], arch, folder, flags)
    }

    /// Starts it through another program, such as `prlimit`.
    pub fn start_under(wrapper: &[&str], arch: &str, folder: &Path, flags: &[&str]) -> Self {
        let mut words: Vec<String> = wrapper.iter().map(|&word| word.into()).collect();
        words.push(program().to_str().expect("the program's path is UTF-8").into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("serve").arg(folder);
        command.args(["--verbose", "--listen", "127.0.0.1:0", "--arch"]).args(arch.split(' ')).args(flags);
        command.stdin(Stdio::null());
        Self::of(command)
    }

    /// Starts it with a configuration file.
    pub fn start_configured(file: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.args(["serve", "--config"]).arg(file).args(flags).stdin(Stdio::null());
        Self::of(command)
    }

    /// Starts it, and waits until it says where it serves.
    pub fn of(mut command: Command) -> Self {
        Self::from(command.stderr(Stdio::piped()).spawn().expect("flash starts"))
    }

    /// A server that was just started, with a pipe as its standard error.
    pub fn from(mut child: Child) -> Self {
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let mut first = String::new();
        // Something may be said before that.
        let is_ready =
            |said: &str| ["flash: serving", "\"message\":\"serving"].iter().any(|word| said.contains(word));
        while !is_ready(&first) && lines.read_line(&mut first).expect("lines of text") > 0 {}
        let address = first
            .split("://")
            .nth(1)
            .and_then(|rest| rest.split('/').next())
            .and_then(|address| address.parse().ok())
            .unwrap_or_else(|| panic!("not the line of a server that is ready: {first:?}"));
        let said = Arc::new(Mutex::new(first));
        let heard = Arc::clone(&said);
        let listener = thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut said = heard.lock().expect("nobody panics here");
                said.push_str(&line);
                said.push('\n');
            }
        });
        Self { child, address, said, listener: Some(listener) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a child has a pid");
        kill_process(pid, signal).expect("the server is there to be told");
    }

    pub fn said(&self) -> String {
        self.said.lock().expect("nobody panics here").clone()
    }

    /// Stops it as an operator would, and checks that it went well. Returns all that it said.
    pub fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let code = self.wait(PATIENCE).expect("it stops in time");
        assert_eq!(code, Some(0), "exit code; it said: {}", self.said());
        self.listener.take().map(JoinHandle::join);
        let said = self.said();
        assert!(!said.contains("internal error") && !said.contains("panicked"), "{said}");
        said
    }

    /// Waits for its end: the exit code, or `None` if it goes on.
    pub fn wait(&mut self, patience: Duration) -> Option<Option<i32>> {
        let give_up = Instant::now() + patience;
        while Instant::now() < give_up {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return Some(status.code());
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    /// Connects as another client: any address of the loopback network is this machine's.
    pub fn connect_from(&self, client: Ipv4Addr) -> TcpStream {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&socket, &SocketAddrV4::new(client, 0)).expect("the address is this machine's");
        rustix::net::connect(&socket, &self.address).expect("the server accepts");
        patient(TcpStream::from(socket))
    }

    /// Sends bytes, and returns all that comes back until the server closes.
    pub fn raw(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(request).expect("the server takes the request");
        read_all(&mut stream)
    }

    pub fn get(&self, path: &str) -> reply::Reply {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        reply::only(&self.raw(request.as_bytes()))
    }

    /// Processor time of all its threads so far.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("the server runs");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("a stat line").split_whitespace().collect();
        let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
        (ticks(11) + ticks(12)) / 100.0
    }

    pub fn resident_kb(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            let status = self.child.try_wait();
            eprintln!("the server ({status:?}) said: {}", self.said());
        }
        // A test that fails leaves no server behind.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    patient(TcpStream::connect(address).expect("the server accepts"))
}

fn patient(stream: TcpStream) -> TcpStream {
    // A request that is written in parts would wait 40 ms for an acknowledgement.
    stream.set_nodelay(true).expect("an option");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Everything until the other side closes.
pub fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(200)])),
    }
    bytes
}

/// The program under test: named by `FLASH_BIN`, or the one beside the tests.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("FLASH_BIN") {
        return path.into();
    }
    let own = std::env::current_exe().expect("a test has a path");
    let beside = own.ancestors().nth(2).expect("target/PROFILE/deps/test").join("flash");
    assert!(beside.exists(), "{} is missing: run cargo build -p flash, or set FLASH_BIN", beside.display());
    beside
}

/// `flash-NAME`, which cargo builds with the tests.
pub fn tool(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let built = own.ancestors().nth(2).expect("target/PROFILE/deps/test").join(format!("flash-{name}"));
    assert!(built.exists(), "{} is missing: run cargo build --workspace", built.display());
    built
}

/// The test of conformance to HTTP/2 that `cargo xtask prepare` builds, or an installed one.
pub fn h2spec() -> PathBuf {
    go_tool("h2spec")
}

/// A program in Go that `cargo xtask prepare` builds, or an installed one.
pub fn go_tool(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let built = own.ancestors().nth(3).expect("target/PROFILE/deps/test").join("tools").join(name);
    if built.exists() { built } else { need(name, "golang-go, then cargo xtask prepare") }
}

/// Whether a test may do that. Says that it is not tested otherwise.
#[must_use]
pub fn is_superuser(what: &str) -> bool {
    let is_superuser = rustix::process::geteuid().is_root();
    if !is_superuser {
        eprintln!("NOT TESTED, {what}: it takes the superuser");
    }
    is_superuser
}

/// A temporary folder that all users may look into.
#[must_use]
pub fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    set_mode(folder.path(), 0o755);
    folder
}

pub fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the mode is set");
}

/// Finds a program that a test drives, or fails with the name of its package.
pub fn need(program: &str, package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{program} is missing: apt-get install {package}"))
}
