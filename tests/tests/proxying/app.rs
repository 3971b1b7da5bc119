//! Applications that run behind the server of a test.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use flash_tests::{need, wait_for};

pub(crate) struct App {
    child: RefCell<Child>,
    port: u16,
    /// The files of its certificate and key, if it has one.
    tls: Option<(String, String)>,
    is_php: bool,
}

impl App {
    pub(crate) fn node() -> Self {
        let (child, port) = node(0, None);
        Self { child: child.into(), port, tls: None, is_php: false }
    }

    /// With the files of a certificate and its key.
    pub(crate) fn node_with_tls(files: &(String, String)) -> Self {
        let (child, port) = node(0, Some(files));
        Self { child: child.into(), port, tls: Some(files.clone()), is_php: false }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// PHP's own server, for files in this folder.
    pub(crate) fn php(folder: &Path) -> Self {
        let port = free_port();
        let mut php = Command::new(need("php", "php-cli"));
        php.args(["-S", &format!("127.0.0.1:{port}"), "-t"]).arg(folder);
        Self::listening(&mut php, port, true)
    }

    /// Python's.
    pub(crate) fn python(folder: &Path) -> Self {
        let port = free_port();
        let mut python = Command::new(need("python3", "python3"));
        python.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]).current_dir(folder);
        Self::listening(&mut python, port, false)
    }

    fn listening(command: &mut Command, port: u16, is_php: bool) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_for("the application listens", || TcpStream::connect(address).is_ok());
        Self { child: child.into(), port, tls: None, is_php }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn is_php(&self) -> bool {
        self.is_php
    }

    /// How many connections it has.
    pub(crate) fn connections(&self) -> usize {
        let all = std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default()
            + &std::fs::read_to_string("/proc/net/tcp").expect("there is a table");
        let local = format!(":{:04X}", self.port);
        let is_ours = |line: &&str| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            words.len() > 3 && words[1].ends_with(&local) && words[3] == "01"
        };
        all.lines().filter(is_ours).count()
    }

    /// Ends it, as `kill -9` does.
    pub(crate) fn stop_one(&self) {
        let mut child = self.child.borrow_mut();
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }

    /// Starts it at the same port.
    pub(crate) fn start_again(&self) {
        *self.child.borrow_mut() = node(self.port, self.tls.as_ref()).0;
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let mut child = self.child.borrow_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn node(port: u16, tls: Option<&(String, String)>) -> (Child, u16) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proxying/app.js");
    let mut child = Command::new(need("node", "nodejs"))
        .args([script, &port.to_string()])
        .args(tls.into_iter().flat_map(|(certificate, key)| [certificate, key]))
        .stdout(Stdio::piped())
        .spawn()
        .expect("node runs");
    let mut line = String::new();
    let said = child.stdout.take().expect("it is piped");
    BufReader::new(said).read_line(&mut line).expect("it says its port");
    (child, line.trim().parse().expect("a port"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}
