//! Another server and Flash with the same configuration, and PHP for both.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flash_import::{Imported, apache, caddy, nginx};
use flash_tests::{Server, own_addresses, set_mode, wait_for};
use tempfile::TempDir;

use crate::requests;

/// A script that tells what it was told.
pub(crate) const SCRIPT: &str =
    "<?php foreach (['SCRIPT_NAME', 'REQUEST_URI', 'QUERY_STRING', 'REQUEST_METHOD', 'APP_ENV'] as $name)
    echo $name, '=', $_SERVER[$name] ?? '-', \"\\n\";";

/// The server whose configurations are imported.
#[derive(Clone, Copy)]
pub(crate) enum Foreign {
    Nginx,
    Apache,
    Caddy,
}

impl Foreign {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Apache => "apache",
            Self::Caddy => "caddy",
        }
    }

    pub(crate) fn missing(self) -> Option<&'static str> {
        let server = match self {
            Self::Nginx => ("/usr/sbin/nginx", "nginx"),
            Self::Apache => ("/usr/sbin/apache2", "apache2-bin"),
            Self::Caddy => ("/usr/bin/caddy", "caddy"),
        };
        let needed = [server, ("/usr/bin/php-cgi", "php-cgi")];
        needed.into_iter().find(|(path, _)| !Path::new(path).exists()).map(|(_, package)| package)
    }

    /// Its whole file.
    pub(crate) fn whole(self, conf: &str, work: &Path) -> String {
        let folder = work.display();
        match self {
            Self::Caddy => conf.into(),
            Self::Nginx => {
                let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                    .map(|kind| format!("{kind}_temp_path {folder}/{kind};\n"))
                    .concat();
                format!(
                    "events {{}}\nhttp {{\ninclude /etc/nginx/mime.types;\ndefault_type application/octet-stream;\n{temporary}{conf}\n}}\n"
                )
            }
            Self::Apache => {
                let modules: String = APACHE_MODULES
                    .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
                    .concat();
                format!(
                    "ServerRoot {folder}\nPidFile {folder}/pid\nErrorLog {folder}/error.log\n{modules}TypesConfig /etc/mime.types\nProxyFCGIBackendType GENERIC\n{conf}\n"
                )
            }
        }
    }

    fn import(self, path: &Path) -> Result<Imported, String> {
        match self {
            Self::Nginx => nginx::import_file(path),
            Self::Apache => apache::import_file(path),
            Self::Caddy => caddy::import_file(path),
        }
    }

    pub(crate) fn command(self, path: &Path, work: &Path, log: &Path) -> Command {
        match self {
            Self::Nginx => {
                let mut nginx = Command::new("nginx");
                let globals = format!(
                    "daemon off; user root; worker_processes 1; pid {}/pid; error_log {} warn;",
                    work.display(),
                    log.display()
                );
                nginx.arg("-e").arg(log).arg("-c").arg(path).args(["-g", &globals]);
                nginx
            }
            Self::Apache => {
                let mut apache = Command::new("apache2");
                apache.arg("-DFOREGROUND").arg("-f").arg(path);
                apache
            }
            Self::Caddy => {
                let mut caddy = Command::new("caddy");
                caddy.args(["run", "--adapter", "caddyfile", "--config"]).arg(path);
                caddy.env("HOME", work).env("XDG_DATA_HOME", work).env("XDG_CONFIG_HOME", work);
                caddy
            }
        }
    }
}

/// Those of an installation with PHP and TLS.
const APACHE_MODULES: [&str; 24] = [
    "mpm_event",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "authz_groupfile",
    "auth_basic",
    "access_compat",
    "mime",
    "env",
    "dir",
    "alias",
    "autoindex",
    "filter",
    "deflate",
    "headers",
    "expires",
    "rewrite",
    "setenvif",
    "ssl",
    "proxy",
    "proxy_fcgi",
    "proxy_http",
];

/// What an import of a configuration writes, without its list.
pub(crate) fn imported(name: &str, text: &str) -> String {
    let (conf, more) = requests::parts(text);
    let conf: String =
        conf.lines().filter(|line| !line.starts_with("# files:")).map(|line| format!("{line}\n")).collect();
    let read = |path: &Path| {
        let file = more.iter().find(|(name, _)| path.ends_with(name));
        Ok(file.map(|(_, text)| (path.to_owned(), text.clone())).into_iter().collect())
    };
    let imported = match name.split('/').next() {
        Some("nginx") => nginx::import(Path::new("nginx.conf"), &conf, &read),
        Some("caddy") => caddy::import(Path::new("Caddyfile"), &conf, &read),
        _ => apache::import(Path::new("apache2.conf"), &conf, &read),
    };
    imported.expect("its syntax is right").text
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

/// An HTTP server that tells what it was asked.
pub(crate) fn echo() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || tell(stream));
        }
    });
    port
}

/// Answers one request, and closes.
fn tell(mut stream: TcpStream) {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut part) {
            Ok(length @ 1..) => bytes.extend(&part[..length]),
            _ => return,
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let target = first.split(' ').take(2).collect::<Vec<_>>().join(" ");
    // Servers tell more than this in ways of their own.
    let is_told = |line: &&str| {
        ["host:", "authorization:", "x-site:"].iter().any(|name| line.to_ascii_lowercase().starts_with(name))
    };
    let mut told: Vec<String> = lines.filter(is_told).map(str::to_ascii_lowercase).collect();
    told.sort();
    let body = format!("{target}\n{}\n", told.join("\n"));
    let body_of = if first.starts_with("HEAD ") { "" } else { &body };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body_of}").as_bytes());
}

