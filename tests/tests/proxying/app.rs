//! Applications that run behind the server of a test.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use flash_tests::{need, own_addresses, wait_for};

pub(crate) struct App {
    child: RefCell<Child>,
    address: SocketAddr,
    /// The files of its certificate and key, if it has one.
    tls: Option<(String, String)>,
    is_php: bool,
}

impl App {
    pub(crate) fn node() -> Self {
        Self::of_node(None)
    }

    /// With the files of a certificate and its key.
    pub(crate) fn node_with_tls(files: &(String, String)) -> Self {
        Self::of_node(Some(files))
    }

    fn of_node(tls: Option<&(String, String)>) -> Self {
        let (child, port) = node(0, tls);
        let address = (Ipv4Addr::LOCALHOST, port).into();
        Self { child: child.into(), address, tls: tls.cloned(), is_php: false }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// PHP's own server, for files in this folder.
    pub(crate) fn php(folder: &Path) -> Self {
        let [address] = own_addresses();
        let mut php = Command::new(need("php", "php-cli"));
        php.args(["-S", &address.to_string(), "-t"]).arg(folder);
        Self::listening(&mut php, address, true)
    }

    /// Python's.
    pub(crate) fn python(folder: &Path) -> Self {
        let [address] = own_addresses();
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let mut python = Command::new(need("python3", "python3"));
        python.args(["-m", "http.server", "--bind", &host, &port]).current_dir(folder);
        Self::listening(&mut python, address, false)
    }

    /// Python's, with a page for uploads.
    pub(crate) fn python_upload() -> Self {
        let [address] = own_addresses();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proxying/app.py");
        let mut python = Command::new(need("python3", "python3"));
        python.args([script, &address.ip().to_string(), &address.port().to_string()]);
        Self::listening(&mut python, address, false)
    }

    fn listening(command: &mut Command, address: SocketAddr, is_php: bool) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        wait_for("the application listens", || TcpStream::connect(address).is_ok());
        Self { child: child.into(), address, tls: None, is_php }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn is_php(&self) -> bool {
        self.is_php
    }

    /// How many connections it has.
    pub(crate) fn connections(&self) -> usize {
        let all = std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default()
            + &std::fs::read_to_string("/proc/net/tcp").expect("there is a table");
        let SocketAddr::V4(address) = self.address else { unreachable!("it has one of version 4") };
        let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
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
        *self.child.borrow_mut() = node(self.port(), self.tls.as_ref()).0;
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
