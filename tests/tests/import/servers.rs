//! nginx and Flash with the same configuration, and PHP for both.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flash_import::{Imported, nginx};
use flash_tests::{Server, connect, wait_for};
use tempfile::TempDir;

use crate::requests;

/// A script that tells what it was told.
const SCRIPT: &str =
    "<?php foreach (['SCRIPT_NAME', 'REQUEST_URI', 'QUERY_STRING', 'REQUEST_METHOD'] as $name)
    echo $name, '=', $_SERVER[$name] ?? '-', \"\\n\";";

pub(crate) fn missing() -> Option<&'static str> {
    let needed = [("/usr/sbin/nginx", "nginx"), ("/usr/bin/php-cgi", "php-cgi")];
    needed.into_iter().find(|(path, _)| !Path::new(path).exists()).map(|(_, package)| package)
}

/// php-cgi at a socket.
pub(crate) struct Php {
    _child: Process,
    pub(crate) socket: PathBuf,
    _folder: TempDir,
}

impl Php {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = folder.path().join("php.sock");
        let child = Command::new("php-cgi")
            .arg("-b")
            .arg(&socket)
            .env("PHP_FCGI_CHILDREN", "4")
            .env("PHP_FCGI_MAX_REQUESTS", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("php-cgi starts");
        let child = Process(child);
        wait_for("php-cgi", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        Self { _child: child, socket, _folder: folder }
    }
}

/// Both servers.
pub(crate) struct Both {
    /// As nginx has it.
    pub(crate) conf: String,
    pub(crate) folder: TempDir,
    pub(crate) imported: Imported,
    _child: Process,
    pub(crate) nginx: SocketAddr,
    pub(crate) flash: SocketAddr,
    _server: Server,
}

impl Both {
    /// `Err` if the import is no configuration of Flash.
    pub(crate) fn start(name: &str, text: &str, php: &Php) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let work = folder.path();
        for file in requests::files(text) {
            let path = work.join("srv").join(&file);
            fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder");
            let content = if file.ends_with(".php") { SCRIPT.to_owned() } else { format!("of {file}\n") };
            fs::write(path, content).expect("a file");
        }
        let [plain, tls, plain_of_flash, tls_of_flash] = [(); 4].map(|()| free());
        // What a snippet of Debian includes.
        fs::copy("/etc/nginx/fastcgi.conf", work.join("fastcgi.conf")).expect("the file is Debian's");
        write_certificate(work);
        let conf = adapted(text, work, &php.socket, [plain, tls]);
        let path = work.join("nginx.conf");
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {}/{kind};\n", work.display()))
            .concat();
        let whole = format!(
            "events {{}}\nhttp {{\ninclude /etc/nginx/mime.types;\ndefault_type application/octet-stream;\n{temporary}{conf}\n}}\n"
        );
        fs::write(&path, whole).expect("the configuration");
        let imported = nginx::import_file(&path).unwrap_or_else(|why| panic!("{name}: {why}"));
        let of_flash = imported
            .file()
            .replace(&format!("127.0.0.1:{plain}"), &format!("127.0.0.1:{plain_of_flash}"))
            .replace(&format!("127.0.0.1:{tls}"), &format!("127.0.0.1:{tls_of_flash}"));
        let file = work.join("flash.toml");
        fs::write(&file, of_flash).expect("the file is written");
        let check = Command::new(flash_tests::program())
            .args(["check", "--config"])
            .arg(&file)
            .output()
            .expect("flash runs");
        let said = String::from_utf8_lossy(&check.stderr).into_owned();
        if !check.status.success() {
            return Err(said);
        }
        let log = work.join("error.log");
        let globals = format!(
            "daemon off; user root; worker_processes 1; pid {}/pid; error_log {} warn;",
            work.display(),
            log.display()
        );
        let child = Command::new("nginx")
            .args(["-e"])
            .arg(&log)
            .arg("-c")
            .arg(&path)
            .args(["-g", &globals])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx starts");
        let mut child = Process(child);
        let nginx = SocketAddr::from(([127, 0, 0, 1], plain));
        wait_for("nginx", || {
            let ended = child.0.try_wait().expect("it is a child");
            assert!(ended.is_none(), "{name}: {}", fs::read_to_string(&log).unwrap_or_default());
            TcpStream::connect(nginx).is_ok()
        });
        let server = Server::start_configured(&file, &["--admin", "off"]);
        let flash = SocketAddr::from(([127, 0, 0, 1], plain_of_flash));
        Ok(Self { conf, folder, imported, _child: child, nginx, flash, _server: server })
    }
}

/// A child that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.0.id() as i32).expect("a child has a pid");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// With folders, sockets and ports of this test.
fn adapted(text: &str, work: &Path, php: &Path, [plain, tls]: [u16; 2]) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("listen [::]"));
    let one_space = |line: &str| match line.trim_start().starts_with("listen ") {
        true => line.split_whitespace().collect::<Vec<_>>().join(" "),
        false => line.to_owned(),
    };
    let text: String = lines.map(|line| format!("{}\n", one_space(line))).collect();
    text.replace("listen 80", &format!("listen 127.0.0.1:{plain}"))
        .replace("listen 443", &format!("listen 127.0.0.1:{tls}"))
        .replace(" /srv/", &format!(" {}/srv/", work.display()))
        .replace("/etc/ssl/", &format!("{}/", work.display()))
        .replace("unix:/run/php/php-fpm.sock", &format!("unix:{}", php.display()))
}

fn write_certificate(work: &Path) {
    let made = rcgen::generate_simple_self_signed(["example.org".to_owned()]).expect("a certificate");
    fs::write(work.join("site.pem"), made.cert.pem()).expect("a file");
    fs::write(work.join("site.key"), made.signing_key.serialize_pem()).expect("a file");
}

/// What a server sends back. Nothing, if it closes the connection.
pub(crate) fn exchange(server: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = connect(server);
    let mut bytes = Vec::new();
    if stream.write_all(request).is_ok() {
        let _ = stream.read_to_end(&mut bytes);
    }
    bytes
}

fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port()
}