/// Both servers.
pub(crate) struct Both {
    /// As the other server has it.
    pub(crate) conf: String,
    pub(crate) folder: TempDir,
    pub(crate) imported: Imported,
    _child: Process,
    pub(crate) foreign: SocketAddr,
    pub(crate) flash: SocketAddr,
    _server: Server,
}

impl Both {
    /// `Err` if the import is no configuration of Flash.
    pub(crate) fn start(foreign: Foreign, name: &str, text: &str, php: &Php) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let work = folder.path();
        for file in requests::files(text) {
            let content = if file.ends_with(".php") { SCRIPT.to_owned() } else { format!("of {file}\n") };
            write(&work.join("srv").join(&file), &content);
        }
        let (text, more) = requests::parts(text);
        for (file, content) in more {
            write(&work.join("srv").join(file), &content);
        }
        write(&work.join("srv/users"), "");
        // Its processes may run as another user.
        set_mode(work, 0o755);
        let [plain, tls, plain_of_flash, tls_of_flash] = own_addresses();
        // What a snippet of Debian includes.
        fs::copy("/etc/nginx/fastcgi.conf", work.join("fastcgi.conf")).expect("the file is Debian's");
        write_certificate(work);
        let conf = adapted(text, work, &php.socket, [plain, tls]);
        let servers = regex::Regex::new(r"(127\.0\.0\.[12]):9(?-u:\b)").expect("an expression");
        let conf = servers.replace_all(&conf, format!("$1:{}", echo())).into_owned();
        let path = work.join("foreign.conf");
        fs::write(&path, foreign.whole(&conf, work)).expect("the configuration");
        let imported = foreign.import(&path).unwrap_or_else(|why| panic!("{name}: {why}"));
        let of_flash = imported
            .file()
            .replace(&plain.to_string(), &plain_of_flash.to_string())
            .replace(&tls.to_string(), &tls_of_flash.to_string());
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
        let child = foreign
            .command(&path, work, &log)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::OpenOptions::new().append(true).create(true).open(&log).expect("a log"))
            .spawn()
            .expect("it starts");
        let mut child = Process(child);
        wait_for(foreign.name(), || {
            let ended = child.0.try_wait().expect("it is a child");
            assert!(ended.is_none(), "{name}: {}", fs::read_to_string(&log).unwrap_or_default());
            TcpStream::connect(plain).is_ok()
        });
        let server = Server::start_configured(&file, &["--admin", "off"]);
        Ok(Self {
            conf,
            folder,
            imported,
            _child: child,
            foreign: plain,
            flash: plain_of_flash,
            _server: server,
        })
    }
}

impl Both {
    /// What the other server has logged.
    pub(crate) fn logged(&self) -> String {
        fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }
}

/// A child that ends with the test.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.0.id() as i32).expect("a child has a pid");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// With folders, sockets and ports of this test.
pub(crate) fn adapted(text: &str, work: &Path, php: &Path, [plain, tls]: [SocketAddr; 2]) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("listen [::]"));
    let one_space = |line: &str| match line.trim_start().starts_with("listen ") {
        true => line.split_whitespace().collect::<Vec<_>>().join(" "),
        false => line.to_owned(),
    };
    let text: String = lines.map(|line| format!("{}\n", one_space(line))).collect();
    let srv = format!("{}/srv", work.display());
    text.replace("listen 80", &format!("listen {plain}"))
        .replace("listen 443", &format!("listen {tls}"))
        .replace("Listen 80", &format!("Listen {plain}"))
        .replace("Listen 443", &format!("Listen {tls}"))
        .replace("http_port 80", &format!("http_port {}\n\tdefault_bind {}", plain.port(), plain.ip()))
        .replace("unix//run/php/php-fpm.sock", &format!("unix/{}", php.display()))
        .replace("*:80>", &format!("*:{}>", plain.port()))
        .replace("*:443>", &format!("*:{}>", tls.port()))
        .replace(" /srv", &format!(" {srv}"))
        .replace("\"/srv", &format!("\"{srv}"))
        .replace("localhost/srv", &format!("localhost{srv}"))
        .replace("/etc/ssl/", &format!("{}/", work.display()))
        .replace("${APACHE_LOG_DIR}", &work.display().to_string())
        .replace("unix:/run/php/php-fpm.sock", &format!("unix:{}", php.display()))
}

pub(crate) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder");
    fs::write(path, content).expect("a file");
}

pub(crate) fn write_certificate(work: &Path) {
    let made = rcgen::generate_simple_self_signed(["example.org".to_owned()]).expect("a certificate");
    fs::write(work.join("site.pem"), made.cert.pem()).expect("a file");
    fs::write(work.join("site.key"), made.signing_key.serialize_pem()).expect("a file");
}

/// What a server sends back. Nothing, if it closes the connection.
///
/// # Errors
/// It does not accept.
pub(crate) fn exchange(server: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut bytes = Vec::new();
    if stream.write_all(request).is_ok() {
        let _ = stream.read_to_end(&mut bytes);
    }
    Ok(bytes)
}
