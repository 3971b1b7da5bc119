//! A server and its successors, and clients that ask them.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flash_tests::family::Process;
use flash_tests::{ARCHITECTURES, PATIENCE, Server, admin, program, reply, set_mode, site, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// All architectures, and a server in its sandbox.
pub(crate) fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.into_iter().chain(["amped --helpers process --sandbox required"])
}

/// A server and its successors. Dropping it ends them all.
pub(crate) struct Setup {
    pub(crate) folder: TempDir,
    pub(crate) site: TempDir,
    /// Beside Flash's own program: on some machines anybody may replace what is in /tmp.
    programs: TempDir,
    pub(crate) server: Server,
    /// Those that serve, or have served, after the first one.
    pub(crate) successors: Vec<u32>,
}

impl Setup {
    pub(crate) fn new(arch: &str, flags: &[&str]) -> Self {
        Self::with(arch, flags, |_, _| {})
    }

    pub(crate) fn with(arch: &str, flags: &[&str], change: impl Fn(&mut Command, &Path)) -> Self {
        Self::without_listen(arch, |command, folder| {
            command.args(["--listen", "127.0.0.1:0"]).args(flags);
            change(command, folder);
        })
    }

    /// A server whose listeners `change` names.
    pub(crate) fn without_listen(arch: &str, change: impl Fn(&mut Command, &Path)) -> Self {
        Self::of_program(&program(), arch, change)
    }

    /// The same, of another program.
    pub(crate) fn of_program(of: &Path, arch: &str, change: impl Fn(&mut Command, &Path)) -> Self {
        let (folder, site) = (tempfile::tempdir().unwrap(), site::make());
        let programs = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for folder in [&folder, &programs] {
            set_mode(folder.path(), 0o755);
        }
        let mut command = Command::new(of);
        command.arg("serve").arg(site.path()).args(["--processes", "2"]);
        command.args(["--admin", &format!("unix:{}", folder.path().join("admin.sock").display())]);
        command.arg("--arch").args(arch.split(' ')).stdin(Stdio::null()).stdout(Stdio::null());
        change(&mut command, folder.path());
        Self { server: Server::of(command), folder, site, programs, successors: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `flash upgrade`.
    pub(crate) fn upgrade(&self, flags: &[&str]) -> Output {
        self.flash("upgrade", flags)
    }

    /// A command for administrators.
    pub(crate) fn flash(&self, command: &str, flags: &[&str]) -> Output {
        let admin = format!("unix:{}", self.path("admin.sock").display());
        Command::new(program()).args([command, "--admin", &admin]).args(flags).output().unwrap()
    }

    /// An upgrade that succeeds. Returns the number of the process that serves.
    pub(crate) fn upgraded(&mut self) -> u32 {
        let output = self.upgrade(&[]);
        let text = String::from_utf8_lossy(&output.stdout);
        let pid = text.strip_prefix("process ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        let pid = pid.unwrap_or_else(|| panic!("{output:?}; the server said: {}", self.server.said()));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        self.successors.push(pid);
        pid
    }

    /// What the command says of an upgrade that fails. The server is still the same, and serves.
    pub(crate) fn refused(&self, flags: &[&str]) -> String {
        let before = self.pid();
        let output = self.upgrade(flags);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(self.pid(), before);
        assert_eq!(self.server.get("/a.txt").status, 200);
        String::from_utf8(output.stderr).unwrap()
    }

    /// The process that answers at the admin socket.
    pub(crate) fn pid(&self) -> u32 {
        let (status, text) = admin::ask(&self.path("admin.sock"), "GET", "/status.json");
        assert_eq!(status, 200, "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["pid"].as_u64().and_then(|pid| pid.try_into().ok()).expect("a number")
    }

    /// What the server that answers at the admin socket counts.
    pub(crate) fn metrics(&self) -> String {
        let (status, text) = admin::ask(&self.path("admin.sock"), "GET", "/metrics");
        assert_eq!(status, 200, "{text}");
        text
    }

    /// Where only root and this user can put a program.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.path().join(name)
    }

    /// An executable script.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        let path = self.program(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        set_mode(&path, 0o755);
        path.to_str().unwrap().to_owned()
    }

    /// Ends the last successor, and waits for that. All have ended well.
    pub(crate) fn stop(self) {
        self.stop_and(|| {});
    }

    pub(crate) fn stop_and(mut self, check: impl Fn()) {
        let last = self.successors.pop().expect("a successor");
        signal(last, Signal::TERM);
        wait_for("the last server's end", || !Process { pid: last }.lives());
        for pid in &self.successors {
            wait_for("an earlier server's end", || !Process { pid: *pid }.lives());
        }
        assert_eq!(self.server.wait(PATIENCE), Some(Some(0)));
        let said = self.server.said();
        assert!(!said.contains("panicked") && !said.contains("internal error"), "{said}");
        check();
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.successors.iter().for_each(|pid| signal(*pid, Signal::KILL));
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    // It may have ended.
    let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, signal));
}

/// A response that has begun, and is too large for the sockets.
pub(crate) struct Download {
    stream: TcpStream,
    bytes_left: usize,
}

impl Download {
    pub(crate) fn begin(server: &Server) -> Self {
        let mut stream = server.connect();
        stream.write_all(b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut got = vec![0; 1000];
        stream.read_exact(&mut got).unwrap();
        let head = reply::find(&got, b"\r\n\r\n").expect("a head") + 4;
        Self { stream, bytes_left: 20_000_000 + head - got.len() }
    }

    /// Reads the rest, and gives the connection.
    pub(crate) fn end(mut self) -> io::Result<TcpStream> {
        self.stream.read_exact(&mut vec![0; self.bytes_left])?;
        Ok(self.stream)
    }
}

/// Asks on a connection. Returns whether it stays open.
pub(crate) fn ask(stream: &mut TcpStream) -> Result<bool, String> {
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").map_err(|error| error.to_string())?;
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    while !got.ends_with(b"0123456789") {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(format!("an end after {} bytes", got.len())),
            Ok(count) => got.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(!String::from_utf8_lossy(&got).contains("Connection: close"))
}
