//! A server with an admin socket, and requests there.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flash_tests::{PATIENCE, Server, program, site};
use tempfile::TempDir;

pub(crate) struct Setup {
    pub(crate) server: Server,
    folder: TempDir,
}

impl Setup {
    pub(crate) fn start(arch: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("site")).expect("a folder");
        site::write(&folder.path().join("site/a.txt"), b"a");
        let server = serve(arch, &folder, flags);
        Self { server, folder }
    }

    /// The same for this folder.
    pub(crate) fn start_in(site: &Path, arch: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::os::unix::fs::symlink(site, folder.path().join("site")).expect("a link");
        let server = serve(arch, &folder, flags);
        Self { server, folder }
    }

    /// A server with a configuration file, which it can read again.
    pub(crate) fn configured(arch: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().display();
        std::fs::create_dir(folder.path().join("site")).expect("a folder");
        site::write(&folder.path().join("site/a.txt"), b"a");
        let text = format!(
            "root = '{path}/site'\nlisten = '127.0.0.1:0'\nadmin = 'unix:{path}/admin.sock'\narch = '{arch}'\n\
             processes = 2\n"
        );
        let file = folder.path().join("flash.toml");
        std::fs::write(&file, text).expect("the file is written");
        Self { server: Server::start_configured(&file, &[]), folder }
    }

    pub(crate) fn reload(&self) {
        let (head, body) = self.ask_by("POST", "/reload");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}: {body}");
    }

    /// Another server in the place of this one.
    pub(crate) fn restart(self) -> Self {
        let Self { server, folder } = self;
        server.stop();
        Self { server: serve("amped", &folder, &[]), folder }
    }

    pub(crate) fn admin(&self) -> PathBuf {
        self.folder.path().join("admin.sock")
    }

    /// The folder that is served.
    pub(crate) fn site(&self) -> PathBuf {
        self.folder.path().join("site")
    }

    fn connect(&self, method: &str, path: &str, fields: &str) -> UnixStream {
        self.connect_by(method, path, &format!("Host: flash\r\n{fields}"))
    }

    fn connect_by(&self, method: &str, path: &str, fields: &str) -> UnixStream {
        let mut stream = UnixStream::connect(self.admin()).expect("the admin socket accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        write!(stream, "{method} {path} HTTP/1.1\r\n{fields}\r\n").expect("it takes the request");
        stream
    }

    /// The head of an answer, and its body.
    pub(crate) fn ask(&self, path: &str) -> (String, String) {
        self.ask_by("GET", path)
    }

    pub(crate) fn ask_by(&self, method: &str, path: &str) -> (String, String) {
        self.ask_with(method, path, "")
    }

    /// As [`Setup::ask`], with more fields, each with its line's end.
    pub(crate) fn ask_with(&self, method: &str, path: &str, fields: &str) -> (String, String) {
        parts(self.connect(method, path, fields))
    }

    /// As [`Setup::ask`], by another name of the host.
    pub(crate) fn ask_host(&self, path: &str, host: &str) -> (String, String) {
        parts(self.connect_by("GET", path, &format!("Host: {host}\r\n")))
    }

    pub(crate) fn watch(&self) -> Watcher {
        Watcher(BufReader::new(self.connect("GET", "/events", "")))
    }

    /// A command about this server.
    pub(crate) fn run(&self, command: &[&str]) -> Output {
        let admin = format!("unix:{}", self.admin().display());
        Command::new(program()).args(command).args(["--admin", &admin]).output().expect("flash runs")
    }
}

/// The head of an answer, and its body.
fn parts(mut stream: UnixStream) -> (String, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head ends");
    (head.to_owned(), body.to_owned())
}

fn serve(arch: &str, folder: &TempDir, flags: &[&str]) -> Server {
    let admin = format!("unix:{}", folder.path().join("admin.sock").display());
    let flags = [&["--admin", &admin, "--processes", "2"], flags].concat();
    Server::start(arch, &folder.path().join("site"), &flags)
}

/// A client of `/events`.
pub(crate) struct Watcher(BufReader<UnixStream>);

impl Watcher {
    /// The status line.
    pub(crate) fn status(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line
    }

    /// The data of the next event. `None` at the end.
    pub(crate) fn next(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).expect("a line in time") == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(data.to_owned());
            }
        }
    }
}
